package main

import (
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// compile builds the C programs for all tests.
var compile = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "bench-test-")
	if err != nil {
		return err
	}
	folder = dir
	built.version, err = built.programs.compileC(dir)
	return err
})

var folder string // of what was compiled

// needGCC is for tests that need the C programs.
func needGCC(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is missing, and with it the client: ", err)
	}
	require.NoError(t, compile())
}

// The harness starts its Go servers as sub-commands of its own binary; in a test that is the test binary.
func TestMain(m *testing.M) {
	for name, run := range misbehaving {
		peerCommands[name] = run
		servers = append(servers, withRESP(goServer(name, "misbehaves on purpose", noRest, name)))
	}
	if len(os.Args) > 1 && os.Args[1] == "peer" {
		os.Exit(peerMain(os.Args[2:], os.Stdout, os.Stderr))
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
