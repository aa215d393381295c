package main

import (
	"context"
	"errors"
	"time"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// loop is one reactor: a poller, its sockets, and what could not be sent yet.
type loop struct {
	poller    *xtreme.Poller
	listeners []*xtreme.Socket
	conns     map[*xtreme.Socket]*conn
	reply     func(*conn, *xtreme.Completion) error
	rest      string
	last      string // what was counted, for the end
}

// conn is a connection: while its peer reads slowly, what could not be sent waits here and reading is suspended, so that TCP's own
// flow control reaches the sender.
type conn struct {
	socket *xtreme.Socket
	unsent xtreme.Packet
	ended  bool   // the peer sends nothing more: close once all is echoed
	frame  []byte // of -reply sockperf: a message that has not arrived whole
}

// serve is the heart: pull completions, handle them, rest when there are none.
func (l *loop) serve(ctx context.Context) error {
	var done [256]xtreme.Completion
	for idle, busy := 0, 0; ; {
		n, err := l.poller.Poll(done[:])
		if err != nil {
			return err
		}
		for i := range done[:n] {
			l.handle(&done[i])
		}
		switch {
		case n > 0:
			idle = 0
			// Under endless traffic no turn is idle: the end is looked for on every 64th.
			if busy++; busy&63 == 0 && ctx.Err() != nil {
				return l.close()
			}
		case ctx.Err() != nil:
			return l.close()
		case l.rest == "wait", l.rest == "adaptive" && idle >= 20_000:
			if err := l.poller.Wait(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		default:
			idle++
		}
	}
}

// handle handles one completion.
func (l *loop) handle(c *xtreme.Completion) {
	s := c.Socket
	if c.Events.Has(xtreme.EventNewConnection) {
		l.conns[s] = &conn{socket: s}
	}
	cn := l.conns[s] // nil for the UDP socket
	if c.Events.Has(xtreme.EventPacket) {
		if err := l.reply(cn, c); err != nil && cn != nil {
			_ = s.Abort() // cannot fail: the socket is ours and open; CLOSED follows
		}
	}
	if c.Events.Has(xtreme.EventOut) && cn != nil && cn.flush() == nil && cn.unsent.IsZero() {
		_ = s.Resume() // likewise
	}
	if c.Events.Any(xtreme.EventRdHup|xtreme.EventHup) && cn != nil {
		cn.ended = true
	}
	if c.Events.Has(xtreme.EventClosed) {
		_ = cn.drop()
		delete(l.conns, s)
	} else if cn != nil && cn.ended && (cn.unsent.IsZero() || c.Events.Has(xtreme.EventHup)) {
		_ = s.Close() // answers ErrClosed if Abort was called above
	}
}

// echo sends the packet back and releases it; what the peer does not take now stays in conn.unsent.
func echo(cn *conn, c *xtreme.Completion) error {
	if cn == nil {
		defer c.Packet.Release() //nolint:errcheck // just polled: it is ours
		// A datagram that the kernel has no room for is lost, as UDP goes.
		_, err := c.Socket.SendTo(c.Packet.Bytes(), c.Source)
		return err
	}
	waiting := !cn.unsent.IsZero()
	cn.unsent = c.Socket.Ring().Pool().Append(cn.unsent, c.Packet)
	if waiting {
		return nil // Suspend holds from the next Poll on: more may come in this batch, and waits its turn
	}
	if err := cn.flush(); err != nil {
		return err
	}
	if !cn.unsent.IsZero() {
		return cn.socket.Suspend()
	}
	return nil
}

// flush sends what is unsent as far as the peer takes it; Out comes when it takes more.
func (cn *conn) flush() error {
	for cn.unsent.Len() > 0 {
		n, err := cn.socket.Send(cn.unsent.Bytes())
		if n == cn.unsent.Len() {
			break
		}
		if n > 0 {
			if err := cn.unsent.Pull(n); err != nil {
				return err
			}
		}
		if errors.Is(err, xtreme.ErrWouldBlock) {
			return nil
		}
		if err != nil {
			return errors.Join(err, cn.drop())
		}
	}
	return cn.drop()
}

// drop releases the packet of the connection that could not be sent yet, if there is one.
func (cn *conn) drop() (err error) {
	if cn != nil && !cn.unsent.IsZero() {
		err = cn.unsent.Release()
		cn.unsent = xtreme.Packet{}
	}
	return err
}

// grace is how long close waits for traffic and slow readers to end, and then for connections to close.
const grace = time.Second

// close ends in good order: nobody new is accepted, each connection is closed once all that arrived is answered and sent, and those
// that will not come to that end are closed when the grace is over.
func (l *loop) close() error {
	for _, s := range l.listeners {
		if s.Kind() == xtreme.KindListener {
			_ = s.Close() // ours and open
		}
	}
	var done [64]xtreme.Completion
	begin := time.Now()
	for last := begin; len(l.conns) > 0 && time.Since(begin) < 2*grace; {
		n, err := l.poller.Poll(done[:])
		if err != nil {
			return err
		}
		for i := range done[:n] {
			l.handle(&done[i])
		}
		if n > 0 {
			last = time.Now()
		}
		late := time.Since(begin) > grace
		// One empty Poll proves nothing: a ring may have looked at its busiest sockets only. After a sleep without an event it does.
		quiet := time.Since(last) >= grace/100
		for s, cn := range l.conns {
			if late || quiet && cn.unsent.IsZero() {
				_ = s.Close() // those that are closing already say so
			}
		}
		if n == 0 {
			if err := l.poller.WaitFor(grace / 100); err != nil {
				return err
			}
		}
	}
	for _, cn := range l.conns {
		_ = cn.drop()
	}
	l.last = l.counters()
	return l.poller.Close() // checks that every buffer is back in the pool
}
