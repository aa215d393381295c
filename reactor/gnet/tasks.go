package gnet

import (
	"net"
	"sync"

	"github.com/socketxtreme/socketxtreme/reactor"
)

type taskKind uint8

const (
	taskWrite taskKind = iota
	taskWritev
	taskWake
	taskClose
	taskFeed
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

// tasks is what other goroutines want done on the loop, in the order in which they asked. What a task asks for itself
// comes after the next look at the rings.
type tasks struct {
	loop *reactor.Loop
	run  func() // eventloop.runTasks, bound once

	mu     sync.Mutex
	queue  []task
	posted bool
	closed bool
	parted bool // every connection was closed for good

	running []task // the loop's
	next    int
}

// push is for any goroutine. After the end of the loop it answers net.ErrClosed, and so it does for a connection after all
// were closed: who goes on using one would keep the loop from finding nothing to do. The callbacks of Wake and Close, which
// return no such error, are still called.
func (q *tasks) push(t task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.parted && t.c != nil && (t.callback == nil || t.kind == taskWrite || t.kind == taskWritev) {
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

// take makes what was asked for until now the tasks to run.
func (q *tasks) take() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue, q.running, q.next = q.running[:0], q.queue, 0
	q.posted = false
}

func (el *eventloop) runTasks() {
	q := &el.tasks
	if q.next == len(q.running) {
		q.take()
	}
	defer el.tasksStopped()
	for q.next < len(q.running) {
		t := &q.running[q.next]
		q.next++
		el.do(t)
		*t = task{}
	}
}

// tasksStopped goes on after a panic: the reactor contains it, the tasks behind it are run in the next turn, and the
// connection that the task was for is reset.
func (el *eventloop) tasksStopped() {
	q := &el.tasks
	if q.next == 0 || q.running[q.next-1].isZero() {
		return
	}
	t := q.running[q.next-1]
	q.running[q.next-1] = task{}
	el.depth, el.current = 0, nil
	if t.c != nil && t.c.state != stateClosed && t.c.socket != nil {
		t.c.forget()
		_ = t.c.socket.Abort() // CLOSED follows, and OnClose with it
	}
	if q.next < len(q.running) {
		_ = q.loop.Post(q.run) // after the loop's end nothing is left to do it
	}
}

func (t *task) isZero() bool { return t.c == nil && t.run == nil }

func (el *eventloop) do(t *task) {
	c := t.c
	if t.kind == taskFeed {
		el.depth, el.current = 0, nil
		c.feed()
		el.after()
		return
	}
	var err error
	el.depth, el.current = 1, c
	switch t.kind {
	case taskRun:
		t.run()
	case taskWrite:
		if err = c.alive(); err == nil {
			_, err = c.Write(t.data)
		}
	case taskWritev:
		if err = c.alive(); err == nil {
			_, err = c.Writev(t.vector)
		}
	case taskWake:
		if c.state == stateOpen {
			action := el.handler.OnTraffic(c)
			el.depth = 0
			err = el.act(c, action)
			el.depth = 1
		}
	case taskDrained:
		if c.state == stateOpen {
			action := el.drainer.OnDrained(c)
			el.depth = 0
			err = el.act(c, action)
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

func (c *conn) alive() error {
	if c.state != stateOpen {
		return net.ErrClosed
	}
	return nil
}

// part refuses tasks for connections from here on; those that are left run.
func (q *tasks) part() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parted = true
}

// end refuses tasks from here on; runLeft does those that are left.
func (q *tasks) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
