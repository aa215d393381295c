package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// cSources travels inside the binary, so that a run needs no source tree.
//
//go:embed c/*.c c/*.h
var cSources embed.FS

// errNoGCC is the whole run's error: the client is a C program.
var errNoGCC = errors.New("the C client and the C peers need gcc; apt-get install gcc")

// built are programs and a version line that compileC takes as they are. A run has none; the tests, which are many runs, compile once.
var built struct {
	programs programs
	version  string
}

// compileC builds the C programs in dir; it fills in their paths and returns the compiler's version line.
func (p *programs) compileC(dir string) (version string, err error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("%w (%w)", errNoGCC, err)
	}
	if b := built.programs; built.version != "" {
		p.client, p.pipeline, p.cServer, p.xdp, p.source, p.receive = b.client, b.pipeline, b.cServer, b.xdp, b.source, b.receive
		return built.version, nil
	}
	entries, err := cSources.ReadDir("c")
	if err != nil {
		return "", fmt.Errorf("sources of the C programs: %w", err)
	}
	for _, e := range entries {
		text, err := cSources.ReadFile("c/" + e.Name())
		if err != nil {
			return "", fmt.Errorf("sources of the C programs: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), text, 0o600); err != nil {
			return "", fmt.Errorf("write the sources of the C programs: %w", err)
		}
	}
	for at, name := range map[*string]string{&p.client: "client", &p.pipeline: "pipeline", &p.cServer: "server", &p.xdp: "xdp",
		&p.source: "source", &p.receive: "receive"} {
		*at = filepath.Join(dir, name)
		out, err := exec.Command(gcc, "-O2", "-o", *at, *at+".c").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("gcc %s.c: %w\n%s", name, err, bytes.TrimSpace(out))
		}
	}
	out, err := exec.Command(gcc, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("gcc --version: %w", err)
	}
	version, _, _ = strings.Cut(string(out), "\n")
	return version + ", -O2", nil
}
