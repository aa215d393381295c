package ring

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/pace"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// outlet is what a datagram socket has that the ring does not let send as it likes: a paced one, or one whose datagrams are numbered for
// their transmit stamps.
//
// On a kernel socket the core itself sends each datagram by the transport, those of SendPacket too: only so they leave at their time
// and in the order of their numbers. The driver is not asked, it finds nothing to take. On a socket of our own stack the driver goes on
// to take and send, but only as many as were granted.
type outlet struct {
	bucket   pace.Bucket
	overhead int
	due      clock.Time // when the first of those that wait may leave, while the socket is in the ring's paceQueue
	place    int        // in the ring's paceQueue, from 1; 0: not there
	blocked  bool       // the kernel's send queue is full: Writable follows
	granted  int32      // own stack: how many the driver may take
	next     int32      // own stack: the first that was not granted, in the ring's slab; 0: none
	stamps   *transmitStamps
}

const (
	releaseLimit = 16 // datagrams of one socket at a time
	paceLimit    = 64 // sockets in one Poll
	// restSlack: waking for less is not worth the system calls; what is due meanwhile leaves together.
	restSlack = 50 * time.Microsecond
)

// largestPayload is what the length field of IP leaves for a datagram's payload: IPv6's does not count its own header. To an address of IPv4
// that is mapped into IPv6 the kernel finds the smaller limit when the datagram leaves.
func (s *Socket) largestPayload() int {
	if s.family == IPv6 {
		return 65527
	}
	return 65507
}

// openOutlet gives the socket an outlet. What waits already was promised to the driver of an own stack.
func (s *Socket) openOutlet() *outlet {
	s.outlet = &outlet{granted: s.sending.waiting.n}
	return s.outlet
}

// now reads the clock if the socket has a limit: a numbered one need not know the time.
func (o *outlet) now(r *Ring) clock.Time {
	if o.bucket.Limit().Rate == 0 {
		return 0
	}
	return r.clock()
}

// cost is what a datagram of n bytes is charged: an empty one is not free, or there would be no limit to how many leave.
func (o *outlet) cost(n int) int { return max(n+o.overhead, 1) }

// let is Send, SendTo and SendVector of a kernel socket with an outlet: b, or the pieces of bufs, n bytes in all.
func (s *Socket) let(b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, error) {
	o, r := s.outlet, s.ring
	if s.state != stateOpen {
		return 0, s.cannotSend("send")
	}
	if s.sending.waiting.n == 0 && !o.blocked {
		r.relieve(s)
		if now := o.now(r); o.bucket.Ready(now, o.cost(n)) {
			sent, e := s.call(b, bufs, to)
			if e == 0 {
				o.bucket.Take(now, o.cost(n))
			}
			o.stamps.sent(e, 0, false)
			return s.tookSend(sent, n, e, to)
		}
	}
	return s.wait(b, bufs, n, to)
}

// call has the transport send.
func (s *Socket) call(b []byte, bufs [][]byte, to netip.AddrPort) (int, syscall.Errno) {
	if bufs != nil {
		return s.transport.SendVector(s, bufs, to)
	}
	return s.transport.Send(s, sys.NoEscape(b), to)
}

// wait queues a copy of what may not leave yet.
func (s *Socket) wait(b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, error) {
	r := s.ring
	if !to.IsValid() && !s.remote.IsValid() {
		return 0, &OpError{Op: "send", Err: syscall.EDESTADDRREQ} // as the kernel would say
	}
	if n > s.largestPayload() {
		return 0, &OpError{Op: "send", Addr: to, Err: syscall.EMSGSIZE}
	}
	if int(s.sending.waiting.n)+s.sending.inflight >= s.config.SendQueue {
		s.wantOut = true // goOn pays it
		s.sentShort()
		return 0, ErrWouldBlock
	}
	p, err := r.pool.Alloc(n)
	if err != nil {
		s.sentShort()
		if s.sending.waiting.n > 0 {
			s.wantOut = true // goOn pays it, and has given back buffers by then
		} else if err := s.promiseOut(); err != nil {
			return 0, err
		}
		return 0, ErrWouldBlock
	}
	room := p.Room()[:n]
	copy(room, b)
	for _, piece := range bufs {
		room = room[copy(room, piece):]
	}
	if p, err = r.pool.Transmit(p); err != nil {
		return 0, &OpError{Op: "send", Addr: to, Err: err} // cannot be: it was just made
	}
	s.sending.waiting.push(&r.slab, record{packet: p, destination: to, copied: true})
	r.stats.Paced++
	s.sentNow(1, n)
	s.goOn()
	return n, nil
}

// queued goes on after a record was put at the end of the send queue.
func (s *Socket) queued() {
	switch o := s.outlet; {
	case o == nil:
		if s.sending.waiting.n == 1 {
			s.transmit()
		}
	default:
		if s.stack != nil && o.next == 0 {
			o.next = s.sending.waiting.tail
		}
		s.goOn()
		if s.stack != nil && o.next != 0 {
			s.ring.stats.Paced++
		}
	}
}

