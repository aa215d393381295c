package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
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

// errRefused wraps the sentence of a server that says it cannot run on this machine.
var errRefused = errors.New("refused")

// serverProcess is a server that has said it is ready.
type serverProcess struct {
	name   string
	cmd    *exec.Cmd
	port   int
	stderr *tail
	ended  chan error // receives the result of Wait once

	// What it said at its end; to be read when it has been stopped.
	mallocs    uint64
	hasMallocs bool
}

// startServer starts the command on the given CPU (-1: anywhere) and waits until it is ready.
func startServer(s Server, argv []string, cpu, procs int) (*serverProcess, error) {
	p := &serverProcess{name: s.Name, cmd: exec.Command(argv[0], argv[1:]...), stderr: &tail{}, ended: make(chan error, 1)}
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
	if err := startOn(p.cmd, cpu); err != nil {
		return nil, fmt.Errorf("server %s: %w", s.Name, err)
	}
	first := make(chan string, 1)
	go func() {
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n') // an end without a line is the empty line, which is not "ready"
		first <- strings.TrimSpace(line)
		p.listen(r)
		p.ended <- p.cmd.Wait()
	}()
	select {
	case line := <-first:
		port, ok := strings.CutPrefix(line, "ready ")
		if p.port, err = strconv.Atoi(port); ok && err == nil && p.port > 0 && p.port < 65536 {
			return p, nil
		}
		p.kill()
		if reason, ok := strings.CutPrefix(line, "refused "); ok {
			return nil, fmt.Errorf("server %s %w: %s", s.Name, errRefused, reason)
		}
		return nil, fmt.Errorf("server %s printed %q instead of \"ready PORT\"%s", s.Name, line, p.stderr)
	case <-time.After(readyTimeout):
		p.kill()
		return nil, fmt.Errorf("server %s was not ready within %s%s", s.Name, readyTimeout, p.stderr)
	}
}

// listen keeps the pipe empty until the server ends, and remembers what it says of itself.
func (p *serverProcess) listen(r *bufio.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "mallocs "); ok {
			n, err := strconv.ParseUint(text, 10, 64)
			p.mallocs, p.hasMallocs = n, err == nil
		}
	}
	_, _ = io.Copy(io.Discard, r) // after a line too long for the scanner
}

// stop ends the server the way the protocol asks for, and complains when it does not obey.
func (p *serverProcess) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("server %s ended before it was told to: %w%s", p.name, err, p.stderr)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			return fmt.Errorf("server %s after SIGTERM: %w%s", p.name, err, p.stderr)
		}
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("server %s did not end within %s of SIGTERM", p.name, stopTimeout)
	}
}

func (p *serverProcess) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself; waiting for it is what matters
	<-p.ended
}

// memory returns the resident size of the server, now and at its highest, in bytes.
func (p *serverProcess) memory() (now, peak uint64, err error) {
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

// runProgram runs a program to its end and returns its last line and what it used.
func runProgram(ctx context.Context, name string, argv, env []string, cpu int, limit time.Duration) (
	line []byte, used *syscall.Rusage, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	errs := &tail{}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, errs, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startOn(cmd, cpu); err != nil {
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

// startOn starts the command bound to one CPU. The binding is set on the thread that forks, because a child inherits
// it: so it holds from the first instruction, for all threads of any program.
func startOn(cmd *exec.Cmd, cpu int) error {
	if cpu < 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read CPU affinity: %w", err)
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("bind to CPU %d: %w", cpu, err)
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); back != nil && err == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		err = fmt.Errorf("restore CPU affinity: %w", back)
	}
	return err
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

func (t *tail) String() string {
	if text := strings.TrimSpace(string(t.kept)); text != "" {
		return ": " + text
	}
	return ""
}
