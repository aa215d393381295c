package reactor

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// PanicPolicy is what a panic in the program's code costs.
type PanicPolicy uint8

const (
	// ResetConnection: the TCP connection whose completion was being handled is reset, the completion's packet is
	// released, and the loop goes on; the handler still sees the connection's CLOSED. A UDP socket stays open, because
	// a datagram is not a connection, and a panic in a timer, a posted function or an external descriptor's function
	// costs nothing else. A receive callback's panic costs its socket, UDP too: the ring closes it. Each is logged with its
	// stack and counted.
	ResetConnection PanicPolicy = iota
	// StopLoop: the loop ends at once, its connections are reset, and Run returns the panic: a *PanicError, or after
	// one in a receive callback the ring's error, both with the stack.
	StopLoop
)

// PanicError is a panic that ended a loop. Under ResetConnection only two kinds do: in Start, because the program is
// not set up then, and inside a ring's Poll, where nothing of the program's runs but functions given to Poller.Post. Use
// Loop.Post.
type PanicError struct {
	Where string // "handler", "timer", "posted function", "external descriptor", "Start", "Stop", "setup", "ring" or, of reactor/gnet, "OnTick"
	Value any    // what was given to panic
	Stack []byte // as by debug.Stack
}

// Error is the failure in a sentence.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in %s: %v\n%s", e.Where, e.Value, e.Stack)
}

// Unwrap is the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guarded runs a function of the program outside a turn.
func (l *Loop) guarded(p phase, f func()) (err error) {
	defer l.contain(&err)
	l.doing = p
	f()
	l.doing = inRing
	return nil
}

// contain is deferred around the program's code. It puts right what the panic left behind and says with *err whether
// the loop must end.
func (l *Loop) contain(err *error) {
	v := recover()
	if v == nil {
		return
	}
	where := l.doing
	l.doing = inRing
	l.stats.Panics++
	e := &PanicError{Where: where.String(), Value: v, Stack: debug.Stack()}
	switch where {
	case inHandler:
		l.stats.Completions -= uint64(l.count - l.at) // run counts them again
		l.reset(&l.batch[l.at-1])
	case inTimer:
		l.fired()
	}
	if l.config.OnPanic == StopLoop || where == inRing || where == inStart {
		*err = e
		return
	}
	l.log.Error("panic contained", "where", e.Where, "value", v, "stack", string(e.Stack))
}

// reset gives up the connection of a completion whose handler panicked. What the batch still holds of it is dropped,
// but for the ends of sends and CLOSED, which the handler may be waiting for.
func (l *Loop) reset(c *xtreme.Completion) {
	release(c)
	s := c.Socket
	if s == nil || s.Kind() != ring.KindStream {
		return
	}
	switch err := s.Abort(); {
	case err == nil:
		l.stats.Resets++
	case !errors.Is(err, ring.ErrClosed):
		l.log.Error("reset after panic", "socket", s.ID(), "error", err)
	}
	kept := l.at
	for i := l.at; i < l.count; i++ {
		c := &l.batch[i]
		if c.Socket == s && !c.Events.Any(xtreme.EventSent|xtreme.EventClosed) {
			release(c)
			continue
		}
		l.batch[kept] = *c
		kept++
	}
	l.count = kept
}

// release gives back a completion's packet, unless the handler already did or passed it on.
func release(c *xtreme.Completion) {
	if c.Packet.Valid() {
		_ = c.Packet.Release() // valid, so there is nothing it could answer
	}
}
