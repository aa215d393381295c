package harness

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// An external server does not know the protocol between harness and server: it has a fixed UDP port, is ready when the kernel has bound it,
// and ends at SIGINT.

// keepOutput keeps the output of an external server until it ends, for error messages.
func (p *Process) keepOutput(out io.Reader) {
	kept := &tail{}
	_, _ = io.Copy(kept, out) // ends with the process
	err := p.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("%w%s", err, kept)
	}
	p.ended <- err
}

// awaitPort waits until the process's network namespace has the UDP port bound.
func (p *Process) awaitPort(port int) error {
	p.Port = port
	path := fmt.Sprintf("/proc/%d/net/udp", p.cmd.Process.Pid)
	for end := time.Now().Add(readyTimeout); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(path)
		if err == nil && hasUDPPort(string(text), port) {
			return nil
		}
		select {
		case err := <-p.ended:
			return fmt.Errorf("server %s ended before it was ready: %w%s", p.name, err, p.stderr)
		default:
		}
		if time.Now().After(end) {
			p.kill()
			return fmt.Errorf("server %s had not bound UDP port %d within %s%s", p.name, port, readyTimeout, p.stderr)
		}
	}
}

// hasUDPPort looks for a local port in the table of /proc/net/udp.
func hasUDPPort(table string, port int) bool {
	want := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) > 1 && strings.HasSuffix(fields[1], want) {
			return true
		}
	}
	return false
}