// goOn sends, or lets the driver send, what may leave now, and sees to it that the rest has its time.
func (s *Socket) goOn() {
	if s.stack != nil {
		s.grant()
		return
	}
	q := &s.sending.waiting
	for sent := 0; q.n > 0 && !s.outlet.blocked && sent < releaseLimit; sent++ {
		if !s.release(s.ring.slab.at(q.head)) {
			break
		}
	}
	if q.n > 0 && !s.outlet.blocked {
		s.ring.paced.set(s, s.outlet.bucket.Due(s.outlet.cost(s.ring.slab.at(q.head).packet.Len())))
	} else {
		s.ring.paced.remove(s)
	}
	s.lowWater()
	if q.n == 0 {
		s.drained()
	}
}

// release sends the first record, if it may leave, and tells whether it is gone.
func (s *Socket) release(rec *record) bool {
	o, r := s.outlet, s.ring
	n := rec.packet.Len()
	now := o.now(r)
	if !o.bucket.Ready(now, o.cost(n)) {
		return false
	}
	r.relieve(s)
	e := s.callPacket(rec)
	if e != 0 && s.retrySend(e) {
		e = s.callPacket(rec)
	}
	if e != 0 && e != syscall.EAGAIN && rec.copied && s.remote.IsValid() {
		// An ICMP error of an earlier datagram: it is told, and this one is not lost for it.
		s.sendFailed(s.remote, e)
		e = s.callPacket(rec)
	}
	if e == syscall.EAGAIN {
		err := r.drv.NotifyWritable(s)
		if err == nil {
			o.blocked = true
			return false
		}
		e = asErrno(err) // nothing would tell when there is room again
	}
	if e == 0 {
		o.bucket.Take(now, o.cost(n))
	}
	s.gone(e)
	return true
}

// callPacket sends a record.
func (s *Socket) callPacket(rec *record) syscall.Errno {
	e := s.sendPieces(rec.packet, rec.destination)
	s.outlet.stamps.sent(e, rec.token, !rec.copied)
	return e
}

// sendPieces sends a datagram by the transport.
func (s *Socket) sendPieces(p buffers.Packet, destination netip.AddrPort) syscall.Errno {
	if destination.IsValid() && s.checkAddress(destination) != nil {
		return syscall.EAFNOSUPPORT
	}
	pieces := &s.ring.pieces
	k := 0
	for b := range p.Segments() {
		if k == len(pieces) {
			return syscall.EMSGSIZE
		}
		pieces[k] = b
		k++
	}
	_, e := s.transport.SendVector(s, pieces[:k], destination)
	clear(pieces[:k])
	return e
}

// gone takes the first record off the queue: it was sent, or failed with e.
func (s *Socket) gone(e syscall.Errno) {
	t, _ := s.takeTransmission()
	if t.Copied {
		if e != 0 {
			s.ring.stats.LostSends++
			s.counts.SendErrors++
			s.sendFailed(t.To, e)
		}
		s.dropCopy(t.Packet)
		return
	}
	s.sending.inflight--
	var err error
	if e != 0 {
		err = &OpError{Op: "send packet", Addr: t.To, Err: e}
		s.counts.SendErrors++
	} else {
		s.sentNow(1, t.Packet.Len())
	}
	s.finishSend(t, err)
}

// sendFailed tells of a datagram that Send had taken. Nobody hears of it who has closed the socket.
func (s *Socket) sendFailed(to netip.AddrPort, e syscall.Errno) {
	if s.state == stateOpen {
		s.raise(EventErr, &OpError{Op: "send", Addr: to, Err: e})
	}
}

// dropCopy gives back the buffer of a copy that nobody waits for.
func (s *Socket) dropCopy(p buffers.Packet) {
	s.ring.pool.Complete(p)
	_ = p.Release() // it was alone when it was queued
}

// grant lets the driver of an own stack take what may leave now.
func (s *Socket) grant() {
	o, r := s.outlet, s.ring
	granted := o.granted
	for o.next != 0 {
		rec := r.slab.at(o.next)
		n, now := o.cost(rec.packet.Len()), o.now(r)
		if !o.bucket.Ready(now, n) {
			break
		}
		o.bucket.Take(now, n)
		o.next = rec.next
		o.granted++
	}
	if o.next != 0 {
		r.paced.set(s, o.bucket.Due(o.cost(r.slab.at(o.next).packet.Len())))
	} else {
		r.paced.remove(s)
	}
	if o.granted > granted {
		s.transmit()
	}
}

// lowWater promises less than an empty queue: whoever paces a stream of datagrams must be able to refill it before it runs dry.
func (s *Socket) lowWater() {
	if s.outlet != nil && s.wantOut && s.state == stateOpen && int(s.sending.waiting.n)+s.sending.inflight <= s.config.SendQueue/2 {
		s.wantOut = false
		s.raise(EventOut, nil)
	}
}

// pace lets go what is due on the ring's paced sockets.
func (r *Ring) pace() {
	now := r.clock()
	for range paceLimit {
		if len(r.paced) == 0 || r.paced[0].outlet.due > now {
			return
		}
		r.paced[0].goOn()
	}
}

// paceDeadline is when the ring must wake for its paced sockets.
func (r *Ring) paceDeadline(now clock.Time) clock.Time {
	if len(r.paced) == 0 {
		return clock.Never
	}
	if due := r.paced[0].outlet.due; due > now {
		return max(due, now.Add(restSlack))
	}
	return now
}
