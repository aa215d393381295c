package gnet

import (
	"net"
	"sync"

	"github.com/socketxtreme/socketxtreme/reactor"
)

// taskKind says which call a task is.
type taskKind uint8

const (
	taskWrite taskKind = iota
	taskWritev
	taskWake
	taskClose
	taskDeliverWithheld
	taskDrained
	taskRun
)

// task is a call from another goroutine. It is a value, so that AsyncWrite allocates nothing.
type task struct {
	kind     taskKind
	c        *conn
	data     []byte
	vector   [][]byte
	callback AsyncCallback
	run      func()
}

// tasks is the queue of calls that other goroutines want done on the loop, in order. A task that a task adds runs after the next poll of the
// rings.
type tasks struct {
	loop *reactor.Loop
	run  func() // eventloop.runTasks, bound once

	mu           sync.Mutex
	queue        []task
	posted       bool
	closed       bool
	refusesConns bool // tasks for connections are refused, because all were closed

	running []task // used by the loop alone: tasks that it has taken
	next    int    // running[next:] is still to be run
}

// push adds a task and makes the loop run it. After the end of the loop it returns net.ErrClosed. It also does so for tasks of connections
// once all connections were closed, because goroutines that go on using them would keep the loop busy; tasks with the callback of Wake or
// Close, which return no such error, are still accepted. Any goroutine.
func (q *tasks) push(t task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.refusesConns && t.c != nil && (t.callback == nil || t.kind == taskWrite || t.kind == taskWritev) {
		return net.ErrClosed
	}
	if !q.posted {
		if err := q.loop.Post(q.run); err != nil {
			return err // ring.ErrClosed is a net.ErrClosed
		}
		q.posted = true
	}
	q.queue = append(q.queue, t)
	return nil
}

// take moves the tasks that were added so far to running.
func (q *tasks) take() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue, q.running, q.next = q.running[:0], q.queue, 0
	q.posted = false
}

// runTasks runs the tasks that other goroutines have added. It is posted to the reactor.
func (el *eventloop) runTasks() {
	q := &el.tasks
	if q.next == len(q.running) {
		q.take()
	}
	defer el.tasksStopped()
	for q.next < len(q.running) {
		t := &q.running[q.next]
		q.next++
		el.runTask(t)
		*t = task{}
	}
}

// tasksStopped continues after a panic in a task, which the reactor contains: the remaining tasks run in the next turn, and the connection
// that the task was for is reset.
func (el *eventloop) tasksStopped() {
	q := &el.tasks
	if q.next == 0 || q.running[q.next-1].isZero() {
		return
	}
	t := q.running[q.next-1]
	q.running[q.next-1] = task{}
	el.depth, el.current = 0, nil
	if t.c != nil && t.c.state != stateClosed && t.c.socket != nil {
		t.c.invalidateFD()
		_ = t.c.socket.Abort() // CLOSED follows, and OnClose with it
	}
	if q.next < len(q.running) {
		_ = q.loop.Post(q.run) // after the loop's end nothing is left to do it
	}
}

func (t *task) isZero() bool { return t.c == nil && t.run == nil }

// runTask executes one task: a write, a call of the handler, a close, or a function.
func (el *eventloop) runTask(t *task) {
	c := t.c
	if t.kind == taskDeliverWithheld {
		el.depth, el.current = 0, nil
		c.deliverWithheld()
		el.after()
		return
	}
	var err error
	el.depth, el.current = 1, c
	switch t.kind {
	case taskRun:
		t.run()
	case taskWrite:
		if err = c.checkOpen(); err == nil {
			_, err = c.Write(t.data)
		}
	case taskWritev:
		if err = c.checkOpen(); err == nil {
			_, err = c.Writev(t.vector)
		}
	case taskWake:
		if c.state == stateOpen {
			action := el.handler.OnTraffic(c)
			el.depth = 0
			err = el.doAction(c, action)
			el.depth = 1
		}
	case taskDrained:
		if c.state == stateOpen {
			action := el.drainer.OnDrained(c)
			el.depth = 0
			err = el.doAction(c, action)
			el.depth = 1
		}
	case taskClose:
		el.depth = 0
		err = el.close(c, nil)
		el.depth = 1
	}
	if t.callback != nil {
		_ = t.callback(c, err)
	}
	el.depth, el.current = 0, nil
	if c != nil && c.state == stateOpen {
		c.afterHandler()
	}
	if len(el.later)+len(el.dirty) > 0 || el.exiting {
		el.after()
	}
}

// checkOpen returns net.ErrClosed unless the connection is open.
func (c *conn) checkOpen() error {
	if c.state != stateOpen {
		return net.ErrClosed
	}
	return nil
}

// refuseConnTasks makes push refuse tasks for connections from now on; those that are queued still run.
func (q *tasks) refuseConnTasks() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refusesConns = true
}

// refuseAll makes push refuse all tasks from now on; runRemaining runs those that are queued.
func (q *tasks) refuseAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
