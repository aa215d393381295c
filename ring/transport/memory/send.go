package memory

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// piece is a buffer of a connection's send queue: a copy that Send made, or a packet of SendPacket.
//
//	             │ frames at the link │
//	transmitting │ 1 or more          │ queued, or being sent: it must not be written to
//	unacknowledged 0                  │ sent, and not confirmed
//	completing   │ 0                  │ confirmed, or given up; SENT is reported with the next Reap
type piece struct {
	packet         buffers.Packet
	sent           ring.Transmission // of SendPacket
	socket         *ring.Socket      // of SendPacket: SENT is reported for it; nil: a copy that Send made
	first          protocol.Seq
	length         int32
	frames         int32        // descriptors of the link that refer to it
	upTo           protocol.Seq // how far it was sent
	next           int32        // in the send queue
	finished       bool         // confirmed or given up: the link's last frame ends it
	unacknowledged bool         // its buffer is unacknowledged in the pool's ledger
	errno          syscall.Errno
}

// Send copies b into the send queue, as much as there is room for.
func (h *Host) Send(s *ring.Socket, b []byte, _ netip.AddrPort) (int, syscall.Errno) {
	i, e := h.maySend(s)
	if e != 0 {
		return 0, e
	}
	n := h.queueBytes(i, b)
	return h.sendQueued(i, n, len(b))
}

// SendVector is Send for pieces.
func (h *Host) SendVector(s *ring.Socket, bufs [][]byte, _ netip.AddrPort) (int, syscall.Errno) {
	i, e := h.maySend(s)
	if e != 0 {
		return 0, e
	}
	n, all := 0, 0
	for _, b := range bufs {
		if n == all {
			n += h.queueBytes(i, b)
		}
		all += len(b)
	}
	return h.sendQueued(i, n, all)
}

// maySend returns the record of the socket after taking in what has arrived, and the error when its connection takes nothing more to send.
func (h *Host) maySend(s *ring.Socket) (int32, syscall.Errno) {
	h.receiveFrames()
	i := index(s)
	switch r := &h.records[i]; {
	case r.failure != 0 && r.flags&reportedFailed == 0:
		return i, r.failure
	case r.id == protocol.NoID || !h.table.Sends(r.id):
		return i, syscall.EPIPE
	}
	return i, 0
}

// sendQueued makes the protocol send the n bytes that were queued, and returns what Send returns: EAGAIN if none of want were.
func (h *Host) sendQueued(i int32, n, want int) (int, syscall.Errno) {
	if n == 0 && want > 0 {
		return 0, syscall.EAGAIN
	}
	if n > 0 {
		h.table.Queue(h.now, h.records[i].id, n)
	}
	return n, 0
}

// sendRoom is how many bytes more Send may queue for the record; below 0 after the limit was lowered.
func (h *Host) sendRoom(r *record) int {
	limit := int(r.limit)
	if limit == 0 {
		limit = h.config.SendBuffer
	}
	return limit - int(r.queued)
}

// queueBytes copies as much of b as the record has room for and the pool has buffers for into pieces, and returns how many bytes that is. The
// protocol does not know of them before sendQueued.
func (h *Host) queueBytes(i int32, b []byte) (n int) {
	r := &h.records[i]
	b = b[:min(len(b), max(h.sendRoom(r), 0))]
	layout := h.pool.Layout()
	for n < len(b) {
		k := min(len(b)-n, layout.SmallSize)
		if len(b)-n > layout.SmallSize && layout.LargeCount > 0 && h.pool.Free(buffers.Large) > layout.LargeCount/4 {
			k = min(len(b)-n, layout.LargeSize)
		}
		p, memory := h.pool.AllocTransmit(0, k)
		if p.IsZero() {
			break
		}
		copy(memory, b[n:n+k])
		h.appendPiece(i, piece{packet: p, length: int32(k)})
		r.queued += int32(k)
		n += k
	}
	return n
}

// appendPiece puts a new piece at the end of a record's send queue, and gives it its place in the stream.
func (h *Host) appendPiece(i int32, p piece) {
	r := &h.records[i]
	p.first = h.table.End(r.id)
	if t := r.sendTail; t != none {
		p.first = h.pieces[t].first.Add(int(h.pieces[t].length))
	}
	p.upTo = p.first
	h.enqueue(i, p)
}

// enqueue puts a piece, whose place in the stream is known, at the end of a record's send queue.
func (h *Host) enqueue(i int32, p piece) {
	r := &h.records[i]
	p.next = none
	k := h.freePieces
	if k == none {
		k = int32(len(h.pieces))
		h.pieces = append(h.pieces, p)
	} else {
		h.freePieces = h.pieces[k].next
		h.pieces[k] = p
	}
	if r.sendTail == none {
		r.sendHead = k
	} else {
		h.pieces[r.sendTail].next = k
	}
	r.sendTail = k
}

// transmit queues the packets that SendPacket has left on the socket.
func (h *Host) transmit(s *ring.Socket) {
	i := index(s)
	n := 0
	for {
		t, ok := ring.TakeTransmission(s)
		if !ok {
			break
		}
		r := &h.records[i]
		switch {
		case r.id == protocol.NoID || !h.table.Sends(r.id):
			e := r.failure
			if e == 0 {
				e = syscall.EPIPE
			}
			h.completions = append(h.completions, completion{s, t, e})
		case t.Packet.Len() == 0:
			h.completions = append(h.completions, completion{s, t, 0})
		default:
			h.appendPiece(i, piece{packet: t.Packet, sent: t, socket: s, length: int32(t.Packet.Len())})
			n += t.Packet.Len()
		}
	}
	if n > 0 {
		h.table.Queue(h.clock(), h.records[i].id, n)
	}
}

