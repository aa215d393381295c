package xdp

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Send writes frames to the transmit ring, in place: the card, or the kernel's copy, reads them where they lie.
func (q *Queue) Send(src []link.Out) int {
	if q.closed {
		return 0
	}
	for n := range src {
		if !q.transmit(&src[n]) {
			return n
		}
	}
	return len(src)
}

// transmit queues one frame; false when there is no room for it.
func (q *Queue) transmit(o *link.Out) bool {
	place := q.pool.Place(o.Packet)
	length, pieces := int(place.Len), 1
	if place.More() || uint64(place.Len) > q.stride {
		length, pieces = o.Packet.Len(), q.count(place)
	}
	if length < 14 {
		panic(fmt.Sprintf("xdp: Send: frame of %d bytes, must be at least 14", length))
	}
	if length > q.info.MaxFrame || pieces > q.info.MaxPieces {
		return q.refuse(o)
	}
	// What is on the way must fit into the completion ring, and what has completed into the list for the caller.
	if q.flying+pieces > len(q.sock.tx.entries) || q.Unsent() >= cap(q.done) || q.sock.tx.room(uint32(pieces)) < uint32(pieces) {
		return false
	}
	b := &q.records[place.Buffer]
	if !place.More() && pieces == 1 {
		b.where = inTx
		q.piece(b, place.Buffer, uint64(place.Off), place.Len, 0)
	} else {
		q.chain(place, pieces)
	}
	b.pieces = uint16(pieces)
	b.out = *o
	q.unsent++
	q.stats.TxFrames++
	q.stats.TxBytes += uint64(length)
	return true
}

// refuse ends a frame that the card cannot send: it comes back as one that was sent; false when there is no room for that.
func (q *Queue) refuse(o *link.Out) bool {
	if q.Unsent() >= cap(q.done) {
		return false
	}
	q.counts.tooLong++
	q.finishSend(*o, unix.EMSGSIZE)
	return true
}

// count is how many descriptors a frame needs: each at most as long as a chunk, none empty.
func (q *Queue) count(place buffers.Place) int {
	pieces := 0
	for {
		pieces += int((uint64(place.Len) + q.stride - 1) / q.stride)
		if !place.More() {
			return pieces
		}
		place = q.pool.NextPlace(place)
	}
}

// chain puts a frame of several descriptors into the transmit ring: the buffers that follow place, each cut into pieces of at most a chunk.
// pieces is their number, as count has it; all but the last are marked as continued.
func (q *Queue) chain(place buffers.Place, pieces int) {
	first := place.Buffer
	for {
		off, left := uint64(place.Off), place.Len
		for left > 0 {
			k := min(left, uint32(q.stride))
			pieces--
			var options uint32
			if pieces > 0 {
				options = unix.XDP_PKT_CONTD
			}
			b := &q.records[place.Buffer]
			b.where = inTxChain
			q.piece(b, first, off, k, options)
			off += uint64(k)
			left -= k
		}
		if !place.More() {
			return
		}
		place = q.pool.NextPlace(place)
	}
}

// piece puts one descriptor into the transmit ring: n bytes at off of the region. b is the record of the buffer they lie in, first the frame's
// first buffer, by which reap finds the frame.
func (q *Queue) piece(b *bufferRecord, first uint32, off uint64, n, options uint32) {
	q.sock.tx.put(unix.XDPDesc{Addr: off, Len: n, Options: options})
	b.first = first
	q.flying++
	q.kick = true
}

// kernelBatch is how many frames a call of copy mode sends at most (TX_BATCH_SIZE, from Linux 6.17 on the default of XDP_MAX_TX_SKB_BUDGET). It
// ends with EAGAIN then, as it does when it could send nothing.
const kernelBatch = 32

// showsProgress: such a call publishes the index of what it has read. Before Linux 6.17 the index stands until a call has read all: progress
// and none look the same.
var showsProgress, _ = sys.ReleaseAtLeast(sys.KernelRelease(), 6, 17)

// Flush publishes the descriptors that Send wrote and, where the kernel asks for a wakeup, makes one system call for the batch. In copy mode
// the kernel sends inside that call, as many frames as its budget says, so the call is repeated while each reads more frames; and where that
// does not show, as often as all frames need.
func (q *Queue) Flush() error {
	if q.closed {
		return link.ErrClosed
	}
	if !q.kick {
		return nil
	}
	q.sock.tx.publish()
	for left, unseen := q.sock.tx.unread(), uint32(0); ; {
		if q.sock.tx.flags.Load()&unix.XDP_RING_NEED_WAKEUP == 0 {
			q.kick = left > 0
			return nil
		}
		q.stats.Kicks++
		e := q.sock.kickTx()
		switch e {
		case 0, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.EINTR:
		default:
			return q.failed(e)
		}
		if e == unix.EBUSY {
			if q.dropped(); q.read != q.sock.tx.next {
				continue // each call drops one more, as long as there is no carrier
			}
			// All are read. The kernel says so when it looks for more, without which its places in the ring were not free.
			q.sock.kickTx()
			q.kick = false
			return q.failed(e)
		}
		now := q.sock.tx.unread()
		q.read = q.sock.tx.next - min(now, q.sock.tx.next-q.read) // never back: the index may be late
		if unseen += kernelBatch; e == unix.EAGAIN && now == left && !showsProgress && unseen < left {
			continue
		}
		if now == 0 || now == left {
			q.kick = now > 0 // the rest goes with the next Flush
			return nil
		}
		left, unseen = now, 0
	}
}

