package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// place is where a process is started: on a CPU (-1: any) and in a network namespace.
type place struct {
	cpu   int
	net   *network // nil: that of this process
	space int      // of net
}

// start starts the command there. Binding and namespace are set on the thread that forks, because a child inherits them: so they hold
// from the first instruction, for all threads of any program.
func (p place) start(cmd *exec.Cmd) error {
	if p.net == nil {
		return startOn(cmd, p.cpu)
	}
	return p.net.inside(p.space, func() error { return startOn(cmd, p.cpu) })
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
func (h *harness) needNetwork() error {
	if h.net == nil && h.netErr == nil {
		h.net, h.netErr = newNetwork()
	}
	if errors.Is(h.netErr, errNoNetwork) {
		return h.netErr
	}
	if h.netErr != nil {
		return fmt.Errorf("no network: %w", h.netErr)
	}
	return nil
}

// serverPlace and clientPlace are where the two sides of a workload run.
func (h *harness) serverPlace(w Workload) place {
	p := place{cpu: h.serverCPU}
	if w.Veth {
		p.net, p.space = h.net, h.net.server
	}
	return p
}

func (h *harness) clientPlace(w Workload) place {
	p := place{cpu: h.clientCPU}
	if w.Veth {
		p.net, p.space = h.net, h.net.client
	}
	return p
}
