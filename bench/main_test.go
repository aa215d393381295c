package main

import (
	"os"
	"testing"
)

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
	os.Exit(m.Run())
}
