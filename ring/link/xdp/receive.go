package xdp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Receive gives the card fresh buffers and then takes what has come. The buffers come first because an empty fill ring is the first
// loss under a burst, and it lasts as long as the processing of the frames.
func (q *Queue) Receive(dst []link.Frame) int {
	if q.closed {
		return 0
	}
	q.refill(q.batch)
	ready := q.sock.rx.ready()
	if ready == 0 {
		q.idle()
		return 0
	}
	n := 0
	for ; ready > 0 && n < len(dst); ready-- {
		d := q.sock.rx.take()
		p := q.packet(&d)
		if d.Options&unix.XDP_PKT_CONTD != 0 || q.skipping || !q.partial.IsZero() {
			if p = q.join(p, d.Options&unix.XDP_PKT_CONTD != 0); p.IsZero() {
				continue
			}
		} else if p.IsZero() {
			continue
		}
		f := &dst[n]
		f.Packet, f.Nanos, f.Source = p, 0, link.ClockNone
		if q.clock != link.ClockNone {
			q.stamp(f)
		}
		n++
		q.stats.RxBytes += uint64(p.Len())
	}
	q.sock.rx.release()
	q.ready.Set(q.posted)
	q.stats.RxFrames += uint64(n)
	return n
}

// packet makes a packet of a descriptor, in place; zero when the descriptor makes no sense. It is charged to no account (0): the stack finds out
// whose it is.
func (q *Queue) packet(d *unix.XDPDesc) buffers.Packet {
	i, at, ok := q.pool.Locate(d.Addr & mask48)
	if !ok || q.records[i].where != inFill {
		q.counts.badNumbers++
		return buffers.Packet{}
	}
	q.records[i].where = elsewhere
	q.posted--
	off := uint64(at) + d.Addr>>offsetShift
	if off+uint64(d.Len) > q.stride {
		q.counts.badNumbers++
		q.pool.Return(i)
		return buffers.Packet{}
	}
	return q.pool.Fill(i, int(off), int(d.Len), 0)
}

// join collects the buffers of a frame that has several: the frame when p completes it, zero before. A frame of which a part was bad is
// dropped whole.
func (q *Queue) join(p buffers.Packet, more bool) buffers.Packet {
	if p.IsZero() {
		q.skipping = true
	}
	if !q.skipping {
		q.partial = q.pool.Append(q.partial, p)
		if more {
			return buffers.Packet{}
		}
		p, q.partial = q.partial, buffers.Packet{}
		return p
	}
	for _, x := range []buffers.Packet{q.partial, p} {
		if !x.IsZero() {
			_ = x.Release() // nobody else has it
		}
	}
	q.partial = buffers.Packet{}
	q.skipping = more
	return buffers.Packet{}
}

// stamp reads the time that the steering program wrote in front of the frame. The place was cleared when the buffer went to the card: what is
// not zero is of this frame. A frame of several buffers has its stamp before the first one. Where the driver has put a frame at another place of
// its buffer than usual, in front of it may be an earlier frame's bytes, and the frame has no stamp.
func (q *Queue) stamp(f *link.Frame) {
	place := q.pool.Place(f.Packet)
	_, at, _ := q.pool.Locate(uint64(place.Off))
	if at != q.dataAt {
		return
	}
	mem := q.pool.Memory(place.Buffer)
	if t := binary.NativeEndian.Uint64(mem[q.dataAt-metadataBytes:]); t != 0 {
		f.Nanos, f.Source = int64(t), q.clock
	}
}

// idle runs at the end of a Receive that found no frame. It makes the system call that runs the driver's poll, if busy polling is on or the
// kernel asks for a wakeup of the fill ring.
func (q *Queue) idle() {
	if q.busy && !q.napi && q.stats.RxFrames > 0 {
		q.checkBusyPoll()
	}
	if q.busy || q.sock.fill.flags.Load()&unix.XDP_RING_NEED_WAKEUP != 0 {
		q.stats.Kicks++
		q.sock.kickRx()
	}
}

// checkBusyPoll ends busy polling where the kernel knows no queue to poll for the socket: the options are accepted there, and each call does
// nothing. Once, after the first frames, because the kernel may note the queue only with those.
func (q *Queue) checkBusyPoll() {
	q.napi = true
	if id, err := unix.GetsockoptInt(q.sock.fd, unix.SOL_SOCKET, unix.SO_INCOMING_NAPI_ID); err == nil && id == 0 {
		q.busy = false
		q.path.Reasons = append(q.path.Reasons, link.Reason{Code: ReasonNoBusyPoll,
			Text: "preferred busy polling: the kernel knows no queue to poll for this socket"})
	}
}

// refill puts free buffers of the pool into the fill ring, up to the queue's limit, when at least batch of them are missing. After the pool had
// none it tries again only when a buffer was freed.
func (q *Queue) refill(batch int) {
	if q.closed {
		return
	}
	if q.ready == nil { // here and not in newQueue, which any goroutine calls: the pool is its owner's
		q.ready = q.pool.AddReadyQueue()
	}
	missing := q.limit - q.posted
	if missing < batch {
		return
	}
	if q.starved && q.pool.Freed() == q.freed {
		return
	}
	q.starved = false
	for room := min(missing, int(q.sock.fill.room(uint32(missing)))); room > 0; room-- {
		i, ok := q.pool.Take(buffers.Small)
		if !ok {
			q.starved, q.freed = true, q.pool.Freed()
			q.counts.noBuffer++
			break
		}
		q.records[i].where = inFill
		q.posted++
		if q.clock != link.ClockNone {
			binary.NativeEndian.PutUint64(q.pool.Memory(i)[q.dataAt-metadataBytes:], 0)
		}
		q.sock.fill.put(uint64(i) * q.stride)
	}
	q.sock.fill.publish()
	q.ready.Set(q.posted)
	if q.sock.fill.flags.Load()&unix.XDP_RING_NEED_WAKEUP != 0 {
		q.stats.Kicks++
		q.sock.kickRx()
	}
}
