package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/bench/internal/listing"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// A peer and a row that nobody has, each declared in one file.
const (
	madeUpPeer = `package peers

import "github.com/socketxtreme/socketxtreme/bench/harness"

var madeUp = harness.Peer{
	Name: "made-up", About: "Go net under another name", Go: true,
	Protos: []string{"udp"}, Roles: []string{"echo"},
	Subcommands: []harness.Subcommand{{Name: "made-up", Run: serveNet}},
}
`
	madeUpRow = `package rows

import "github.com/socketxtreme/socketxtreme/bench/harness"

var madeUp = harness.Family{
	Name: "made up", About: "A peer that nobody has, beside a loop in C.",
	Rows: func([]string) []harness.Row {
		w := pingPong("udp", 1)
		w.Name = "made-up-pingpong"
		return []harness.Row{{Workload: w, Ours: "made-up", Peer: "c-recv", Metric: harness.MedianLatency}}
	},
}
`
)

// One file makes a peer, one file makes a row, and go generate lists both: the program that is built of them runs them.
func TestMadeUpPeerAndRowAppearInTheRun(t *testing.T) {
	needGCC(t)
	compiler, err := exec.LookPath("go")
	if err != nil {
		testnet.Missing(t, "go", err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	add := func(folder, file string, text []byte) {
		at, err := filepath.Abs(filepath.Join(folder, file))
		require.NoError(t, err)
		overlay.Replace[at] = filepath.Join(dir, folder+"-"+file)
		require.NoError(t, os.WriteFile(overlay.Replace[at], text, 0o600))
	}
	for folder, c := range map[string]struct{ typeName, text string }{
		"peers": {"harness.Peer", madeUpPeer}, "rows": {"harness.Family", madeUpRow},
	} {
		files, err := listing.Read(folder)
		require.NoError(t, err)
		files["made_up.go"] = []byte(c.text)
		list, missing, err := listing.Update(files["list.go"], c.typeName, files)
		require.NoError(t, err)
		require.Equal(t, []string{"madeUp"}, missing)
		add(folder, "made_up.go", []byte(c.text))
		add(folder, "list.go", list)
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600))
	program := filepath.Join(dir, "bench")
	out, err := exec.Command(compiler, "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)

	out, err = exec.Command(program, "-list").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "made-up-pingpong/p50/made-up/c-recv")
	out, err = exec.Command(program, "-quick", "-run", "^made-up").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?m)^made-up-pingpong/p50/made-up/c-recv .* measured`, string(out))
}
