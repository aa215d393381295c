package stream

import (
	"fmt"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// A connection can go on elsewhere, and come from elsewhere. The driver, which knows the guard and the kernel, calls in this order:
//
//	to the kernel     Export ──► its socket is made ──► Discard
//	                        └──► that was refused ────► Resume
//	from the kernel   its state is read ──► Import ──► its socket is closed
//
// Nothing leaves or is taken in between: both are parts of one turn.

// Moving is a connection while it moves: its state, and the payload of its queues.
type Moving struct {
	tcp.Snapshot
	Received []byte // in order, and not delivered
	Sent     []byte // from SendUnacked to SendNext
	Unsent   []byte // behind SendNext
}

// MovedOut is what the transport has let go of with a connection.
type MovedOut struct {
	Below     ring.Conn // the socket below that reserves the connection's port, now the caller's; 0: its listener's does
	Reading   bool      // SetReceiving was called last with true
	WantsRoom bool      // NotifyWritable was called, and Writable was not reported
}

// Export stops the connection of a socket and copies its state. Errors: those of tcp.Table.Export; ENOTCONN for a socket without a connection,
// EINPROGRESS for one whose facts must be reported before: it was established, or has failed, just now.
func (t *Transport) Export(s *ring.Socket) (m Moving, err error) {
	id := idOfSocket(s)
	if id == tcp.NoID {
		return m, syscall.ENOTCONN
	}
	t.takeEvents()
	r := t.record(id)
	switch {
	case r.flags&isLive == 0 || r.flags&wasFailureReported != 0:
		return m, syscall.ENOTCONN
	case r.flags&(hasConnected|hasFailed) != 0:
		return m, syscall.EINPROGRESS
	}
	var q tcp.Queues
	if m.Snapshot, q, err = t.table.Export(t.now(), id); err != nil {
		return m, err
	}
	for k := r.first; k != none; k = t.arrivals[k].next {
		a := &t.arrivals[k]
		m.Received = appendFrom(m.Received, a.packet, int(a.off), int(a.length))
	}
	for _, x := range []struct {
		list []tcp.Payload
		at   *[]byte
	}{{q.Sent, &m.Sent}, {q.Unsent, &m.Unsent}} {
		for _, p := range x.list {
			piece := &t.pieces[p.Buffer]
			*x.at = appendFrom(*x.at, piece.packet, int(p.Offset)+int(piece.head), int(p.Length))
		}
	}
	return m, nil
}

// appendFrom appends n bytes of a packet from off on.
func appendFrom(dst []byte, p buffers.Packet, off, n int) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	copyFrom(dst[at:], p, off)
	return dst
}

// Resume has a connection go on here that Export has stopped.
func (t *Transport) Resume(s *ring.Socket) error { return t.table.Resume(t.now(), idOfSocket(s)) }

// Discard forgets a connection that Export has stopped: it goes on elsewhere. Its claim ends at once. The socket has no transport then: the
// caller gives it another one. What SendPacket has queued completes.
func (t *Transport) Discard(s *ring.Socket) (m MovedOut, err error) {
	id := idOfSocket(s)
	r := t.record(id)
	if err := t.table.Discard(t.now(), id); err != nil {
		return m, err
	}
	t.dropArrivals(r)
	t.forgetFlow(id)
	m = MovedOut{Below: t.takeHold(r.hold), Reading: r.flags&isReading != 0, WantsRoom: r.flags&wantsRoom != 0}
	r.hold, r.socket = 0, 0
	r.flags = r.flags&^(isOpen|isReading|wantsRoom) | isClosed
	t.takeEvents()
	return m, nil
}

