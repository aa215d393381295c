package offload_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Every reason that an offloaded socket can have is in docs/offload.md, by its code; and what the documents name, there is.
func TestReasonsAreDocumented(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine searches files: the race detector sees nothing")
	}
	text, err := os.ReadFile("../../docs/offload.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## Reasons\n")
	require.True(t, found)
	reason := regexp.MustCompile(`(?:[Cc]ode: +|Code [!=]= |\bfail\(|\bno\(|\bReason\w+ += )` +
		`"((?:link|offload|ring|route|xdp|checksum|stamp|mcast)\.\w+)"`)
	codes, literal := 0, map[string]bool{}
	quoted := regexp.MustCompile(`"([a-z]+\.[a-z][a-z_0-9]+)"`)
	for _, pattern := range []string{"*.go", "*/*.go", "../*.go", "../link/xdp/*.go", "../link/guard/*.go", "../link/record/*.go", "../../xtreme/*.go", "../../internal/host/*.go",
		"../*/*.go", "../internal/*/*.go", "../../internal/*/*.go", "../../udp/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			for _, m := range quoted.FindAllStringSubmatch(string(source), -1) {
				literal[m[1]] = true
			}
			for _, m := range reason.FindAllStringSubmatch(string(source), -1) {
				codes++
				if !strings.Contains(table, "`"+m[1]+"`") {
					t.Errorf("%s: %s is not in docs/offload.md", name, m[1])
				}
			}
		}
	}
	require.Greater(t, codes, 60, "the sources were searched")

	inTable := regexp.MustCompile("`([a-z]+\\.[a-z][a-z_0-9]+)`")
	rows := 0
	for _, line := range strings.Split(table, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range inTable.FindAllStringSubmatch(cells[1], -1) {
				if rows++; !literal[m[1]] {
					t.Errorf("docs/offload.md has %s, which no source has", m[1])
				}
			}
		}
	}
	require.Greater(t, rows, 60)
	for _, s := range stats.Sections() { // what xtstat prints: "ring.packets"
		for _, c := range s.Counters {
			literal[s.Name+"."+c.Name] = true
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	code := regexp.MustCompile(`\b((?:link|offload|ring|route|xdp|checksum|stamp|mcast|rule|setting)\.[a-z][a-z_0-9]+)\b`)
	for _, name := range append(pages, "../../README.md", "../../ARCHITECTURE.md") {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range code.FindAllStringSubmatch(strings.ReplaceAll(string(page), `\_`, "_"), -1) {
			if !literal[m[1]] && !strings.HasSuffix(m[1], ".md") && !strings.HasSuffix(m[1], ".go") {
				t.Errorf("%s has %s, which no source has", name, m[1])
			}
		}
	}
}
