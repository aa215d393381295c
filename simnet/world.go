package simnet

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/socketxtreme/socketxtreme/ring"
)

// World is hosts, switches and cables in virtual time. It belongs to one goroutine, the one that runs it first; worlds do not know each
// other, so several may run at the same time.
type World struct {
	seed   uint64
	now    int64
	after  int64 // what hosts see beyond now while the world is being closed: whatever waits for a time has waited enough
	agenda agenda
	trace  uint64
	err    error

	hosts     []*Host
	switches  []*Switch
	kernels   []*Kernel
	lines     []*Line
	lineNames map[string]bool
	spare     []*frame
	alive     int // frames that are somewhere
	watch     watcher
	log       io.Writer
	pcap      *pcapgo.NgWriter
	pcapErr   error
	closing   bool
	closed    bool
}

// watcher sees what passes between hosts and lines; the world's own tests judge by it.
type watcher interface {
	sent(n *NIC, f *frame)            // by the host's driver
	taken(n *NIC, f *frame, at int64) // by the host's driver; at is when it had arrived
	completed(h *Host, c *ring.Completion)
}

// New makes an empty world at time 0. Everything random in it comes from the seed.
func New(seed uint64) *World {
	return &World{seed: seed, trace: mix(offset, seed), lineNames: map[string]bool{}}
}

// Seed is what the world was made from.
func (w *World) Seed() uint64 { return w.seed }

// Now is the virtual time since the world began.
func (w *World) Now() time.Duration { return time.Duration(w.now) }

// After runs f when d has passed. It may do anything to the world and its hosts; all hosts are polled afterwards. What concerns one host is
// cheaper by Host.After.
func (w *World) After(d time.Duration, f func()) {
	w.push(event{at: w.now + max(int64(d), 0), kind: evCall, run: f})
}

// At is After with the time since the world began; one that is past means now.
func (w *World) At(t time.Duration, f func()) { w.After(t-w.Now(), f) }

// push schedules an event; one in the past is an error of the simulation.
func (w *World) push(e event) {
	if e.at < w.now {
		w.fail(fmt.Errorf("simnet: time: an event is due at %v, and it is %v", time.Duration(e.at), w.Now()))
	}
	w.agenda.push(e)
}

// fail keeps the first error; Run stops on it.
func (w *World) fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: %w", w.Now(), err)
	}
}

// Fail makes Run stop with an error: a test's own check found something.
func (w *World) Fail(err error) { w.fail(err) }

// Err is what Run stopped on.
func (w *World) Err() error { return w.err }

// Run executes all events up to a time since the world began, those of that very time too, and then checks the counts (see Audit). Hosts are
// polled first, so that data that was sent between two calls of Run leaves now. It stops at the first error, which every later call returns
// again.
func (w *World) Run(until time.Duration) error {
	if w.closed {
		return errors.New("simnet: run: the world is closed")
	}
	for _, h := range w.hosts {
		h.scheduleTurn(w.now)
	}
	w.steps(until, nil)
	if w.err != nil {
		return w.err
	}
	w.now = max(w.now, int64(until))
	if err := w.Audit(); err != nil {
		w.fail(err)
	}
	return w.err
}

// RunWhile is Run that also stops when busy, which is asked after each event, returns false.
func (w *World) RunWhile(until time.Duration, busy func() bool) error {
	if w.closed {
		return errors.New("simnet: run: the world is closed")
	}
	if w.steps(until, busy) {
		return w.err
	}
	return w.Run(until)
}

// steps executes the events up to a time, and reports whether busy ended it. A panic of the stack or of a handler becomes an error of the
// run.
func (w *World) steps(until time.Duration, busy func() bool) (ended bool) {
	defer func() {
		if p := recover(); p != nil {
			w.fail(fmt.Errorf("simnet: panic: %v\n%s", p, debug.Stack()))
		}
	}()
	for w.err == nil {
		if busy != nil && !busy() {
			return true
		}
		if len(w.agenda.list) == 0 || w.agenda.list[0].at > int64(until) {
			return false
		}
		w.step()
	}
	return true
}

// step executes the earliest event: a frame arrives, a host takes a turn, or a function runs.
func (w *World) step() {
	e := w.agenda.pop()
	if e.at < w.now {
		w.fail(fmt.Errorf("simnet: time: it goes back from %v to %v", w.Now(), time.Duration(e.at)))
		return
	}
	w.now = e.at
	switch e.kind {
	case evArrival:
		e.line.arrive(&e)
	case evTurn:
		if e.host.due == e.at { // else another came before
			e.host.turn()
		}
	case evKernel:
		e.run()
	case evCall:
		if e.host != nil && w.now < e.host.resume { // its program stands still, too
			e.at = e.host.resume
			w.push(e)
			return
		}
		w.note(traceCall, uint64(w.now))
		e.run()
		if e.host != nil {
			e.host.turn()
			return
		}
		for _, h := range w.hosts {
			h.turn()
		}
	}
}

// Close ends the world: it aborts the sockets and checks that every buffer is back in its pool. The error says what is missing; an error of
// Run comes first.
func (w *World) Close() error {
	if w.closed {
		return errors.New("simnet: close: the world is closed")
	}
	w.closing = true
	w.watch = nil
	err := w.err
	w.after = int64(time.Hour)
	for _, h := range w.hosts {
		if e := h.close(); e != nil && err == nil {
			err = e
		}
	}
	for _, k := range w.kernels {
		if e := k.close(); e != nil && err == nil {
			err = e
		}
	}
	w.closed = true
	if w.pcap != nil {
		if e := w.pcap.Flush(); e != nil {
			w.badCapture(e)
		}
		if err == nil {
			err = w.pcapErr
		}
	}
	return err
}
