package harness

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Place is where a process is started: on a CPU (-1: any) and in a network namespace.
type Place struct {
	CPU   int
	Net   *Network // nil: that of this process
	NetNS int      // of Net
}

// Start starts the command there. Binding and namespace are set on the thread that forks, because a child inherits them: so they hold
// from the first instruction, for all threads of any program.
func (p Place) Start(cmd *exec.Cmd) error {
	if p.Net == nil {
		return startOn(cmd, p.CPU)
	}
	return p.Net.inside(p.NetNS, func() error { return startOn(cmd, p.CPU) })
}

// startOn starts the command bound to one CPU.
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

// needNetwork makes the namespaces when the first workload wants them; what went wrong is the reason of all such rows.
func (h *runner) needNetwork() error {
	if h.net == nil && h.netErr == nil {
		h.net, h.netErr = NewNetwork()
	}
	if errors.Is(h.netErr, ErrNoNetwork) {
		return h.netErr
	}
	if h.netErr != nil {
		return fmt.Errorf("no network: %w", h.netErr)
	}
	return nil
}

// serverPlace and clientPlace are where the two sides of a workload run.
func (h *runner) serverPlace(w Workload) Place {
	p := Place{CPU: h.serverCPU}
	if w.Veth {
		p.Net, p.NetNS = h.net, h.net.Server
	}
	return p
}

// clientPlace returns where the client of a workload runs: its processor, and on a veth the client's namespace.
func (h *runner) clientPlace(w Workload) Place {
	p := Place{CPU: h.clientCPU}
	if w.Veth {
		p.Net, p.NetNS = h.net, h.net.Client
	}
	return p
}
