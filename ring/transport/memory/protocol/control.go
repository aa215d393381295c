package protocol

import "github.com/socketxtreme/socketxtreme/internal/clock"

// The application's calls. Each may send.

// Connect begins a connection: EventConnected, EventRefused or EventTimedOut follows.
func (t *Table) Connect(now clock.Time, local, remote Endpoint) (ID, error) {
	t.now = now
	if _, used := t.lookup[pair{local, remote}]; used {
		return 0, ErrInUse
	}
	id := t.open(local, remote)
	t.conns[id].become(SynSent)
	t.output(id)
	return id, nil
}

// Take says that the host has accepted the connection of an EventAccepted: it does not count against its listener's backlog any more.
func (t *Table) Take(id ID) { t.leaveBacklog(&t.conns[id]) }

// Queue sends n more bytes, which the Host has at End.
func (t *Table) Queue(now clock.Time, id ID, n int) {
	t.now = now
	c := &t.conns[id]
	c.end = c.end.Add(n)
	t.output(id)
}

// Sends reports whether the connection takes bytes to send.
func (t *Table) Sends(id ID) bool {
	c := &t.conns[id]
	return c.flags&(flagFin|flagClosed) == 0 && (c.state == Established || c.state == CloseWait)
}

// CloseWrite sends FIN behind what was queued.
func (t *Table) CloseWrite(now clock.Time, id ID) {
	t.now = now
	c := &t.conns[id]
	if c.state == Closed || c.flags&flagFin != 0 {
		return
	}
	c.flags |= flagFin
	t.output(id)
}

// Credit says that n received bytes were released: the window opens by as many.
func (t *Table) Credit(now clock.Time, id ID, n int) {
	t.now = now
	c := &t.conns[id]
	c.held -= min(uint32(n), c.held)
	if !receives.has(c.state) || c.flags&flagClosed != 0 {
		return
	}
	// Not for each byte (RFC 9293 section 3.8.6.2.2): when it opens by two segments, or by half.
	if opens := t.windowEdge(c).Minus(c.rcvEdge); opens >= min(2*t.config.MSS, t.config.Window/2) {
		t.ackAtFlush(id)
	}
}

// windowEdge is where the window ends. It never goes back.
func (t *Table) windowEdge(c *Conn) Seq {
	e := c.rcv.Add(t.config.Window - int(min(c.held, uint32(t.config.Window))))
	if e.Before(c.rcvEdge) {
		return c.rcvEdge
	}
	return e
}

// Close ends the host's use of the connection: what was queued is sent, then FIN; EventGone comes when the record is freed. unread says that the
// host has received data which was not read: then the peer is sent a reset instead (RFC 9293 section 3.10.4).
func (t *Table) Close(now clock.Time, id ID, unread bool) {
	t.now = now
	c := &t.conns[id]
	switch {
	case c.state == Closed, c.state == SynSent:
		t.forget(id)
		return
	case unread && receives.has(c.state):
		t.abort(id)
		return
	}
	t.leaveBacklog(c)
	c.flags |= flagClosed | flagFin
	if c.state == FinWait2 {
		c.due = now.Add(t.config.FinWait)
		t.schedule(id)
	}
	t.output(id)
}

// Abort ends the connection at once; the peer is sent a reset.
func (t *Table) Abort(now clock.Time, id ID) {
	t.now = now
	t.abort(id)
}

// abort resets the peer, if it knows the connection, and frees the record.
func (t *Table) abort(id ID) {
	if c := &t.conns[id]; synced.has(c.state) || c.state == SynReceived {
		t.reset(c)
	}
	t.forget(id)
}

// reset sends a reset for the connection. If the link is full it is lost: the peer's next segment is answered with one.
func (t *Table) reset(c *Conn) {
	s := Segment{Source: c.local, Target: c.remote, Flags: RST | ACK, Seq: c.max, Ack: c.rcv}
	t.stats.ResetsSent++
	t.transmit(NoID, s)
}

// AbortAll ends every connection, those that were closed and are not over included. Their peers are sent a reset, but for those in TIME-WAIT,
// whose peers are done.
func (t *Table) AbortAll(now clock.Time) {
	t.now = now
	for id := range t.conns {
		if t.conns[id].live() {
			t.abort(ID(id))
		}
	}
}