// dropped notes that the kernel has read a frame and dropped it (EBUSY), because the interface has no carrier: the only call's result that is
// of a frame. __xsk_generic_xmit stops behind that frame. If it has sent others in the same call, its index of what it has read ends with the
// frame; if not, the index stands where it was, and the frame is the first one behind what is known to be read. (Before Linux 6.17 the index
// always stands, and a frame that was sent just before may be reported as the lost one: their number is exact.)
func (q *Queue) dropped() {
	tx := &q.sock.tx
	var b *bufferRecord
	if now := tx.consumer.Load(); int32(now-q.read) > 0 {
		b = q.frameAt(now - 1)
		q.read = now
	} else {
		b = q.frameAt(q.read)
		for q.read++; q.read != tx.next && tx.entries[(q.read-1)&tx.mask].Options&unix.XDP_PKT_CONTD != 0; {
			q.read++
		}
	}
	q.counts.noCarrier++
	q.markLost(b)
}

// frameAt is the record of the frame that an entry of the transmit ring belongs to. The entry must not have been overwritten.
func (q *Queue) frameAt(entry uint32) *bufferRecord {
	tx := &q.sock.tx
	i, _, _ := q.pool.Locate(tx.entries[entry&tx.mask].Addr) // Send has written it
	return &q.records[q.records[i].first]
}

// markLost marks a frame that the kernel has not sent: reap then completes it with ENETDOWN when the kernel returns its buffers. b is the record
// of its first buffer.
func (q *Queue) markLost(b *bufferRecord) {
	if b.pieces == 0 { // reap has completed it as sent already; the callers' counts of lost frames include it all the same
		return
	}
	b.lost = true
	q.counts.lostBytes += uint64(b.out.Packet.Len())
}

// loseUnread counts the frames that the kernel had not read when the link was closed.
func (q *Queue) loseUnread() {
	if q.unsent == 0 {
		return
	}
	tx := &q.sock.tx
	if now := tx.consumer.Load(); int32(now-q.read) > 0 {
		q.read = now
	}
	for ; q.read != tx.next; q.read++ {
		if tx.entries[q.read&tx.mask].Options&unix.XDP_PKT_CONTD == 0 { // the last of a frame
			q.counts.closed++
			q.markLost(q.frameAt(q.read))
		}
	}
}

// failed wraps the interface's error, the same value as long as it is the same: a link that is down is flushed every poll.
func (q *Queue) failed(e unix.Errno) error {
	if q.downErr == nil || q.down != e {
		q.down = e
		switch e {
		case unix.EBUSY:
			q.downErr = fmt.Errorf("xdp: send on %s queue %d: %w: %w", q.info.Name, q.queue, link.ErrNoCarrier, e)
		case unix.ENXIO, unix.EBADF:
			q.downErr = fmt.Errorf("xdp: send on %s queue %d: %w: %w", q.info.Name, q.queue, link.ErrDetached, e)
		default:
			q.downErr = fmt.Errorf("xdp: send on %s queue %d: %w", q.info.Name, q.queue, e)
		}
	}
	return q.downErr
}

// Complete reports the frames with a token that the kernel has sent or dropped, and takes back the buffers of all.
func (q *Queue) Complete(dst []link.Done) int {
	if q.flying > 0 && !q.closed {
		q.reap()
	}
	if len(q.done) == 0 {
		return 0
	}
	n := copy(dst, q.done)
	left := copy(q.done, q.done[n:]) // only a caller with a short slice leaves any
	clear(q.done[left:])
	q.done = q.done[:left]
	return n
}

// reap reads the completion ring. Each entry is one descriptor the kernel has done with; with the last one of a frame the frame is finished.
// An entry that names no buffer being sent is counted as a bad number.
func (q *Queue) reap() {
	ready := q.sock.comp.ready()
	if ready == 0 {
		return
	}
	for ; ready > 0; ready-- {
		addr := q.sock.comp.take()
		i, _, ok := q.pool.Locate(addr&mask48 + addr>>offsetShift)
		if !ok || q.records[i].where < inTx {
			q.counts.badNumbers++
			continue
		}
		b := &q.records[q.records[i].first]
		if b.pieces == 0 {
			q.counts.badNumbers++
			continue
		}
		q.flying--
		if b.pieces--; b.pieces == 0 {
			q.finish(b)
		}
	}
	q.sock.comp.release()
}

// finish ends the sending of a frame when all its pieces have completed. b is the record of its first buffer.
func (q *Queue) finish(b *bufferRecord) {
	if b.where == inTxChain {
		for place := q.pool.Place(b.out.Packet); ; place = q.pool.NextPlace(place) {
			q.records[place.Buffer].where = elsewhere
			if !place.More() {
				break
			}
		}
	}
	b.where = elsewhere
	q.unsent--
	var e syscall.Errno
	if b.lost {
		b.lost, e = false, unix.ENETDOWN
	}
	q.finishSend(b.out, e)
}

// finishSend ends a frame: it is released, unless its sender asked for its completion by a token. done has room: Send takes a frame only while
// Unsent is below its capacity. Without a token e is not reported; the counters have the frame already.
func (q *Queue) finishSend(o link.Out, e syscall.Errno) {
	if o.Token == 0 {
		q.pool.FreeTransmit(o.Packet)
		return
	}
	q.pool.Complete(o.Packet)
	q.done = append(q.done, link.Done{Packet: o.Packet, Token: o.Token, Errno: e})
}
