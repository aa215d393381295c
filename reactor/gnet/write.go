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

// Write sends p: as much as the kernel takes at once, and the rest when there is room. It returns len(p), or an error that ends the
// connection. Loop only.
func (c *conn) Write(p []byte) (int, error) {
	if c.out.size > 0 || c.state != stateOpen {
		if err := c.prepareWrite(); err != nil {
			return 0, err
		}
		// prepareWrite may have sent the whole queue. In OnClose the bytes are always queued: finish sends them.
		if c.out.size > 0 || c.state != stateOpen {
			c.out.write(p, c.el.eng.opts.WriteBufferCap)
			return len(p), c.checkHighWater()
		}
	}
	n, err := c.socket.Send(p)
	if err != nil {
		return c.afterWrite(p, n, "write", err)
	}
	if c.timers != nil {
		c.timers.written()
	}
	return n, nil
}

// Writev sends the slices as Write sends one; they are not changed. Loop only.
func (c *conn) Writev(bs [][]byte) (total int, err error) {
	for _, b := range bs {
		total += len(b)
	}
	if c.out.size > 0 || c.state != stateOpen {
		if err := c.prepareWrite(); err != nil {
			return 0, err
		}
		if c.out.size > 0 || c.state != stateOpen { // as in Write
			return total, c.queueOutbound(bs)
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
		if _, err = c.afterWrite(bs[0], n, "writev", err); err != nil {
			return 0, err
		}
		return total, c.queueOutbound(bs[1:])
	}
	if c.timers != nil {
		c.timers.written()
	}
	return total, nil
}

// afterWrite continues after a send that took only n bytes of p, or failed: it queues the rest, or closes the connection.
func (c *conn) afterWrite(p []byte, n int, call string, err error) (int, error) {
	if !errors.Is(err, ring.ErrWouldBlock) {
		err = callError(call, err)
		_ = c.el.close(c, err)
		return 0, err
	}
	if c.timers != nil && c.timers.writeExpired {
		return 0, c.abortFull(os.ErrDeadlineExceeded)
	}
	c.out.write(p[n:], c.el.eng.opts.WriteBufferCap)
	return len(p), c.checkHighWater()
}

// queueOutbound copies slices into the outbound buffer.
func (c *conn) queueOutbound(bs [][]byte) error {
	for _, b := range bs {
		c.out.write(b, c.el.eng.opts.WriteBufferCap)
	}
	return c.checkHighWater()
}

// prepareWrite is called before a write, and returns an error if the write must be refused: the connection is being closed, its write deadline
// is over, or more than the hard limit waits to be sent. It flushes before it compares with the limit, and resets a connection that is over the
// deadline or the limit. A write of any size is accepted below the limit.
func (c *conn) prepareWrite() error {
	switch c.state {
	case stateCloseDeferred:
		if c.why != nil {
			return c.why
		}
		return net.ErrClosed
	case stateNew, stateClosed:
		return net.ErrClosed
	case stateClosing: // a write by OnClose is queued: finish sends what the kernel takes
		return nil
	}
	if c.timers != nil && c.timers.writeExpired {
		return c.abortFull(os.ErrDeadlineExceeded)
	}
	hard := c.el.eng.opts.OutboundHard
	if hard <= 0 || c.out.size <= hard {
		return nil
	}
	if err := c.Flush(); err != nil {
		return err
	}
	if c.out.size > hard {
		return c.abortFull(&OutboundLimitError{Buffered: c.out.size, Limit: hard})
	}
	return nil
}

// abortFull closes a connection whose peer does not read. Data that waits is dropped, so the connection is reset: after a FIN the peer would
// believe that it has everything.
func (c *conn) abortFull(why error) error {
	c.reset = true
	c.out.done()
	_ = c.el.close(c, why)
	return why
}

// checkHighWater blocks the producers of a connection that has more waiting to be sent than the high-water mark.
func (c *conn) checkHighWater() error {
	o := c.el.eng.opts
	if o.OutboundHigh > 0 && c.out.size > o.OutboundHigh && !c.full && c.state == stateOpen {
		c.full = true
		return c.blockProducers()
	}
	return nil
}

// ReadFrom copies everything that r has into the outbound buffer. It is sent with Flush, or when the handler returns (exact gnet: with Flush
// only). Loop only.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.prepareWrite(); err != nil {
		return 0, err
	}
	n, err := c.out.readFrom(r, c.el.eng.opts.WriteBufferCap)
	if c.state == stateOpen {
		if !c.el.exact {
			c.unflushed = true
			c.el.noteUsed(c)
		}
		err = errors.Join(err, c.checkHighWater())
	}
	return n, err
}

// Flush sends data that waits, as much as the kernel takes now. The rest is sent when there is room (OUT). A failure closes the connection
// and is returned. Loop only.
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
	c.checkLowWater()
	if c.closingWhenSent && c.out.size == 0 {
		_ = c.el.close(c, nil)
	}
	return nil
}

// sendOut sends as much of the outbound buffer as one call takes.
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
			c.timers.written()
		}
	}
	return n, err
}

// checkLowWater unblocks the producers of a connection that has less than half of the high-water mark waiting, and calls a Drainer.
func (c *conn) checkLowWater() {
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

// AsyncWrite sends p, from any goroutine. p must not change before callback is called, which happens on the loop; its error is net.ErrClosed
// if the connection was closed meanwhile.
func (c *conn) AsyncWrite(p []byte, callback AsyncCallback) error {
	return c.el.tasks.push(task{kind: taskWrite, c: c, data: p, callback: callback})
}

// AsyncWritev is AsyncWrite for several slices, sent in one go.
func (c *conn) AsyncWritev(bs [][]byte, callback AsyncCallback) error {
	return c.el.tasks.push(task{kind: taskWritev, c: c, vector: bs, callback: callback})
}

// afterHandler does what follows each call of the handler for a connection: packets that were read are released, unread data is kept or
// copied, and data that ReadFrom left is sent.
func (c *conn) afterHandler() {
	c.in.releaseRead()
	if (c.in.long || len(c.in.head) > 0) && c.el.mustCopyUnread(c) {
		c.in.copyOut()
	}
	if c.unflushed {
		_ = c.Flush() // a failure closes the connection
	}
}

// writable handles OUT: the kernel has room to send again. A failure closes the connection.
func (el *eventloop) writable(c *conn) { _ = c.Flush() } // a failure closes the connection

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
