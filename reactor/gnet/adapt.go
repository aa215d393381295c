package gnet

// An io_uring ring receives small pieces fastest if buffers are given to the kernel in advance, which is done with small buffers only. On such a
// ring a connection begins with small buffers, and changes to large ones if it keeps filling them. Other rings allocate a buffer when there is
// something to read: on them each connection has large buffers from the start.
const (
	fullsToGrow     = 4  // full small buffers in a row
	smallsToShrink  = 64 // packets in a row that a small buffer would have held
	offeringInRings = "uring"
)

// offersBuffers reports whether this loop's ring gives buffers to the kernel in advance, as io_uring rings do: connections begin with small
// ones there.
func (el *eventloop) offersBuffers() bool { return el.poller.Rings()[0].Kind() == offeringInRings }

// adaptBuffers chooses between small and large receive buffers for a connection, by the length of a packet that it received: several full
// small ones in a row make it large, many short ones small again. It is called for each packet on a ring that offers buffers.
func (el *eventloop) adaptBuffers(c *conn, length int) {
	if (length >= smallBuffer) == c.large { // it fits the present choice
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
