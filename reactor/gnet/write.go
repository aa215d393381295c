package gnet

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Write sends p: what the kernel takes at once, the rest when it has room. It answers len(p), or an error that ends the
// connection. Loop only.
func (c *conn) Write(p []byte) (int, error) {
	if c.out.size > 0 || c.state != stateOpen {
		if err := c.admits(); err != nil {
			return 0, err
		}
		if c.out.size > 0 || c.state != stateOpen {
			c.out.write(p, c.el.eng.opts.WriteBufferCap)
			return len(p), c.bounded()
		}
	}
	n, err := c.socket.Send(p)
	if err != nil {
		return c.wrote(p, n, "write", err)
	}
	if c.timers != nil {
		c.timers.active()
	}
	return n, nil
}

// Writev sends the slices as Write sends one; they are not changed. Loop only.
func (c *conn) Writev(bs [][]byte) (total int, err error) {
	for _, b := range bs {
		total += len(b)
	}
	if c.out.size > 0 || c.state != stateOpen {
		if err := c.admits(); err != nil {
			return 0, err
		}
		if c.out.size > 0 || c.state != stateOpen {
			return total, c.keep(bs)
		}
	}
	for len(bs) > 0 {
		part := bs[:min(len(bs), sys.MaxVector)]
		n, err := c.socket.SendVector(part, netip.AddrPort{})
		if err == nil {
			bs = bs[len(part):]
			continue
		}
		for len(bs) > 0 && n >= len(bs[0]) {
			n -= len(bs[0])
			bs = bs[1:]
		}
		if len(bs) == 0 {
			break
		}
		if _, err = c.wrote(bs[0], n, "writev", err); err != nil {
			return 0, err
		}
		return total, c.keep(bs[1:])
	}
	if c.timers != nil {
		c.timers.active()
	}
	return total, nil
}

// wrote continues after a send that took only n bytes, or failed.
func (c *conn) wrote(p []byte, n int, call string, err error) (int, error) {
	if !errors.Is(err, ring.ErrWouldBlock) {
		err = callError(call, err)
		_ = c.el.close(c, err)
		return 0, err
	}
	if c.timers != nil && c.timers.writeExpired {
		return 0, c.giveUp(os.ErrDeadlineExceeded)
	}
	c.out.write(p[n:], c.el.eng.opts.WriteBufferCap)
	return len(p), c.bounded()
}

// keep puts slices into the outbound buffer.
func (c *conn) keep(bs [][]byte) error {
	for _, b := range bs {
		c.out.write(b, c.el.eng.opts.WriteBufferCap)
	}
	return c.bounded()
}

// admits reports whether more may be written while earlier bytes wait, or while the connection is being closed. The hard limit is for
// what waits already: a write of any size is taken as long as the earlier ones have gone, or nearly. What the kernel has room for by
// now is sent first.
func (c *conn) admits() error {
	switch c.state {
	case stateDoomed:
		if c.why != nil {
			return c.why
		}
		return net.ErrClosed
	case stateNew, stateClosed:
		return net.ErrClosed
	case stateClosing: // a last word from OnClose: finish sends what it can
		return nil
	}
	if c.timers != nil && c.timers.writeExpired {
		return c.giveUp(os.ErrDeadlineExceeded)
	}
	hard := c.el.eng.opts.OutboundHard
	if hard <= 0 || c.out.size <= hard {
		return nil
	}
	if err := c.Flush(); err != nil {
		return err
	}
	if c.out.size > hard {
		return c.giveUp(&OutboundLimitError{Buffered: c.out.size, Limit: hard})
	}
	return nil
}

// giveUp ends a connection whose peer does not take what waits for it. The bytes are dropped, so that the peer must see a reset: a FIN
// would tell it that it has everything.
func (c *conn) giveUp(why error) error {
	c.reset = true
	c.out.done()
	_ = c.el.close(c, why)
	return why
}

// bounded stops the reading of the producers of a connection above the high-water mark.
func (c *conn) bounded() error {
	o := c.el.eng.opts
	if o.OutboundHigh > 0 && c.out.size > o.OutboundHigh && !c.full && c.state == stateOpen {
		c.full = true
		return c.blockProducers()
	}
	return nil
}

// ReadFrom takes everything r has into the outbound buffer. It is sent with Flush, or when the handler returns (exact
// gnet: with Flush only). Loop only.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.admits(); err != nil {
		return 0, err
	}
	n, err := c.out.readFrom(r, c.el.eng.opts.WriteBufferCap)
	if c.state == stateOpen {
		if !c.el.exact {
			c.unflushed = true
			c.el.dirtied(c)
		}
		err = errors.Join(err, c.bounded())
	}
	return n, err
}

// Flush sends what waits, as far as the kernel takes it. Loop only.
func (c *conn) Flush() error {
	if c.state != stateOpen {
		return nil
	}
	c.unflushed = false
	for c.out.size > 0 {
		_, err := c.sendOut()
		if errors.Is(err, ring.ErrWouldBlock) {
			break
		}
		if err != nil {
			err = callError("write", err)
			c.out.done()
			_ = c.el.close(c, err)
			return err
		}
	}
	c.eased()
	if c.finishing && c.out.size == 0 {
		_ = c.el.close(c, nil)
	}
	return nil
}

// sendOut sends once.
func (c *conn) sendOut() (n int, err error) {
	iov := &c.el.iov
	k := c.out.peek(iov[:])
	if k == 1 {
		n, err = c.socket.Send(iov[0])
	} else {
		n, err = c.socket.SendVector(iov[:k], netip.AddrPort{})
	}
	clear(iov[:k])
	if n > 0 {
		c.out.discard(n)
		if c.timers != nil {
			c.timers.active()
		}
	}
	return n, err
}

// eased lets the producers of a connection whose peer has caught up be read from again.
func (c *conn) eased() {
	o := c.el.eng.opts
	if !c.full || c.state != stateOpen || c.out.size >= (o.OutboundHigh+1)/2 && c.out.size > 0 {
		return
	}
	c.full = false
	c.unblockProducers()
	if c.el.drainer != nil && c.state == stateOpen { // in a turn of its own: the handler may be running
		_ = c.el.tasks.push(task{kind: taskDrained, c: c}) // refused when the loop has ended
	}
}

// OutboundBuffered is how many bytes wait to be sent. Loop only.
func (c *conn) OutboundBuffered() int { return c.out.size }

// SendTo is for UDP.
func (c *conn) SendTo([]byte, net.Addr) (int, error) { return 0, ErrUnsupportedOp }

// AsyncWrite sends p from any goroutine. p must not change before callback was called, on the loop, with net.ErrClosed
// if the connection was closed meanwhile.
func (c *conn) AsyncWrite(p []byte, callback AsyncCallback) error {
	return c.el.tasks.push(task{kind: taskWrite, c: c, data: p, callback: callback})
}

// AsyncWritev is AsyncWrite for several slices, sent in one go.
func (c *conn) AsyncWritev(bs [][]byte, callback AsyncCallback) error {
	return c.el.tasks.push(task{kind: taskWritev, c: c, vector: bs, callback: callback})
}

// afterHandler is what follows the handler's calls for this connection: what it read returns to the pool, what it left is kept in the
// right place, what nothing would send is sent.
func (c *conn) afterHandler() {
	c.in.releaseRead()
	if (c.in.long || len(c.in.head) > 0) && c.el.crowded(c) {
		c.in.copyOut()
	}
	if c.unflushed {
		_ = c.Flush() // a failure closes the connection
	}
}

// writable answers that the kernel has room again.
func (el *eventloop) writable(c *conn) { _ = c.Flush() } // a failure closes the connection

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
