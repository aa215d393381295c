package ring

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// bind makes the calling goroutine the ring's owner.
func (r *Ring) bind(self uintptr) error {
	if err := r.check(); err != nil {
		return err
	}
	if !r.owner.CompareAndSwap(0, self) {
		return r.check() // another one was faster
	}
	if r.drv.Caps().Has(CapThreadBound) || r.key.Logic == PerCoreAttach {
		r.lockThread()
	}
	r.pin()
	if err := r.drv.Bind(); err != nil {
		return &OpError{Op: "bind ring to thread", Err: err}
	}
	return nil
}

// Poll writes what happened into dst and returns how many entries it wrote; it never blocks. A full slice loses nothing: the
// rest comes with the next Poll. That nothing came does not prove that nothing waits (a ring may have looked at its busiest sockets
// only): Arm and Wait know. Its work is bounded by len(dst) completions, one batch of posted work and one batch of
// expired deadlines. The first Poll binds the ring to the calling goroutine (and its thread, where CapThreadBound says so); from
// another goroutine it answers ErrOwner.
//
// An error comes with n = 0, always. When something fails in a Poll that has completions, they are returned without the error, and the
// next Poll returns it; until then Arm and Wait say that work is pending.
func (r *Ring) Poll(dst []Completion) (int, error) {
	const before = 0 // no other ring has delivered completions in this turn
	return PollBehind(r, dst, before)
}

// PollBehind is Poll for an owner of several rings, whose other rings have delivered before completions in the same turn. With
// before > 0 it returns no error that would keep the owner from delivering those: failures wait for the ring's next Poll.
func PollBehind(r *Ring, dst []Completion, before int) (int, error) {
	self := sys.Goroutine()
	if self != r.owner.Load() {
		if err := r.bind(self); err != nil {
			if before > 0 && r.owner.Load() == self {
				r.fail(err) // the ring is bound by half: the next Poll does not try again
			}
			return 0, err
		}
	}
	if len(dst) == 0 {
		return 0, ErrNoSlice
	}
	if r.sink.dst != nil {
		return 0, &OpError{Op: "poll inside a callback or posted work", Err: syscall.EDEADLK}
	}
	r.turn++
	// One test for all that pollRareWork handles: a ring that spins for packets has none of it.
	if r.armed || r.inbox.due() || r.hasCredit() ||
		len(r.failures)|r.deadlines.wheel.Len()|len(r.paced)|len(r.timestamping)|len(r.starved.list)|len(r.announced)|len(r.finished) != 0 {
		if done, err := r.pollRareWork(dst, before, self); done {
			return 0, err
		}
	} else if n := r.pool.Reclaim(); n > 0 {
		r.stats.ReturnedFromLending += uint64(n)
		if r.hasCredit() {
			r.takeCredit()
		}
	}

	k := &r.sink
	k.dst, k.n = dst, 0
	var err error
	if r.readyHead != nil {
		r.deliver(k)
	}
	if k.n < len(dst) {
		err = r.drv.Reap(k)
		if r.readyHead != nil && k.n < len(dst) {
			r.deliver(k)
		}
	}
	n := k.n
	k.dst = nil
	r.stats.Polls++
	r.stats.Completions += uint64(n)
	if n > 0 {
		r.notePoll(n)
		if r.readTraceLevel() != TraceOff {
			r.traceCompletions("completion", dst[:n])
		}
	}
	if l := r.loop; l != nil {
		if n == 0 || n >= fullPoll || l.unread >= l.leave {
			l.polled(r.epoch, n)
			if n > 0 {
				l.page.BuffersUsedPeak.note(*r.epoch, l.usedBuffers())
			}
		} else {
			l.unread++
		}
		if n > 0 {
			l.noteDelivered(dst[:n])
		}
	}
	r.reported = false
	if err != nil {
		r.fail(&OpError{Op: "reap", Err: err})
	}
	if len(r.failures) > 0 && n+before == 0 {
		return 0, r.takeFailures(nil)
	}
	return n, nil
}

// pollRareWork is the part of Poll that most Polls of a spinning ring skip: failures to return, posted work, deadlines, paced sends, transmit
// stamps, returned buffers. done: the Poll ends here, with err.
func (r *Ring) pollRareWork(dst []Completion, before int, self uintptr) (done bool, err error) {
	if len(r.announced) > 0 {
		r.endAnnouncements()
	}
	if len(r.finished) > 0 {
		r.forgetFinished()
	}
	if r.armed {
		r.disarm()
		r.turn++ // this Poll looks at the deadlines
	}
	// After a Poll that returned failures this one is for completions, so that failures in each Poll do not keep them from the caller.
	if len(r.failures) > 0 && !r.reported && before == 0 {
		r.turn |= timerMask // the next Poll looks at the deadlines, should this have been the one
		return true, r.takeFailures(nil)
	}
	if r.inbox.waiting() {
		r.runPosted(dst)
		if self != r.owner.Load() {
			return true, ErrClosed // by the work itself
		}
	}
	if r.inbox.refreshRequested() {
		r.refresh()
	}
	if r.deadlines.wheel.Len() > 0 && r.deadlines.needLook(r.turn) {
		r.expire()
	}
	if len(r.paced) > 0 {
		r.sendDue()
	}
	if len(r.timestamping) > 0 {
		r.collectStamps()
	}
	if n := r.pool.Reclaim(); n > 0 {
		r.stats.ReturnedFromLending += uint64(n)
	}
	if len(r.starved.list) > 0 {
		r.restartReading()
	}
	if r.hasCredit() {
		r.takeCredit()
	}
	return false, nil
}

