package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

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
// (sched_autogroup_enabled).
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
