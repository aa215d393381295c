package uring

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
)

// ErrThread: the ring was used on another thread than the one it is bound to.
var ErrThread = errors.New("uring: polled from another thread than the one it is bound to")

// Driver drives one io_uring instance. Except for Wake it belongs to the ring's owner; see ring.Driver for who may call what.
type Driver struct {
	u    *sys.Uring
	pool *buffers.DriverPool

	records []*record // by slot
	arming  []*record // are to receive from the next enter on
	backlog []sys.SQE // operations that found the submission queue full; empty after an enter
	groups  [buffers.NumClasses]*group
	share   *share
	sharers int32  // drivers on the pool when last looked at
	turn    uint32 // counts Reaps
	bound   bool
	reaping bool
	slept   bool // the last thing before this Reap was a sleep
	armed   bool // between Arm and Disarm
	closing bool

	hot     [maxHot]*record // read directly; the first numHot
	numHot  int
	streams int // connections
	direct  *direct.Receiver

	sends     []send
	freeSend  int32     // list of unused sends
	finished  []int32   // sends to give back in the next Reap
	postponed []*record // sockets whose sends the submission queue had no room for
	address   sys.Sockaddr
	copies    ring.Reason // why sends are copied; zero as long as they are not

	headroom      int
	receiveHeader uint64

	wake    wakeEvent  // wake.ready is FD: signalled by the kernel while armed, and by Wake
	stale   bool       // ready may be readable from a Wake that ended a Wait
	timerAt clock.Time // when the timeout under way fires; Never when there is none
	failure error      // of an enter that had no caller to tell
}

// none ends lists of indexes, and stands for no buffer.
const none = -1

// Kind is "uring".
func (d *Driver) Kind() string { return "uring" }

// Caps are CapThreadBound, CapTxTimestamps and, until the kernel refuses it, CapZeroCopySend, which holds for packets of 8 KiB and more.
func (d *Driver) Caps() ring.Caps {
	if d.copies.Code != "" {
		return ring.CapThreadBound | ring.CapTxTimestamps
	}
	return ring.CapThreadBound | ring.CapTxTimestamps | ring.CapZeroCopySend
}

// Why explains a missing capability.
func (d *Driver) Why(c ring.Caps) ring.Reason {
	if c == ring.CapZeroCopySend {
		return d.copies
	}
	return direct.Why(c)
}

// FD is an eventfd: it becomes readable after Arm. Any goroutine.
func (d *Driver) FD() int { return d.wake.ready.FD() }

// Bind makes the calling thread the issuer and starts the ring. What was prepared before runs with the first Reap.
func (d *Driver) Bind() error {
	if d.bound {
		return nil
	}
	if e := d.u.EnableRings(); e != 0 {
		return os.NewSyscallError("io_uring_register IORING_REGISTER_ENABLE_RINGS", e)
	}
	d.bound = true
	d.pollWakeEvent() // only now: before Bind nothing sleeps that Wake could end
	return nil
}

// queueOperation puts an operation into the submission queue, or into the backlog while that is full, and behind what the backlog has: a
// cancellation must come after the operation that it cancels. The operation must not point to memory that changes before it is submitted.
func (d *Driver) queueOperation(e sys.SQE) {
	if len(d.backlog) == 0 {
		if p, _ := d.nextEntry(); p != nil {
			*p = e
			return
		}
	}
	d.backlog = append(d.backlog, e)
}

// nextEntry is a free entry of the submission queue and its index. When the queue is full it is submitted first, by submitAll and not by enter,
// whose prepareReceives may be the caller. nil when the queue is still full, before Bind or while the kernel takes nothing.
func (d *Driver) nextEntry() (*sys.SQE, uint32) {
	p, i := d.u.SQ.Next()
	if p == nil && d.bound {
		if err := d.submitAll(0); err != nil && d.failure == nil {
			d.failure = err
		}
		p, i = d.u.SQ.Next()
	}
	return p, i
}

// hasPrepared reports whether operations wait to be submitted.
func (d *Driver) hasPrepared() bool {
	return d.u.SQ.Pending() > 0 || len(d.arming) > 0 || len(d.backlog) > 0
}

// enter submits the prepared operations. With UringEnterGetEvents the kernel also runs its deferred work, which makes completions.
func (d *Driver) enter(flags uint32) error {
	d.prepareReceives()
	return d.submitAll(flags)
}

// prepareReceives is called before each enter: it offers the kernel buffers, and prepares the receive operations of the sockets that
// scheduleReceive has listed. They are prepared here and not earlier: a socket that was stopped again meanwhile has then received nothing.
func (d *Driver) prepareReceives() {
	d.refill()
	for i, r := range d.arming {
		d.arming[i] = nil
		r.arming = false
		d.arm(r)
	}
	d.arming = d.arming[:0]
}

// submitAll enters the kernel until the submission queue has taken the whole backlog, or the kernel takes no more.
func (d *Driver) submitAll(flags uint32) error {
	for {
		e := d.u.Enter(flags)
		if e != 0 {
			return enterError(e)
		}
		if len(d.backlog) == 0 {
			return nil
		}
		d.moveBacklog()
	}
}

// moveBacklog moves operations from the backlog into the submission queue, as many as have room.
func (d *Driver) moveBacklog() {
	n := 0
	for n < len(d.backlog) {
		p, _ := d.u.SQ.Next()
		if p == nil {
			break
		}
		*p = d.backlog[n]
		n++
	}
	d.backlog = d.backlog[:copy(d.backlog, d.backlog[n:])]
}

// enterError is the error that an io_uring_enter which ended with e means for the driver; nil where operations just stay in the queue and are
// submitted again by the next one.
func enterError(e syscall.Errno) error {
	switch e {
	case 0, unix.EINTR, unix.ETIME:
		return nil
	case unix.EAGAIN, unix.EBUSY:
		return nil // short of memory, or completions must be taken first
	case unix.EEXIST:
		return fmt.Errorf("%w: %w", ErrThread, e)
	}
	return os.NewSyscallError("io_uring_enter", e)
}

// wakeEvent is what other goroutines wake the owner with. It may be closed under them without harm.
//
// It has two parts. The ring polls wait, which ends an io_uring_enter. To FD, the kernel would pass that on by signalling one
// eventfd from within the signalling of another: on Linux 6.18 the third such wake-up did not arrive (seen; why is not known). So
// FD is signalled directly, and after wait: when Arm drains the signal of FD, the poll of wait has fired already, and Arm finds that.
type wakeEvent struct {
	mu     sync.Mutex
	wait   sys.EventFD
	ready  sys.EventFD
	closed bool
}

// ring wakes the owner. Any goroutine.
func (b *wakeEvent) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.wait.Signal()
		b.ready.Signal()
	}
}

// close closes both descriptors; ring does nothing from then on.
func (b *wakeEvent) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return errors.Join(b.wait.Close(), b.ready.Close())
}