// lockThread ties the goroutine to its thread until Close, once.
func (r *Ring) lockThread() {
	if !r.locked {
		runtime.LockOSThread()
		r.locked = true
	}
}

// runPosted runs posted work. While it runs, sink.dst is set, which makes a Poll from inside fail; the mark goes away after a panic too.
func (r *Ring) runPosted(dst []Completion) {
	r.sink.dst = dst
	defer func() { r.sink.dst = nil }()
	r.loop.Mark(WorkPosted)
	r.stats.Posted += uint64(r.inbox.run())
	r.loop.Mark(WorkUnknown)
}

// Flush starts sends that wait for the next Poll, those of paced sockets whose time has come among them. Before the first Poll it does
// nothing more: the ring has no thread yet.
func (r *Ring) Flush() error {
	if err := r.check(); err != nil {
		return err
	}
	if len(r.paced) > 0 {
		r.sendDue()
	}
	if r.hasCredit() {
		r.takeCredit()
	}
	if err := r.drv.Flush(); err != nil {
		return &OpError{Op: "flush", Err: err}
	}
	return nil
}

// Advance is Flush, for use inside a long handler: it starts the sends that wait. It receives nothing, on an offloaded ring either: what comes
// meanwhile waits there, and what has no room is lost and counted. (VMA has an internal thread that receives, VMA_PROGRESS_ENGINE_INTERVAL.)
func (r *Ring) Advance() error { return r.Flush() }

// IsIdle reports that a Poll would find nothing: no socket, no posted work, no wake-up, no failure to tell of. An owner of several rings
// passes such a one over. A ring that was armed, or never polled, is not idle: its next Poll does what is due; nor is one whose driver
// speaks a protocol itself and has work without a socket (ProtocolDriver). Owner only.
func IsIdle(r *Ring) bool {
	idle, _ := IdleAndFailing(r)
	return idle
}

// IdleAndFailing is IsIdle, and whether the next Poll returns an error, in one call, for pollers of several rings: a failure waits, or the
// caller is a callback or posted work of the ring's present Poll. Owner only.
func IdleAndFailing(r *Ring) (idle, failing bool) {
	if !r.readable() {
		return false, false
	}
	failing = len(r.failures) > 0 || r.sink.dst != nil
	return !failing && r.slots.open == 0 && (r.protocol == nil || !r.protocol.HasBackground()) && !r.armed && !r.inbox.waiting() && r.readyHead == nil && r.owner.Load() != 0,
		failing
}

// FD is the descriptor to wait on with epoll or poll after Arm said that nothing is pending: it becomes readable on packets,
// deadlines, returned buffers, posted work and Wake. Any goroutine.
func (r *Ring) FD() int { return r.drv.FD() }

// Kind is the kind of the ring: "uring", "epoll", "offload". Any goroutine.
func (r *Ring) Kind() string { return r.drv.Kind() }

// Caps is what this ring can do beyond the common contract. Owner only: a ring may find out later that the kernel refuses something.
func (r *Ring) Caps() Caps {
	if !r.readable() {
		return 0
	}
	return r.drv.Caps()
}

// Why says why the ring lacks the capability; the zero Reason when it has it. Owner only.
func (r *Ring) Why(c Caps) Reason {
	if !r.readable() {
		return Reason{}
	}
	if r.drv.Caps().Has(c) {
		return Reason{}
	}
	return r.drv.Why(c)
}

// Ledger counts the buffers of the ring's pool by state. The pool is shared by the rings of one owner. Owner only.
func (r *Ring) Ledger() buffers.Ledger {
	if !r.readable() {
		return buffers.Ledger{}
	}
	return r.pool.Ledger()
}

// Pool is where the ring's buffers come from; Alloc on it, which is the owner's, makes packets for SendPacket. Any goroutine.
func (r *Ring) Pool() *buffers.Pool { return &r.pool.Pool }

// Sockets is how many sockets the ring holds, those being closed included. Owner only.
func (r *Ring) Sockets() int {
	if !r.readable() {
		return 0
	}
	return r.slots.open
}

// Key is what the ring was allocated for. Owner only.
func (r *Ring) Key() Key {
	if !r.readable() {
		return Key{}
	}
	return r.key
}