// Import makes a connection of a state, for a socket that is on its ring and that another transport has had. below is the socket that reserves
// its port, 0 where a listener's does. The flow is claimed. It returns the socket's number here: the caller gives it to Sink.Move, and then
// calls SetReceiving. On an error nothing has changed.
func (t *Transport) Import(s *ring.Socket, m *Moving, below ring.Conn) (c ring.Conn, err error) {
	t.takeEvents()
	m.Settings = t.settingsMoved(s, m)
	// Received goes into arrivals of the record: to the table it is data that was delivered and not released. An MTU below the least that an
	// IPv4 path has the table would refuse.
	m.Held, m.MTU = len(m.Received), max(m.MTU, 68)
	var q tcp.Queues
	var arrivals []tcp.Payload
	undo := func() {
		for _, list := range [...][]tcp.Payload{q.Sent, q.Unsent} {
			for _, p := range list {
				t.freeCopy(&t.pieces[p.Buffer])
				t.freePiecePlace(int32(p.Buffer))
			}
		}
		for _, p := range arrivals {
			t.dropArrival(int32(p.Buffer))
		}
	}
	ok := t.fillPieces(&q.Sent, m.Sent, m) && t.fillPieces(&q.Unsent, m.Unsent, m) && t.fillArrivals(&arrivals, m.Received)
	if !ok {
		undo()
		return 0, fmt.Errorf("stream: buffers for a connection that moves: %w", syscall.ENOBUFS)
	}
	hold, err := t.addHold(m.Local.AddrPort(), m.Remote.AddrPort(), s.Device(), below)
	if err != nil {
		undo()
		return 0, err
	}
	id, err := t.table.Import(t.now(), &m.Snapshot, &q, userOf(int32(s.Device())))
	if err != nil {
		undo()
		t.takeHold(hold) // below stays the caller's
		return 0, fmt.Errorf("stream: %w", err)
	}
	t.takeEvents() // the end of an earlier record of the same connection, whose number this one may have
	r := t.newRecord(id)
	r.socket, r.hold, r.device = ring.RefOf(s), hold, int32(s.Device())
	r.flags |= isOpen
	if m.Fin {
		r.flags |= isShut
	}
	for _, p := range arrivals {
		t.addArrival(r, p)
	}
	t.recordFlow(id)
	t.markReady(id, r)
	return connOf(id), nil
}

// settingsMoved are the settings of a connection that comes: those of its state, and what the application has set on the socket. What the
// handshake agreed on stays, and the buffers are as large as what is in them.
func (t *Transport) settingsMoved(s *ring.Socket, m *Moving) tcp.Settings {
	x := m.Settings
	for _, o := range ring.OptionsOf(s).Stream {
		_ = setOption(&x, o.Option, o.Value) // as settingsOf
	}
	x.SACK, x.Timestamps, x.ECN, x.WindowScale, x.MaxSegment = m.Settings.SACK, m.Settings.Timestamps, m.Settings.ECN, m.Settings.WindowScale,
		m.Settings.MaxSegment
	x.ResetUnread = false
	x.ReceiveBuffer = max(x.ReceiveBuffer, int(m.ReceiveWindow)+len(m.Received))
	x.SendBuffer = max(x.SendBuffer, len(m.Sent)+len(m.Unsent))
	return x
}

// fillPieces copies bytes to be sent into pieces of a segment each; many of them into large buffers, while there are plenty. False: a buffer is
// missing; list has those that were filled.
func (t *Transport) fillPieces(list *[]tcp.Payload, b []byte, m *Moving) bool {
	size := min(int(m.PeerMSS), m.MTU-wire.IPv4Len-wire.TCPLen)
	if m.Timestamps {
		size -= 12 // the option with its padding
	}
	for len(b) > 0 {
		n := min(len(b), max(size, 1))
		if l := t.pool.Layout(); len(b) > l.SmallSize && t.pool.Free(buffers.Large) > l.LargeCount/4 {
			n = min(len(b), l.LargeSize)
		}
		k := t.newPiece(n)
		if k == none {
			return false
		}
		n = copy(t.pieces[k].packet.Bytes(), b)
		b = b[n:]
		*list = append(*list, tcp.Payload{Buffer: tcp.Buffer(k), Length: uint32(n)})
	}
	return true
}

// fillArrivals copies received bytes into buffers, as if segments had brought them. False: as of fillPieces.
func (t *Transport) fillArrivals(list *[]tcp.Payload, b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), t.pool.Layout().LargeSize)
		p := t.CopyPacket(b[:n])
		if p.IsZero() {
			n = min(n, t.pool.Layout().SmallSize)
			p = t.CopyPacket(b[:n])
		}
		if p.IsZero() {
			return false
		}
		k := t.newArrival()
		t.arrivals[k].packet = p
		*list = append(*list, tcp.Payload{Buffer: tcp.Buffer(k), Length: uint32(n)})
		b = b[n:]
	}
	return true
}
