package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// A connection that one table has accepted may be served by another table of the same host: the record itself moves. Unlike Export and Import,
// which know what a kernel knows, it takes all along, and no segment leaves for it.
//
//	ExportChild ──► Child ──► ImportChild, of any table of the directory
//
// In between the directory has the flow as InTransit, and a ring that receives a segment for it keeps the segment for the importer. No timer
// runs.

// Child is a connection in transit.
type Child struct {
	Local, Remote Endpoint
	Settings      Settings
	record        conn
	inFlows       bool // segments may still come
}

// Failed reports whether the connection was over when it was exported.
func (c *Child) Failed() bool { return !c.inFlows }

// ExportChild takes a connection out of the table on which nothing was sent and which was not closed: that of EventAccepted, or one that was
// imported. Data beyond a gap is dropped: the peer sends it again (RFC 2018 section 8). Data in order was reported before, and so was an end or
// a failure: the caller carries them. EventGone follows. Errors: ErrNoConn; ErrState for other connections.
func (t *Table) ExportChild(now clock.Time, id ID) (Child, error) {
	t.now = now
	c := t.get(id)
	switch {
	case c == nil:
		return Child{}, ErrNoConn
	case c.has(flagMoving | flagAppClosed | flagFin), c.sender != 0, c.end != c.una, c.state == SynSent, c.state == SynReceived, c.state == TimeWait:
		return Child{}, ErrState
	}
	t.dropReassembly(id, c)
	x := Child{Local: c.local, Remote: c.remote, Settings: *t.settingsOf(c), record: *c, inFlows: c.has(flagInFlows)}
	if x.inFlows {
		if d := t.config.Directory; d != nil {
			d.Export(c.local, c.remote, t.config.Number)
		}
		t.removeFlow(id, c) // before closeConn, which would remove it from the directory too
	}
	t.closeConn(id, c)
	t.forget(id, c)
	r := &x.record
	r.flags &^= flagReady | flagInFlows
	r.listener, r.timer, r.sender, r.reassembly, r.user = 0, 0, 0, 0, 0
	return x, nil
}

// ImportChild makes an exported connection the table's: it goes on at once. user is in each of its events. Errors: ErrInUse, ErrLimit.
func (t *Table) ImportChild(now clock.Time, x *Child, user uint64) (ID, error) {
	t.now = now
	if x.inFlows && t.find(x.Local, x.Remote) != 0 {
		return NoID, ErrInUse
	}
	if t.count >= t.config.MaxConns {
		return NoID, ErrLimit
	}
	if x.inFlows && !t.enter(x.Local, x.Remote) {
		return NoID, ErrInUse
	}
	id, c := t.newConn()
	*c = x.record
	c.settings, c.user = t.intern(x.Settings), user
	if x.inFlows {
		t.flows.add(c.local, c.remote, refOf(refConn, uint32(id)))
		c.flags |= flagInFlows
		t.wake(id, c)
		t.schedule(id, c)
	}
	return id, nil
}
