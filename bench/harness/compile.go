package harness

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// clientSources are the load generators of the kernel's sockets and what they share with peers written in C. They travel inside the binary,
// so that a run needs no source tree.
//
//go:embed c/*.c c/*.h
var clientSources embed.FS

// The load generators.
const (
	clientProgram   = "client"
	pipelineProgram = "pipeline" // of Mode Pipeline
	sourceProgram   = "source"   // of Mode Flood
)

// ErrNoGCC is the whole run's error: the client is a C program.
var ErrNoGCC = errors.New("the C client and the C peers need gcc; apt-get install gcc")

// Programs are the executables of a run.
type Programs struct {
	Self string // this binary, which contains the peers written in Go
	Dir  string // of those that were compiled
}

// C is the program that NAME.c was compiled to.
func (p Programs) C(name string) string { return filepath.Join(p.Dir, name) }

// built are programs and a version line that Compile takes as they are. A run has none; the tests, which are many runs, compile once.
var built struct {
	programs Programs
	version  string
}

// CompileOnce makes all later runs of this process use what Compile made. For tests.
func CompileOnce(p Programs, version string) { built.programs, built.version = p, version }

// Compile builds the C programs of the harness and of the peers in dir; it returns the compiler's version line as well.
func Compile(dir string, sources fs.FS) (p Programs, version string, err error) {
	if p.Self, err = os.Executable(); err != nil {
		return p, "", fmt.Errorf("path of this program: %w", err)
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return p, "", fmt.Errorf("%w (%w)", ErrNoGCC, err)
	}
	if built.version != "" {
		return built.programs, built.version, nil
	}
	p.Dir = dir
	for _, from := range []fs.FS{clientSources, sources} {
		if err := unpack(from, dir); err != nil {
			return p, "", fmt.Errorf("sources of the C programs: %w", err)
		}
	}
	list, err := filepath.Glob(filepath.Join(dir, "*.c"))
	if err != nil {
		return p, "", fmt.Errorf("sources of the C programs: %w", err)
	}
	for _, source := range list {
		out, err := exec.Command(gcc, "-O2", "-o", strings.TrimSuffix(source, ".c"), source).CombinedOutput()
		if err != nil {
			return p, "", fmt.Errorf("gcc %s: %w\n%s", filepath.Base(source), err, bytes.TrimSpace(out))
		}
	}
	out, err := exec.Command(gcc, "--version").Output()
	if err != nil {
		return p, "", fmt.Errorf("gcc --version: %w", err)
	}
	version, _, _ = strings.Cut(string(out), "\n")
	return p, version + ", -O2", nil
}

// unpack writes all sources of a tree into one folder, so that they find each other's headers.
func unpack(from fs.FS, dir string) error {
	if from == nil {
		return nil
	}
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, d.Name()), text, 0o600)
	})
}