// takeFailures joins err and the failures that fail has kept, and forgets those. It sets reported: the next Poll delivers completions before it
// returns further failures, so that one which repeats cannot keep them back.
func (r *Ring) takeFailures(err error) error {
	r.reported = true
	for _, e := range r.failures {
		err = errors.Join(err, e)
	}
	r.failures = r.failures[:0]
	return err
}

// mayClose is the error with which Close is refused, nil if it is not: another goroutine, or a call inside a callback.
func (r *Ring) mayClose() error {
	if err := r.check(); err != nil {
		return err
	}
	if r.inCallback {
		return &OpError{Op: "close inside a callback", Err: syscall.EDEADLK}
	}
	return nil
}

// closeLimit bounds how long Close waits for the kernel to let go.
const closeLimit = 5 * time.Second

// Close closes the ring's sockets (those still open are aborted: call Socket.Close and poll until CLOSED to part in peace),
// gives buffers back to the pool and frees the ring's descriptors. Owner, or anyone before the first Poll. Packets the
// application holds stay valid. What a driver's own protocol remembers of connections beyond their sockets ends with the ring: data that is
// not acknowledged is given up, the peer of such a connection is sent a reset, and a TIME-WAIT is cut short. The kernel keeps what is its own.
func (r *Ring) Close() error {
	if err := r.mayClose(); err != nil {
		return err
	}
	if r.closing {
		return ErrClosed // by posted work, while the ring is being closed
	}
	r.closing = true
	r.sink.dst = nil // posted work may close the ring it runs on
	r.inbox.close()
	if r.owner.Load() == 0 {
		if err := r.bind(sys.Goroutine()); err != nil {
			return err
		}
	}
	if r.armed {
		r.disarm()
	}
	for s := range r.slots.all {
		if s.state < stateGone {
			_ = s.abort()
		}
	}
	err := r.drain()
	for s := range r.slots.all { // those whose operations did not end in time
		s.dropReceived()
		if s.state < stateGone {
			s.state = stateGone
			err = errors.Join(err, s.closeConn())
		}
		s.removeFromRing()
	}
	r.forgetFinished()
	err = errors.Join(err, r.finish())
	r.owner.Store(closedOwner)
	if e := r.drv.Close(); e != nil {
		err = errors.Join(err, &OpError{Op: "close ring", Err: e})
	}
	r.closeCards()
	r.closePages()
	r.unpin()
	err = r.takeFailures(err)
	r.set.remove(r)
	rings.close(r.number, closedRing)
	if r.locked {
		runtime.UnlockOSThread()
		r.locked = false
	}
	return err
}

// pollAway is a Poll of a ring that is being closed: it releases the packets that are delivered.
func (r *Ring) pollAway() (int, error) {
	var batch [32]Completion
	n, err := r.Poll(batch[:])
	for i := range batch[:n] {
		_ = batch[i].Packet.Release()
	}
	return n, err
}

// finishLimit bounds how long Close waits for peers to acknowledge what sockets had sent that were closed before: more than one
// retransmission takes in a local network.
const finishLimit = 250 * time.Millisecond

// finish polls until nothing is owed to the peers of closed sockets (Finisher), or finishLimit is over.
func (r *Ring) finish() error {
	f, ok := r.drv.(Finisher)
	if !ok {
		return nil
	}
	limit := time.Now().Add(finishLimit)
	for spins := 0; f.IsFinishing() && time.Now().Before(limit); spins++ {
		n, err := r.pollAway()
		if err != nil {
			return err
		}
		if n == 0 && spins > spinsBeforeSleep {
			if err := r.Wait(time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// failuresMax is how many Polls of drain may fail before it gives up: one ends when a socket's last failure is reported, a broken ring
// fails for ever.
const failuresMax = 64

// spinsBeforeSleep is how often drain polls before it sleeps between Polls: most sockets are gone by then.
const spinsBeforeSleep = 64

// drain polls until every socket is gone, and releases the packets that are delivered meanwhile. Failures do not end it.
func (r *Ring) drain() error {
	var failed error
	limit := time.Now().Add(closeLimit)
	for spins, failures := 0, 0; r.slots.open > 0; spins++ {
		n, err := r.pollAway()
		if err != nil {
			if failures++; failures == 1 {
				failed = err
			}
			if failures == failuresMax {
				return fmt.Errorf("ring: close: %d Polls failed, the first: %w", failures, failed)
			}
			continue
		}
		if n == 0 && spins > spinsBeforeSleep {
			if time.Now().After(limit) {
				return errors.Join(failed, fmt.Errorf("ring: close: %d sockets still held by the kernel after %v", r.slots.open, closeLimit))
			}
			if err := r.Wait(10 * time.Millisecond); err != nil {
				return errors.Join(failed, err)
			}
		}
	}
	return failed
}
