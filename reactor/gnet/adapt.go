package gnet

// A ring on io_uring receives small pieces fastest by handing buffers to the kernel in advance, which it does with small ones only.
// There a connection begins with small buffers, and one that keeps filling them is read into large ones. Other rings take a buffer
// when there is something to read: there each connection has large ones from the start.
const (
	fullsToGrow     = 4  // full small buffers in a row
	smallsToShrink  = 64 // packets in a row that a small buffer would have held
	offeringInRings = "uring"
)

// offers reports whether this loop's ring is of the first kind.
func (el *eventloop) offers() bool { return el.poller.Rings()[0].Kind() == offeringInRings }

// adapt looks at the length of a packet and chooses the connection's buffers.
func (el *eventloop) adapt(c *conn, length int) {
	if (length >= smallBuffer) == c.large {
		c.streak = 0
		return
	}
	c.streak++
	if c.streak < fullsToGrow || c.large && c.streak < smallsToShrink {
		return
	}
	c.streak = 0
	if err := c.socket.SetLargeStream(!c.large); err != nil {
		el.eng.log.Warnf("buffers of %v: %v", c.RemoteAddr(), err)
		return
	}
	c.large = !c.large
}
