package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// CloseWrite sends FIN behind what is queued. Receiving goes on.
func (t *Table) CloseWrite(now clock.Time, id ID) error {
	t.now = now
	c := t.get(id)
	switch {
	case c == nil:
		return ErrNoConn
	case c.has(flagFailed) || c.state == Closed || c.state == TimeWait:
		return ErrNotOpen
	case c.has(flagMoving):
		return ErrMoving
	case c.has(flagFin):
		return ErrClosed
	case c.state == SynSent:
		return ErrNotOpen
	}
	t.closeWrite(id, c)
	return nil
}

// closeWrite marks FIN to be sent behind the queued data, and changes the state: RFC 9293 section 3.10.4.
func (t *Table) closeWrite(id ID, c *conn) {
	c.flags |= flagFin | flagPush
	c.flags &^= flagMore
	switch c.state { // in SYN-RECEIVED the end of the handshake changes it: completeSimultaneous
	case Established:
		c.become(FinWait1)
	case CloseWait:
		c.become(LastAck)
	}
	t.armLife(c)
	t.wake(id, c)
	t.schedule(id, c)
}

// Close ends the application's part: FIN goes behind what is queued, or a reset where received data was not credited (Settings.ResetUnread).
// Buffers that are still the connection's come back by events, of which EventGone is the last.
func (t *Table) Close(now clock.Time, id ID) {
	t.now = now
	c := t.get(id)
	if c == nil || c.has(flagAppClosed) || c.discarded() {
		return
	}
	switch {
	case c.has(flagMoving):
		t.Abort(now, id)
		return
	case c.state == Closed, c.state == TimeWait:
		t.abandon(c)
		t.forget(id, c)
		return
	case c.state == SynSent: // RFC 9293 section 3.10.4: nothing was agreed on
		t.abandon(c)
		t.fail(id, c, ReasonReset)
		return
	case t.settingsOf(c).ResetUnread && (c.held > 0 || c.reassembly != 0 && len(t.reassemblies[c.reassembly-1].held) > 0):
		t.Abort(now, id) // RFC 2525 section 2.17, RFC 9293 SHLD-3
		return
	case t.appClosed >= t.config.MaxAppClosed:
		t.stats.AppClosedReset++
		t.Abort(now, id)
		return
	}
	t.abandon(c)
	if c.listener != 0 {
		_ = t.Take(id, c.user) // the record is there
	}
	if !c.has(flagFin) {
		t.closeWrite(id, c)
		return
	}
	t.armLife(c)
	t.schedule(id, c)
}

// AbortUnfinished is Abort, but without a segment where nothing is owed to the peer: the application has closed the connection, and the peer has
// acknowledged all of it. So the time-out of FIN-WAIT-2 ends it as well.
func (t *Table) AbortUnfinished(now clock.Time, id ID) {
	t.now = now
	if c := t.get(id); c != nil && c.state == FinWait2 && c.has(flagAppClosed) {
		t.fail(id, c, ReasonTimeout)
		return
	}
	t.Abort(now, id)
}

// owing are the states of a connection that its application has closed in which the peer has not acknowledged everything, the FIN included.
var owing = set(SynReceived, FinWait1, Closing, LastAck)

// OwesPeers reports whether a connection that its application has closed has something that its peer has not acknowledged. With such
// connections it looks at all records.
func (t *Table) OwesPeers() bool {
	if t.appClosed == 0 {
		return false
	}
	for n := range len(t.conns) * connChunk {
		if c := t.conn(ID(n)); c.has(flagLive) && c.has(flagAppClosed) && owing.has(c.state) {
			return true
		}
	}
	return false
}

// abandon notes that the application is gone. Config.MaxAppClosed bounds how many records are without one.
func (t *Table) abandon(c *conn) {
	if !c.has(flagAppClosed) {
		c.flags |= flagAppClosed
		t.appClosed++
	}
}

// Abort ends the connection with a reset (RFC 9293 section 3.10.5). EventGone follows.
func (t *Table) Abort(now clock.Time, id ID) {
	t.now = now
	c := t.get(id)
	if c == nil || c.discarded() {
		return
	}
	// In TIME-WAIT no reset is sent: the peer has closed, too (section 3.10.5).
	if c.state == SynReceived || synchronized.has(c.state) && c.state != TimeWait {
		t.sendReset(c)
	}
	t.abandon(c)
	if c.state == Closed || c.state == TimeWait {
		t.forget(id, c)
		return
	}
	t.fail(id, c, ReasonReset)
}
