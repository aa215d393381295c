package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readyTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
)

// ErrRefused wraps the sentence of a server that says it cannot run on this machine.
var ErrRefused = errors.New("refused")

// Process is a server that has said it is ready.
type Process struct {
	name   string
	cmd    *exec.Cmd
	end    syscall.Signal // that asks it to
	Port   int
	stderr *tail
	ended  chan error // receives the result of Wait once

	// What it said at its end; to be read when it has been stopped.
	Mallocs    uint64
	HasMallocs bool
	kicks      float64 // system calls per message that moved packets
	looks      float64 // and those that looked whether there are any
	hasCalls   bool
	path       string // how its packets travel
}

// StartServer starts the command at the given place and waits until it is ready.
func StartServer(s Peer, argv []string, at Place, procs int) (*Process, error) {
	p := &Process{name: s.Name, cmd: exec.Command(argv[0], argv[1:]...), end: syscall.SIGTERM, stderr: &tail{},
		ended: make(chan error, 1)}
	if s.FixedPort > 0 {
		p.end = syscall.SIGINT
	}
	p.cmd.Stderr = p.stderr
	p.cmd.Env = os.Environ()
	if s.Go {
		p.cmd.Env = goEnvironment(procs)
	}
	// A spinning server must not outlive a harness that was killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", s.Name, err)
	}
	if err := at.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("server %s: %w", s.Name, err)
	}
	first := make(chan string, 1)
	if s.FixedPort > 0 {
		go p.keepOutput(out)
		return p, p.awaitPort(s.FixedPort)
	}
	go func() {
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n') // an end without a line is the empty line, which is not "ready"
		first <- strings.TrimSpace(line)
		p.readOutput(r)
		p.ended <- p.cmd.Wait()
	}()
	select {
	case line := <-first:
		port, ok := strings.CutPrefix(line, "ready ")
		if p.Port, err = strconv.Atoi(port); ok && err == nil && p.Port > 0 && p.Port < 65536 {
			return p, nil
		}
		p.kill()
		if reason, ok := strings.CutPrefix(line, "refused "); ok {
			return nil, fmt.Errorf("server %s %w: %s", s.Name, ErrRefused, reason)
		}
		return nil, fmt.Errorf("server %s printed %q instead of \"ready PORT\"%s", s.Name, line, p.stderr)
	case <-time.After(readyTimeout):
		p.kill()
		return nil, fmt.Errorf("server %s was not ready within %s%s", s.Name, readyTimeout, p.stderr)
	}
}

// readOutput keeps the pipe empty until the server ends, and remembers what it says of itself.
func (p *Process) readOutput(r *bufio.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "mallocs "); ok {
			n, err := strconv.ParseUint(text, 10, 64)
			p.Mallocs, p.HasMallocs = n, err == nil
		}
		if text, ok := strings.CutPrefix(lines.Text(), "calls "); ok {
			_, err := fmt.Sscanf(text, "%g %g", &p.kicks, &p.looks)
			p.hasCalls = err == nil
		}
		if text, ok := strings.CutPrefix(lines.Text(), "path "); ok {
			p.path = text
		}
	}
	_, _ = io.Copy(io.Discard, r) // after a line too long for the scanner
}

// Stop ends the server the way the protocol asks for, and complains when it does not obey.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(p.end); err != nil {
		return fmt.Errorf("server %s ended before it was told to: %w%s", p.name, err, p.stderr)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			return fmt.Errorf("server %s after %v: %w%s", p.name, p.end, err, p.stderr)
		}
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("server %s did not end within %s of %v", p.name, stopTimeout, p.end)
	}
}

func (p *Process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself; waiting for it is what matters
	<-p.ended
}

// memory returns the resident size of the server, now and at its highest, in bytes.
func (p *Process) memory() (now, peak uint64, err error) {
	path := fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, fmt.Errorf("memory of server %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			now = kib << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			peak = kib << 10
		}
	}
	if now == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("memory of server %s: no VmRSS and VmHWM in %s", p.name, path)
	}
	return now, peak, nil
}

// RunProgram runs a program to its end and returns its last line and what it used.
func RunProgram(ctx context.Context, name string, argv, env []string, at Place, limit time.Duration) (
	line []byte, used *syscall.Rusage, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	errs := &tail{}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, errs, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := at.Start(cmd); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := cmd.Wait(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w%s", name, err, errs)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, nil, fmt.Errorf("%s: this system does not tell what it used", name)
	}
	return bytes.TrimSpace(out.Bytes()), usage, nil
}

// goEnvironment is the environment of a program written in Go.
func goEnvironment(procs int) []string {
	return append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
}

// allowedCPUs lists the CPUs this process may run on.
func allowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read CPU affinity: %w", err)
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// tail keeps the last part of what a process writes to its standard error, for error messages.
type tail struct{ kept []byte }

// Write never fails; os/exec calls it from one goroutine, and String is called only after Wait.
func (t *tail) Write(b []byte) (int, error) {
	const most = 2048
	t.kept = append(t.kept, b...)
	if len(t.kept) > most {
		t.kept = t.kept[len(t.kept)-most:]
	}
	return len(b), nil
}

// String returns the last output of a program, for errors.
func (t *tail) String() string {
	if text := strings.TrimSpace(string(t.kept)); text != "" {
		return ": " + text
	}
	return ""
}
