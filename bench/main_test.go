package main

import (
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// programs are the C programs, built once for all tests.
var programs = sync.OnceValues(func() (harness.Programs, error) {
	dir, err := os.MkdirTemp("", "bench-test-")
	if err != nil {
		return harness.Programs{}, err
	}
	folder = dir
	p, version, err := harness.Compile(dir, registry.Sources)
	if err == nil {
		harness.CompileOnce(p, version)
	}
	return p, err
})

var folder string // of what was compiled

// needGCC is for tests that need the C programs.
func needGCC(t *testing.T) harness.Programs {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		testnet.Missing(t, "gcc", err) // the client is compiled
	}
	p, err := programs()
	require.NoError(t, err)
	return p
}

// The harness starts its Go servers as sub-commands of its own binary; in a test that is the test binary.
func TestMain(m *testing.M) {
	for name, run := range misbehaving {
		registry.Peers = append(registry.Peers, harness.Peer{Name: name, About: "misbehaves on purpose", Go: true,
			Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count", "resp"},
			Subcommands: []harness.Subcommand{{Name: name, Run: run}}})
	}
	if len(os.Args) > 1 && os.Args[1] == "peer" {
		os.Exit(registry.RunPeer(os.Args[2:], os.Stdout, os.Stderr))
	}
	// Under the race detector each server would sleep for a second before it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}
