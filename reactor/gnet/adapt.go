package gnet

// A ring on io_uring offers its buffers to the kernel in advance, a quarter of each class. Of the large ones these are few: a thousand
// connections that wait for them would find none most of the time. There a connection begins with small buffers, and one that keeps
// filling them gets large ones, while not too many have them. Other rings take a buffer when there is something to read: there each
// connection has large ones from the start.
const (
	fullsToGrow     = 4  // full small buffers in a row
	smallsToShrink  = 64 // packets in a row that a small buffer would have held
	offeringInRings = "uring"
)

// offers tells whether this loop's ring is of the first kind.
func (el *eventloop) offers() bool { return el.owner.Rings()[0].Kind() == offeringInRings }

// adapt looks at the length of a packet and chooses the connection's buffers.
func (el *eventloop) adapt(c *conn, length int) {
	if (length >= smallBuffer) == c.large {
		c.streak = 0
		return
	}
	c.streak++
	switch {
	case c.large && c.streak >= smallsToShrink:
		el.large--
	case !c.large && c.streak >= fullsToGrow && el.large < el.largeMost:
		el.large++
	default:
		return
	}
	c.large, c.streak = !c.large, 0
	if err := c.socket.SetLargeStream(c.large); err != nil {
		el.eng.log.Warnf("buffers of %v: %v", c.RemoteAddr(), err)
	}
}
