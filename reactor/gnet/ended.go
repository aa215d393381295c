package gnet

import (
	"errors"
	"runtime/debug"

	"github.com/socketxtreme/socketxtreme/reactor"
)

// errGoexit ends a loop whose handler called runtime.Goexit, as a failing test does.
var errGoexit = errors.New("gnet: the handler called runtime.Goexit")

// afterLoopEnded does what is left when a loop's Run has returned, on its goroutine: after an error it ends the engine and calls OnClose for
// connections that were open; then it answers requests that were not served. The descriptors are closed already.
func (el *eventloop) afterLoopEnded(err error) {
	var panicked *reactor.PanicError
	isPanic := errors.As(err, &panicked)
	el.shutListeners()
	el.tasks.refuseAll()
	if err != nil {
		el.invalidateDescriptors()
		if isPanic && el.exact {
			panic(panicked) // gnet contains no panic
		}
		el.eng.fail(err)
	}
	if isPanic {
		err = ErrHandlerPanic
	}
	el.closeRemaining(err)
	el.runRemaining()
}

// fail ends the engine with an error, which Run, or a client's Stop, returns. Any goroutine.
func (eng *engine) fail(err error) {
	eng.mu.Lock()
	eng.failure = errors.Join(eng.failure, err)
	eng.mu.Unlock()
	eng.shutdown(err)
	if eng.failed != nil {
		go eng.failed() // it waits for all loops, and the caller may be one
	}
}

// closeRemaining calls OnClose for the connections of a loop that has ended.
func (el *eventloop) closeRemaining(why error) {
	el.stopping = true
	for _, s := range el.conns {
		el.contained(func() {
			s.closeDeferred()
			switch {
			case s.c != nil:
				_ = el.close(s.c, why)
			case s.d != nil && s.d.connectedPeer != nil:
				_ = s.d.close(s.d.connectedPeer, why)
			}
		})
	}
	el.contained(el.after)
}

// runRemaining runs the tasks that were accepted and not run before the loop ended: callers that wait learn that their connection was closed,
// and descriptors of connections that were assigned to this loop are closed. No task can be added any more.
func (el *eventloop) runRemaining() {
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
		el.contained(func() { el.runTask(&t) })
	}
}

// contained calls f, which may call the handler, after the loop has ended, when no reactor contains a panic any more: the panic is logged.
func (el *eventloop) contained(f func()) {
	el.depth, el.current = 0, nil // as a panic may have left them
	defer func() {
		if v := recover(); v != nil {
			el.eng.log.Errorf("panic contained after the end of loop %d: %v\n%s", el.idx, v, debug.Stack())
		}
	}()
	f()
}
