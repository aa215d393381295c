package netstack

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/tcp"
	"github.com/socketxtreme/socketxtreme/tcp/tcptest"
)

// engine is our host. One goroutine does all that its table does, in real time.
type engine struct {
	host  *tcptest.Host
	in    chan []byte
	send  func(packet []byte)
	start time.Time
	done  chan struct{}
	end   chan error // what the host or the connection failed with, nil: all went well

	out, want []byte // what is sent, and what has to come
	sent      int
	got       int
	sum       hash.Hash
	listener  tcp.ListenerID
	open      func(now clock.Time) error
}

func (e *engine) now() clock.Time { return clock.Time(time.Since(e.start)) + clock.Time(clock.Second) }

// run serves the host until its connection is gone.
func (e *engine) run() {
	e.end <- e.serve()
}

func (e *engine) serve() error {
	e.host.Handle = e.event
	var failed error
	if failed = e.open(e.now()); failed != nil {
		return failed
	}
	send := func(packet []byte) bool {
		e.send(append([]byte(nil), packet...))
		return true
	}
	timer := time.NewTimer(0)
	for {
		e.host.Turn(e.now(), send)
		if err := e.host.Err(); err != nil {
			return err
		}
		if e.sum != nil && e.host.Live() == 0 && e.host.Table.Len() == 0 {
			return e.check()
		}
		if d := e.host.Table.Deadline(); d != clock.Never {
			timer.Reset(max(d.Sub(e.now()), 0))
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-e.done:
			return fmt.Errorf("not over in time: %d of %d bytes sent, %d of %d received: %v", e.sent, len(e.out), e.got, len(e.want), e.states())
		case <-timer.C:
		case p := <-e.in:
			e.host.Receive(e.now(), p)
			for n := len(e.in); n > 0; n-- {
				e.host.Receive(e.now(), <-e.in)
			}
		}
	}
}

func (e *engine) states() (list []string) {
	for id := range tcp.ID(4) {
		if i, ok := e.host.Table.Info(id); ok {
			list = append(list, fmt.Sprintf("%+v", i))
		}
	}
	return list
}

// event is the application.
func (e *engine) event(now clock.Time, c *tcptest.Conn, v tcp.Event) {
	if v.Kind == tcp.EventAccepted {
		e.host.Accept(e.listener, 0)
	}
	if e.sum == nil && c.Connected {
		e.sum = sha256.New()
	}
	if c.Gone || c.Closed || !c.Connected {
		return
	}
	if c.Reason != 0 {
		e.sum = sha256.New() // what check compares is wrong then
		c.Close(now)
		return
	}
	b := c.Read(now, c.Unread())
	e.got += len(b)
	e.sum.Write(b)
	for e.sent < len(e.out) {
		n := c.Write(now, e.out[e.sent:min(e.sent+16384, len(e.out))], false)
		if n == 0 {
			break
		}
		e.sent += n
	}
	if e.sent == len(e.out) && !c.WriteClosed {
		c.CloseWrite(now)
	}
	if c.Ended && c.WriteClosed {
		c.Close(now)
	}
}

func (e *engine) check() error {
	if e.got != len(e.want) || [32]byte(e.sum.Sum(nil)) != sha256.Sum256(e.want) {
		return fmt.Errorf("the engine has received %d bytes of %d, or others", e.got, len(e.want))
	}
	return nil
}

// wire is one direction. What it does to the n-th packet follows from the seed.
type wire struct {
	random                   *rand.Rand
	lose, duplicate, reorder float64
	queue                    chan queued
	deliver                  func(packet []byte)
}

type queued struct {
	at     time.Time
	packet []byte
}

const wireDelay = time.Millisecond

// carry takes a packet; one goroutine calls it.
func (w *wire) carry(packet []byte) {
	lose, duplicate, reorder := w.random.Float64() < w.lose, w.random.Float64() < w.duplicate, w.random.Float64() < w.reorder
	late := time.Duration(w.random.Int64N(int64(5 * time.Millisecond)))
	switch {
	case lose:
		return
	case reorder:
		time.AfterFunc(wireDelay+late, func() { w.deliver(packet) })
		return
	case duplicate:
		time.AfterFunc(wireDelay+late, func() { w.deliver(append([]byte(nil), packet...)) })
	}
	select {
	case w.queue <- queued{time.Now().Add(wireDelay), packet}:
	default: // a queue that is full
	}
}

func (w *wire) run(done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case q := <-w.queue:
			time.Sleep(time.Until(q.at))
			w.deliver(q.packet)
		}
	}
}