// pieceAt returns the index of the piece that has the byte seq of the stream; none when that was not queued. It remembers the piece, because the
// next call is mostly for the same one or the next.
func (h *Host) pieceAt(r *record, seq protocol.Seq) int32 {
	k := r.sendAt
	if k == none || seq.Before(h.pieces[k].first) {
		k = r.sendHead
	}
	for k != none {
		p := &h.pieces[k]
		if seq.Before(p.first.Add(int(p.length))) {
			break
		}
		k = p.next
	}
	r.sendAt = k
	return k
}

// bytesFrom returns the packet's bytes from off on, up to the end of the buffer that has them.
func bytesFrom(p buffers.Packet, off int) []byte {
	if b := p.Bytes(); off < len(b) {
		return b[off:]
	}
	for b := range p.Segments() {
		if off < len(b) {
			return b[off:]
		}
		off -= len(b)
	}
	return nil
}

// Piece implements protocol.Host: how many of n bytes from seq on lie together in memory, so that one frame can carry them.
func (g segments) Piece(id protocol.ID, seq protocol.Seq, n int) int {
	h := g.Host
	p := &h.pieces[h.pieceAt(&h.records[h.recordOf(id)], seq)]
	return min(n, len(bytesFrom(p.packet, seq.Minus(p.first))))
}

// Transmit implements protocol.Host: it puts a segment on the link, with its payload from the send queue. Full: the link has no descriptor free,
// or connections are being moved. Held: the link still has a frame with the same bytes.
func (g segments) Transmit(id protocol.ID, s *protocol.Segment) protocol.Outcome {
	h := g.Host
	if s.Length == 0 {
		if !h.link.Transmit(h.now, s, nil, none) {
			return protocol.Full
		}
		return protocol.Sent
	}
	if h.leaving {
		return protocol.Full // it is sent from the spare, after the move
	}
	k := h.pieceAt(&h.records[h.recordOf(id)], s.Seq)
	p := &h.pieces[k]
	if p.frames > 0 && s.Seq.Before(p.upTo) && h.link.Holds(k, s.Seq, int(s.Length)) {
		return protocol.Held
	}
	off := s.Seq.Minus(p.first)
	if p.unacknowledged {
		h.pool.Retransmit(p.packet)
		p.unacknowledged = false
	}
	p.frames++
	if !h.link.Transmit(h.now, s, bytesFrom(p.packet, off)[:s.Length], k) {
		p.frames--
		h.unacknowledge(k)
		return protocol.Full
	}
	if end := s.Seq.Add(int(s.Length)); p.upTo.Before(end) {
		p.upTo = end
	}
	return protocol.Sent
}

// unacknowledge moves a piece that was sent to the unacknowledged state, if no frame of the link refers to it.
func (h *Host) unacknowledge(k int32) {
	if p := &h.pieces[k]; p.frames == 0 && !p.unacknowledged && p.upTo != p.first {
		h.pool.Unacknowledge(p.packet)
		p.unacknowledged = true
	}
}

// complete takes back the descriptors of frames that are on the wire, and ends the pieces that were confirmed meanwhile.
func (h *Host) complete() {
	for {
		k, ok := h.link.Completed()
		if !ok {
			return
		}
		if k == none {
			continue
		}
		p := &h.pieces[k]
		if p.frames--; p.frames > 0 {
			continue
		}
		if p.finished {
			h.finishPiece(k)
		} else {
			h.unacknowledge(k)
		}
	}
}

// removeAcknowledged takes off record i's queue the pieces that the peer has confirmed whole.
func (h *Host) removeAcknowledged(i int32) {
	r := &h.records[i]
	una := h.table.Unacknowledged(r.id)
	for r.sendHead != none {
		p := &h.pieces[r.sendHead]
		if una.Before(p.first.Add(int(p.length))) {
			return
		}
		h.popPiece(r, 0)
	}
}

// dropPieces takes all pieces off record i's queue: they end with error e.
func (h *Host) dropPieces(i int32, e syscall.Errno) {
	for r := &h.records[i]; r.sendHead != none; {
		h.popPiece(r, e)
	}
}

// popPiece takes the first piece off the record's send queue. e is what SENT reports: 0, or why the piece was not delivered. The piece is
// finished at once, or by complete when the link has returned its last frame.
func (h *Host) popPiece(r *record, e syscall.Errno) {
	k := r.sendHead
	p := &h.pieces[k]
	if r.sendAt == k {
		r.sendAt = p.next
	}
	if r.sendHead = p.next; r.sendHead == none {
		r.sendTail = none
	}
	if p.socket == nil { // queued counts the copies of Send only
		r.queued -= p.length
	}
	p.finished, p.errno = true, e
	if p.frames == 0 {
		h.finishPiece(k)
	}
}

// finishPiece frees the piece k, which neither the queue nor the link has any more: a copy's buffer returns to the pool, a packet is reported
// with SENT.
func (h *Host) finishPiece(k int32) {
	p := &h.pieces[k]
	if p.socket == nil {
		h.pool.FreeTransmit(p.packet)
	} else {
		h.completions = append(h.completions, completion{p.socket, p.sent, p.errno})
	}
	*p = piece{next: h.freePieces}
	h.freePieces = k
}
