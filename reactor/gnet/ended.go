package gnet

import (
	"errors"
	"runtime/debug"

	"github.com/socketxtreme/socketxtreme/reactor"
)

// errGoexit ends a loop whose handler called runtime.Goexit, as a failing test does.
var errGoexit = errors.New("gnet: the handler called runtime.Goexit")

// ended is what follows a loop's end, on its goroutine: after an error the end of the engine, OnClose for the connections that the
// loop did not close, and whatever was asked of it and not done yet. The descriptors are closed already.
func (el *eventloop) ended(err error) {
	var panicked *reactor.PanicError
	isPanic := errors.As(err, &panicked)
	el.shutListeners()
	el.tasks.end()
	if err != nil {
		el.forget()
		if isPanic && el.exact {
			panic(panicked) // gnet contains no panic
		}
		el.eng.fail(err)
	}
	if isPanic {
		err = ErrHandlerPanic
	}
	el.closeLeft(err)
	el.runLeft()
}

// fail ends the engine with an error that is Run's, or of a client Stop's. Any goroutine.
func (eng *engine) fail(err error) {
	eng.mu.Lock()
	eng.failure = errors.Join(eng.failure, err)
	eng.mu.Unlock()
	eng.shutdown(err)
	if eng.failed != nil {
		go eng.failed() // it waits for all loops, and the caller may be one
	}
}

// closeLeft is closeAll for a loop that has ended.
func (el *eventloop) closeLeft(why error) {
	el.stopping = true
	for _, s := range el.conns {
		el.contained(func() {
			s.closeDoomed()
			switch {
			case s.c != nil:
				_ = el.close(s.c, why)
			case s.d != nil && s.d.own != nil:
				_ = s.d.close(s.d.own, why)
			}
		})
	}
	el.contained(el.after)
}

// runLeft does the tasks that were accepted and are still to be done: a caller that waits for one learns that its connection was closed, and
// descriptors that were on their way here are closed. No more can come.
func (el *eventloop) runLeft() {
	q := &el.tasks
	for {
		if q.next == len(q.running) {
			if q.take(); len(q.running) == 0 {
				return
			}
		}
		t := q.running[q.next]
		q.running[q.next] = task{}
		q.next++
		el.contained(func() { el.do(&t) })
	}
}

// contained runs what may call the handler. There is no reactor any more to contain its panic: that one is logged.
func (el *eventloop) contained(f func()) {
	el.depth, el.current = 0, nil // as a panic may have left them
	defer func() {
		if v := recover(); v != nil {
			el.eng.log.Errorf("panic contained after the end of loop %d: %v\n%s", el.idx, v, debug.Stack())
		}
	}()
	f()
}
