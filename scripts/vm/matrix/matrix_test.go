package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The generated section of docs/platforms.md is what the records say.
func TestDocsAreOfTheRecords(t *testing.T) {
	all, err := readRecords(filepath.Join("../../..", recordsPath))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join("../../..", docsPath))
	require.NoError(t, err)
	want, err := replaceSection(text, render(all))
	require.NoError(t, err)
	require.Equal(t, string(want), string(text), "go run ./scripts/vm/matrix -render")
}

func TestCells(t *testing.T) {
	all, err := choose(nil)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, c := range all {
		require.NotNil(t, c.group)
		require.False(t, seen[c.file()], c)
		seen[c.file()] = true
	}
	one, err := choose([]string{"6.1/kernel"})
	require.NoError(t, err)
	require.Len(t, one, 1)
	require.Equal(t, "6.1/kernel", one[0].String())
	_, err = choose([]string{"6.1/ring"})
	require.ErrorContains(t, err, "6.1/ring: no such cell")
}

func TestReasonsAreBrief(t *testing.T) {
	require.Equal(t, "missing: capture iex/a.pcap.gz", brief("missing: capture iex/a.pcap.gz: stat ../../a.pcap.gz: no such file"))
	require.Equal(t, "missing: go", brief("missing: go"))
	require.Equal(t, "Linux 6.1: no TCX", brief("Linux 6.1: no TCX"))
}

// What a machine leaves is counted: tests that passed, that failed, that were skipped and why; a package that it did not come to.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("release", "6.1.0-49-cloud-amd64\n")
	write("slow", "12\n")
	write("list", "ring/uring ring-uring\nudp udp\nxtreme xtreme\nconf conf\n")
	write("ring-uring.code", "1\n")
	write("ring-uring.seconds", "70\n")
	write("udp.code", "0\n")
	const p = `"Package":"github.com/socketxtreme/socketxtreme/ring/uring"`
	write("json", `{"Action":"pass",`+p+`,"Test":"TestA/one"}
{"Action":"fail",`+p+`,"Test":"TestA/two|three"}
{"Action":"fail",`+p+`,"Test":"TestA"}
{"Action":"output",`+p+`,"Test":"TestB","Output":"    limits_test.go:161: Linux 6.1 does not count\n"}
{"Action":"skip",`+p+`,"Test":"TestB"}
{"Action":"fail",`+p+`}
{"Action":"pass","Package":"github.com/socketxtreme/socketxtreme/udp","Test":"TestC"}
{"Action":"run","Package":"github.com/socketxtreme/socketxtreme/xtreme","Test":"TestD"}
{"Action":"pass","Package":"github.com/socketxtreme/socketxtreme/xtreme","Test":"TestD"}
{"Action":"run","Package":"github.com/socketxtreme/socketxtreme/xtreme","Test":"TestE"}
{"Action":"run","Package":"github.com/socketxtreme/socketxtreme/xtreme","Test":"TestE/six"}
`)
	c := cell{"6.1", &group{name: "rings"}}
	all, err := readResults(dir, c, time.Unix(0, 0))
	require.NoError(t, err)
	require.Len(t, all, 4)
	uring := record{Kernel: "6.1", Group: "rings", Release: "6.1.0-49-cloud-amd64", Package: "ring/uring", Result: "fail", Passed: 1,
		Failed: []string{"TestA/two|three", "TestA"}, Skipped: map[string]int{"Linux 6.1 does not count": 1}, Seconds: 70, Slow: 12, Date: "1970-01-01"}
	require.Equal(t, uring, all[0])
	require.Equal(t, "none", all[2].Result)
	require.Equal(t, []string{"TestE", "TestE/six"}, all[2].Unended)

	path := filepath.Join(dir, "records")
	other := record{Kernel: "6.1", Group: "base", Package: "udp", Result: "pass"}
	require.NoError(t, writeRecords(path, replace([]record{other, {Kernel: "6.1", Group: "rings", Package: "gone"}}, c, all)))
	read, err := readRecords(path)
	require.NoError(t, err)
	require.Len(t, read, 5)
	require.Equal(t, other, read[0])

	text := render(read)
	require.Contains(t, text, "| `ring/uring` | **fails**: TestA/two\\|three |")
	require.Contains(t, text, "| `xtreme` | **no end** of TestE/six after 1 |")
	require.Contains(t, text, "| `conf` | the machine ended before |")
	require.Contains(t, text, "| Linux 6.1 does not count | 1 |")
}
