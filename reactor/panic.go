package reactor

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// PanicPolicy says what a loop does after a panic in the program's code.
type PanicPolicy uint8

const (
	// ResetConnection resets the TCP connection whose completion was being handled, releases the completion's packet, and goes on; the
	// handler still receives the connection's CLOSED. A UDP socket stays open. After a panic in a timer, a posted function or an external
	// descriptor's function no socket is closed. After a panic in a receive callback the ring closes its socket, UDP too. Each panic is
	// logged with its stack, and counted in Stats.Panics.
	ResetConnection PanicPolicy = iota
	// StopLoop ends the loop at once and resets its connections. Run returns a *PanicError, or, after a panic in a receive callback, the ring's
	// error; both have the stack.
	StopLoop
)

// PanicError is a panic that ended a loop. With ResetConnection only two kinds do: a panic in Start or setup, and one inside a ring's Poll,
// which of the program's code runs only functions of Poller.Post. A function that may panic is posted by Loop.Post.
type PanicError struct {
	// Where is the code that panicked: "handler", "timer", "posted function", "external descriptor", "Start", "Stop", "setup", "ring" or, in
	// reactor/gnet, "OnTick".
	Where string
	Value any    // the argument of panic
	Stack []byte // of the goroutine, as debug.Stack returns it
}

// Error is the failure in a sentence.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in %s: %v\n%s", e.Where, e.Value, e.Stack)
}

// Unwrap returns Value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guarded runs f, which calls code of the program outside a turn, and handles a panic in it as contain does. p names the code in the error.
func (l *Loop) guarded(p phase, f func()) (err error) {
	defer l.contain(&err)
	l.doing = p
	f()
	l.doing = inRing
	return nil
}

// contain is deferred around the program's code and recovers a panic in it: it resets the connection whose completion was being handled, or
// ends the timer that was firing, and logs. It sets *err if the policy says that the loop must end.
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
		l.stats.Completions -= uint64(l.count - l.at) // run will count the remaining ones again
		l.resetConnection(&l.batch[l.at-1])
	case inTimer:
		l.endFiring()
	}
	if l.config.OnPanic == StopLoop || where == inRing || where == inStart {
		*err = e
		return
	}
	l.log.Error("panic contained", "where", e.Where, "value", v, "stack", string(e.Stack))
}

// resetConnection aborts the connection of a completion whose handler panicked. Completions of it that are still in the batch are dropped,
// except SENT and CLOSED, which the handler may be waiting for.
func (l *Loop) resetConnection(c *xtreme.Completion) {
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

// release releases a completion's packet, unless the handler has released it or passed it on.
func release(c *xtreme.Completion) {
	if c.Packet.Valid() {
		_ = c.Packet.Release() // cannot fail, because the packet is valid
	}
}
