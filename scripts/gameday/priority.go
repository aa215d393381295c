package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Priorities (nice) of exchange and victim. Until the cause has happened they run before what else this machine does: less is lost or late by
// that. Later they run as everything else does.
const (
	playing = -15
	staying = 0
)

// prefer sets the priority of this process, which is the exchange, and of the victim. Without it the game goes on, and more may be lost.
func (g *game) prefer(nice int) {
	for _, process := range []int{os.Getpid(), g.process()} {
		if err := setPriority(process, nice); err != nil {
			fmt.Fprintln(os.Stderr, "gameday: what else this machine does may lose packets, too:", err)
		}
	}
}

// setPriority sets the priority of a process: that of all its threads, and that of its session, where the kernel divides processors by sessions
// (sched_autogroup_enabled) and the session is the process's own. Others run in any other one.
func setPriority(process, nice int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", process))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, nice); err != nil && !errors.Is(err, unix.ESRCH) { // one that has ended meanwhile
			return fmt.Errorf("priority %d: %w", nice, err)
		}
	}
	if !leadsSession(process) {
		return nil
	}
	session, err := os.OpenFile(fmt.Sprintf("/proc/%d/autogroup", process), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = session.WriteString(strconv.Itoa(nice))
	return errors.Join(err, session.Close())
}

// leadsSession reports whether a process has a session of its own, in which only its children run beside it.
func leadsSession(process int) bool {
	leader, err := unix.Getsid(process)
	return err == nil && leader == process
}

// runInOwnSession runs this program once more, with the same arguments, in a session of its own, and returns its exit code.
func runInOwnSession() int {
	runtime.LockOSThread() // the child ends with this thread
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "gameday:", err)
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP) // those of the terminal come here
	go func() {
		for s := range signals {
			_ = c.Process.Signal(s)
		}
	}()
	if err := c.Wait(); c.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "gameday:", err)
		return 1
	}
	if code := c.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 1 // by a signal
}
