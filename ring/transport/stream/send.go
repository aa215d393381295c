package stream

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// piece is a buffer of a connection's send queue: a copy that Send made, or a packet of SendPacket. Its number is the table's name for it.
type piece struct {
	packet         buffers.Packet
	sent           ring.Transmission // of SendPacket
	socket         *ring.Socket      // the socket that receives its completion; nil: a copy, which has none
	head           int32             // bytes of headers in front, while a link holds the frame
	next           int32             // of a free place
	isHeld         bool              // a link, or the stack, holds the frame
	isUnacked      bool              // its buffer is unacknowledged, and not transmitting
	isConfirmed    bool              // nobody needs it any more but the link
	hasWriterSpace bool              // a copy that may grow: see extend
}

// done is a transmission whose end is to be reported.
type done struct {
	socket *ring.Socket
	sent   ring.Transmission
	errno  syscall.Errno
}

// Send copies b into the send queue, as much as there is room for.
func (t *Transport) Send(s *ring.Socket, b []byte, _ netip.AddrPort) (int, syscall.Errno) {
	id, e := t.prepareSend(s)
	if e != 0 {
		return 0, e
	}
	n := t.queue(id, b, nothingFollows)
	if n == 0 && len(b) > 0 {
		return 0, syscall.EAGAIN
	}
	return n, 0
}

// SendVector is Send for pieces.
func (t *Transport) SendVector(s *ring.Socket, bufs [][]byte, _ netip.AddrPort) (int, syscall.Errno) {
	id, e := t.prepareSend(s)
	if e != 0 {
		return 0, e
	}
	n, all := 0, 0
	for i, b := range bufs {
		if n == all { // all before was queued
			n += t.queue(id, b, i < len(bufs)-1)
		}
		all += len(b)
	}
	if n < all { // what follows is not queued: nothing is to wait for it
		t.table.Push(t.now(), id)
	}
	if n == 0 && all > 0 {
		return 0, syscall.EAGAIN
	}
	return n, 0
}

// prepareSend is called before each send. It processes what has arrived, so that the answer is up to date, and returns the connection; the
// errno says why nothing more can be sent, 0 if it can.
func (t *Transport) prepareSend(s *ring.Socket) (tcp.ID, syscall.Errno) {
	id := idOfSocket(s)
	if id == tcp.NoID {
		return id, syscall.ENOTCONN
	}
	t.hasAnswer = true
	// An ACK that has arrived makes room, a reset is the answer.
	if t.pollOnSend {
		t.host.Pull()
	} else {
		t.host.PullIfIdle()
	}
	if t.table.HasEvents() {
		t.takeEvents()
	}
	r := t.record(id)
	switch {
	case r.flags&(isLive|isClosed|isShut) != isLive, r.flags&wasFailureReported != 0:
		return id, syscall.EPIPE
	case r.flags&hasFailed != 0:
		return id, errnos[r.reason]
	}
	return id, 0
}

// nothingFollows is the argument more of queue and tcp.Table.Send where a call has no further bytes.
const nothingFollows = false

// queue copies b into pieces and returns how much of it. more: further bytes of the same call follow, so that a piece that is not full need
// not leave.
func (t *Transport) queue(id tcp.ID, b []byte, more bool) (n int) {
	now := t.now()
	b = b[:min(len(b), t.table.Room(id))]
	if len(b) == 0 {
		return 0
	}
	size := t.table.SegmentSize(id)
	n = t.extend(id, b, size, more)
	for n < len(b) {
		k := t.newPiece(min(len(b)-n, size))
		if k == none {
			t.table.Push(now, id) // nothing follows what was queued
			break
		}
		p := &t.pieces[k]
		room := p.packet.Bytes()
		length := copy(room, b[n:])
		n += length
		if t.table.Send(now, id, tcp.Payload{Buffer: tcp.Buffer(k), Length: uint32(length)}, more || n < len(b)) != nil {
			t.freeCopy(p)
			t.freePiecePlace(k)
			return n - length
		}
	}
	return n
}

