package xdp

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Occupied is the program that is in the way of ours: in the chain of a refusal with ReasonBusy.
type Occupied struct {
	Program uint32 // its number; 0 when the kernel did not name it
	Holder  int    // the process that holds it; 0 when it is not to be seen
	Err     error
}

// Error is the text of the kernel's error.
func (o *Occupied) Error() string { return o.Err.Error() }

// Unwrap is the kernel's error.
func (o *Occupied) Unwrap() error { return o.Err }

// Ended reports whether that program no longer exists: a program ends with its process, and the kernel sends no event for it. The call does
// not wait for the lock of the kernel's configuration. Without CAP_SYS_ADMIN the answer is false, since the kernel refuses the question.
func (o *Occupied) Ended() bool {
	if o.Program == 0 {
		return false
	}
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(o.Program))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	_ = p.Close() // only looked at
	return false
}

// occupant is the program on an interface that would refuse ours. One that runs in the card's hardware does not.
func occupant(l netlink.Link) (program uint32, there bool) {
	x := l.Attrs().Xdp
	if x == nil || !x.Attached || x.AttachMode == nl.XDP_ATTACHED_HW {
		return 0, false
	}
	return x.ProgId, true
}

// waitFree waits until no program that would refuse ours is on the interface, for at most Config.Retry: the program of a process that ended
// is detached some time later. It returns the interface as it was asked for last. Error: a refusal with ReasonBusy.
func (d *Device) waitFree(found netlink.Link) (netlink.Link, error) {
	for end := time.Now().Add(d.config.Retry); ; time.Sleep(5 * time.Millisecond) {
		program, there := occupant(found)
		switch {
		case !there:
			return found, nil
		case time.Now().After(end):
			return nil, busyProgram(d.config.Interface, program, unix.EBUSY)
		}
		var err error
		if found, err = findLink(d.config.Interface); err != nil {
			return nil, err
		}
	}
}

// busyProgram makes the refusal with ReasonBusy: its text and its *Occupied name the program and the process that holds it, where the kernel
// shows them (program 0: it did not).
func busyProgram(name string, program uint32, err error) error {
	o := &Occupied{Program: program, Err: err}
	text := "another XDP program is on " + name
	if program != 0 {
		text += fmt.Sprintf(": program id %d", program)
		if o.Holder = holders.of(program); o.Holder != 0 {
			text += fmt.Sprintf(", pid=%d", o.Holder)
		}
	}
	return &link.Refusal{Reason: link.Reason{Code: ReasonBusy, Text: text}, Err: o}
}

// known are the holders of the programs that were in the way, so that /proc is gone through once for each.
type known struct {
	mu   sync.Mutex
	pids map[uint32]int
}

var holders = known{pids: map[uint32]int{}}

// knownMost bounds them; one more begins anew.
const knownMost = 64

// of is the process that holds a program, 0 if none is seen: the remembered answer, or holderOf's, which is then remembered.
func (k *known) of(program uint32) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, ok := k.pids[program]
	if !ok {
		if len(k.pids) >= knownMost {
			clear(k.pids)
		}
		pid = holderOf(program)
		k.pids[program] = pid
	}
	return pid
}
