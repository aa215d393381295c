package gnet

import (
	"fmt"
	"net"
	"slices"
)

// Back-pressure between connections. Each connection counts the full ones that it writes to; while there is one, its reading is
// suspended.
//
//	client.SetProducers(backend)      backend's input is written to client
//	backend.SetProducers(client)      and the other way round
//
//	client ──read──▶ handler ──write──▶ backend.out > high-water mark:  client.blocked = 1, client is not read from
//	                                    backend.out < half of it:       client.blocked = 0
//
// A backend that echoes is read from all the while: it may take nothing more until its answers are read.

// producers is the list that SetProducers has made.
type producers struct{ of []*conn }

// copied is a copy of the list, for calls that may close a connection of it, which takes that connection off the list.
func (p *producers) copied() []*conn { return slices.Clone(p.of) }

// SetProducers says whose input is written to this connection: while too much waits here, those connections are not read from.
func (c *conn) SetProducers(from ...Conn) error {
	switch {
	case c.state != stateOpen:
		return net.ErrClosed
	case c.el.eng.opts.OutboundHigh <= 0:
		return fmt.Errorf("gnet: SetProducers without a high-water mark, see WithOutboundLimits: %w", ErrUnsupportedOp)
	}
	list := &producers{}
	for _, f := range from {
		p, ok := f.(*conn)
		switch {
		case !ok || p.el != c.el:
			return fmt.Errorf("gnet: SetProducers: a %T of another loop: %w", f, ErrUnsupportedOp)
		case p.state != stateOpen:
			return net.ErrClosed
		case !slices.Contains(list.of, p):
			list.of = append(list.of, p)
		}
	}
	if c.full {
		c.unblockProducers()
	}
	c.forgetProducers()
	c.producers = list
	for _, p := range list.of {
		if p != c {
			p.consumers = append(p.consumers, c)
		}
	}
	if c.full {
		return c.blockProducers()
	}
	return nil
}

// blockProducers suspends reading on the connections whose input is written to c. An error says that c, its own producer, cannot be
// suspended.
func (c *conn) blockProducers() error {
	if c.producers == nil {
		return c.block()
	}
	for _, p := range c.producers.copied() {
		if err := p.block(); err != nil && p == c {
			return err
		}
	}
	return nil
}

// unblockProducers lets the producers of c read again, because little waits to be sent on c.
func (c *conn) unblockProducers() {
	if c.producers == nil {
		c.unblock()
		return
	}
	for _, p := range c.producers.copied() {
		p.unblock()
	}
}

// block counts one more full connection to which c's input is written, and suspends reading on c with the first. If reading cannot be
// suspended memory has no bound: the error closes the connection.
func (c *conn) block() error {
	if c.blocked++; c.blocked > 1 || c.suspended || c.state != stateOpen {
		return nil
	}
	if err := c.socket.Suspend(); err != nil {
		err = callError("read", err)
		c.out.done()
		_ = c.el.close(c, err)
		return err
	}
	return nil
}

// unblock counts one full connection less, and resumes reading on c after the last.
func (c *conn) unblock() {
	if c.blocked--; c.blocked > 0 || c.state != stateOpen {
		return
	}
	if err := c.resume(); err != nil {
		_ = c.el.close(c, callError("read", err))
	}
}

// leaveProducers takes a connection that is closed out of the relation of producers: those that were blocked by it read again, and nobody has
// it as a producer.
func (c *conn) leaveProducers() {
	if c.full {
		c.full = false
		c.unblockProducers()
	}
	c.forgetProducers()
	for _, to := range c.consumers {
		if i := slices.Index(to.producers.of, c); i >= 0 {
			to.producers.of = slices.Delete(to.producers.of, i, i+1)
		}
	}
	c.consumers = nil
}

// forgetProducers removes c from the lists of its producers.
func (c *conn) forgetProducers() {
	if c.producers == nil {
		return
	}
	for _, p := range c.producers.of {
		if i := slices.Index(p.consumers, c); i >= 0 {
			p.consumers = slices.Delete(p.consumers, i, i+1)
		}
	}
	c.producers = nil
}

// CloseWhenSent closes the connection once what was written has been sent, and reads no more.
func (c *conn) CloseWhenSent() error {
	if c.state != stateOpen {
		return net.ErrClosed
	}
	c.closingWhenSent = true
	if err := c.SuspendRead(); err != nil {
		return err
	}
	return c.Flush()
}
