package gnet

import (
	"io"
	"net"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// SuspendRead stops reading from the peer.
func (c *conn) SuspendRead() error {
	if c.state != stateOpen {
		return net.ErrClosed
	}
	c.suspended = true
	return c.socket.Suspend()
}

// ResumeRead starts reading again.
func (c *conn) ResumeRead() error {
	if c.state != stateOpen {
		return net.ErrClosed
	}
	c.suspended = false
	return c.resume()
}

// resume lets the ring read for the connection again, unless something else has suspended it.
func (c *conn) resume() error {
	if c.blocked > 0 || c.suspended || c.closingWhenSent {
		return nil
	}
	if len(c.withheld) > 0 { // first that, in a turn of its own; then the ring
		return c.el.tasks.push(task{kind: taskDeliverWithheld, c: c})
	}
	return c.socket.Resume()
}

// withhold keeps a packet that the ring delivered after reading was suspended.
func (c *conn) withhold(p buffers.Packet) {
	if c.el.mustCopyUnread(c) {
		b := make([]byte, p.Len())
		p.CopyTo(b)
		release(p)
		c.withheld = append(c.withheld, segment{b: b})
		return
	}
	c.withheld = append(c.withheld, segment{pkt: p})
}

// deliverWithheld calls OnTraffic for the packets that were withheld, one by one, until the handler suspends reading again.
func (c *conn) deliverWithheld() {
	n := 0
	for n < len(c.withheld) && c.blocked == 0 && !c.suspended && c.state == stateOpen {
		s := c.withheld[n]
		c.withheld[n] = segment{}
		n++
		if s.b != nil {
			c.in.pushBytes(s.b)
		} else {
			c.in.push(s.pkt)
		}
		c.el.traffic(c)
	}
	if c.state != stateOpen {
		return // finish gave back the rest
	}
	c.withheld = c.withheld[:copy(c.withheld, c.withheld[n:])]
	if len(c.withheld) == 0 {
		c.withheld = nil
		if c.eof {
			_ = c.el.close(c, callError("read", io.EOF))
			return
		}
		if err := c.resume(); err != nil {
			_ = c.el.close(c, callError("read", err))
		}
	}
}