// extend copies the beginning of b behind the last piece, if nothing of that was sent: small sends of a turn leave together.
func (t *Transport) extend(id tcp.ID, b []byte, size int, more bool) int {
	tail, ok := t.table.Tail(id)
	if !ok || int(tail.Length) >= size {
		return 0
	}
	p := &t.pieces[tail.Buffer]
	if !p.hasWriterSpace {
		return 0
	}
	room := p.packet.Room()
	length := int(tail.Length)
	n := min(len(b), size-length, len(room)-length)
	if n <= 0 || p.packet.SetLen(length+n) != nil {
		return 0
	}
	copy(room[length:], b[:n])
	if t.table.Extend(t.now(), id, n, more || n < len(b)) != nil {
		_ = p.packet.SetLen(length)
		return 0
	}
	return n
}

// newPiece takes a buffer for at most n bytes to be sent; its packet says how many. A large one is taken for what a small one does not hold,
// while more than a quarter of them are free: the rest is for receiving. none: there is no buffer that may be queued.
func (t *Transport) newPiece(n int) int32 {
	layout := t.pool.Layout()
	if n > layout.SmallSize && (layout.LargeCount == 0 || t.pool.Free(buffers.Large) <= layout.LargeCount/4) {
		n = layout.SmallSize
	}
	if n <= layout.SmallSize && t.pool.Queueable(buffers.Small) <= 0 {
		return none
	}
	packet, _ := t.pool.AllocTransmit(0, n)
	if packet.IsZero() {
		return none
	}
	t.pool.AddQueued(packet)
	return t.addPiece(piece{packet: packet, hasWriterSpace: true})
}

// freeCopy frees the buffer of a piece of newPiece.
func (t *Transport) freeCopy(p *piece) {
	t.pool.RemoveQueued(p.packet)
	t.pool.FreeTransmit(p.packet)
}

// addPiece stores a piece in a free place of pieces and returns its number, which the table uses as the name of the payload.
func (t *Transport) addPiece(p piece) int32 {
	k := t.freePiece
	if k == none {
		t.pieces = append(t.pieces, p)
		return int32(len(t.pieces)) - 1
	}
	t.freePiece = t.pieces[k].next
	t.pieces[k] = p
	return k
}

func (t *Transport) freePiecePlace(k int32) {
	t.pieces[k] = piece{next: t.freePiece}
	t.freePiece = k
}

// Transmit queues the packets that SendPacket has left on the socket, each as a piece of its own. Those that cannot be sent complete with an
// error.
func (t *Transport) Transmit(s *ring.Socket) {
	id, e := t.prepareSend(s)
	for {
		x, ok := ring.TakeTransmission(s)
		if !ok {
			return
		}
		length := x.Packet.Len()
		if e != 0 || length == 0 {
			t.done = append(t.done, done{s, x, e})
			continue
		}
		k := t.addPiece(piece{packet: x.Packet, sent: x, socket: s})
		if t.table.Send(t.now(), id, tcp.Payload{Buffer: tcp.Buffer(k), Length: uint32(length)}, nothingFollows) != nil {
			t.freePiecePlace(k)
			t.done = append(t.done, done{s, x, syscall.EPIPE})
		}
	}
}

// confirmed is called when the table needs a piece no more: its bytes were acknowledged, or the connection has ended. The piece is finished at
// once, or, if a link still holds its frame, when the link gives that back.
func (t *Transport) confirmed(k int32) {
	p := &t.pieces[k]
	if p.isHeld {
		p.isConfirmed = true
		t.awaited++
		return
	}
	t.finish(k)
}

// finish frees a piece: a copy's buffer returns to the pool, a packet of SendPacket is queued for its completion.
func (t *Transport) finish(k int32) {
	p := &t.pieces[k]
	if p.socket == nil {
		t.freeCopy(p)
	} else {
		t.done = append(t.done, done{p.socket, p.sent, 0})
	}
	t.freePiecePlace(k)
}
