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

// shaper is what a datagram socket has that the ring does not let send as it likes: a paced one, or one whose datagrams are numbered for
// their transmit stamps.
//
// On a kernel socket the core itself sends each datagram by the transport, those of SendPacket too: only so they leave at their time
// and in the order of their numbers. The driver is not asked, it finds nothing to take. On a socket of our own stack the driver goes on
// to take and send, but only as many as were granted.
type shaper struct {
	socket     *Socket
	bucket     pace.Bucket
	overhead   int
	due        clock.Time // when the first of those that wait may leave, while the socket is in the ring's paceQueue
	heapIndex  int        // in the ring's paceQueue, from 1; 0: not there
	blocked    bool       // the kernel's send queue is full: Writable follows
	released   int32      // own stack: how many the driver may take
	firstHeld  int32      // own stack: the first that was not granted, in the ring's slab; 0: none
	timestamps *transmitStamps
}

const (
	releaseLimit = 16 // datagrams of one socket at a time
	paceLimit    = 64 // sockets in one Poll
	// sleepSlack: waking for less is not worth the system calls; what is due meanwhile leaves together.
	sleepSlack = 50 * time.Microsecond
)

// largestPayload is what the length field of IP leaves for a datagram's payload: IPv6's does not count its own header. To an address of IPv4
// that is mapped into IPv6 the kernel finds the smaller limit when the datagram leaves.
func (s *Socket) largestPayload() int {
	if s.family == IPv6 {
		return 65527
	}
	return 65507
}

// openShaper gives the socket a shaper. What waits already is with the driver of an own stack.
func (s *Socket) openShaper() *shaper {
	s.activate().shaper = &shaper{socket: s, released: s.activate().sending.waiting.n}
	return s.active().shaper
}

// now reads the clock if the socket has a limit: a numbered one need not know the time.
func (sh *shaper) now(r *Ring) clock.Time {
	if sh.bucket.Limit().Rate == 0 {
		return 0
	}
	return r.clock()
}

// cost is what a datagram of n bytes is charged: an empty one is not free, or there would be no limit to how many leave.
func (sh *shaper) cost(n int) int { return max(n+sh.overhead, 1) }

// sendShaped is Send, SendTo and SendVector of a kernel socket with a shaper: b, or the pieces of bufs, n bytes in all.
func (s *Socket) sendShaped(b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, error) {
	sh, r := s.active().shaper, s.ring()
	if s.state != stateOpen {
		return 0, s.cannotSend("send")
	}
	if s.active().sending.waiting.n == 0 && !sh.blocked {
		r.collectStampsBeforeSend(s)
		if now := sh.now(r); sh.bucket.Ready(now, sh.cost(n)) {
			sent, e := s.call(b, bufs, to)
			if e == 0 {
				sh.bucket.Take(now, sh.cost(n))
			}
			sh.timestamps.sent(e, 0, false)
			return s.finishDirectSend(sent, n, e, to)
		}
	}
	return s.queueShaped(b, bufs, n, to)
}

// call has the transport send.
func (s *Socket) call(b []byte, bufs [][]byte, to netip.AddrPort) (int, syscall.Errno) {
	if bufs != nil {
		return s.transport().SendVector(s, bufs, to)
	}
	return s.transport().Send(s, sys.NoEscape(b), to)
}

// queueShaped queues a copy of what may not leave yet.
func (s *Socket) queueShaped(b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, error) {
	r := s.ring()
	if !to.IsValid() && !s.isConnected() {
		return 0, &OpError{Op: "send", Err: syscall.EDESTADDRREQ} // as the kernel would say
	}
	if n > s.largestPayload() {
		return 0, &OpError{Op: "send", Addr: to, Err: syscall.EMSGSIZE}
	}
	if int(s.active().sending.waiting.n)+s.active().sending.inflight >= s.config().SendQueue {
		s.wantOut = true // dequeueDue pays it
		s.sentShort()
		return 0, ErrWouldBlock
	}
	p, err := r.pool.Alloc(n)
	if err != nil {
		s.sentShort()
		if s.active().sending.waiting.n > 0 {
			s.wantOut = true // dequeueDue pays it, and has given back buffers by then
		} else if err := s.wouldBlock(); err != nil {
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
	s.activate().sending.waiting.push(&r.slab, record{packet: p, destination: to, copied: true})
	r.stats.Paced++
	s.sentNow(1, n)
	s.dequeueDue()
	return n, nil
}

// dequeueDue sends, or lets the driver send, what may leave now, and sees to it that the rest has its time.
func (s *Socket) dequeueDue() {
	if s.stack() != nil {
		s.releaseDue()
		return
	}
	q := &s.active().sending.waiting
	for sent := 0; q.n > 0 && !s.active().shaper.blocked && sent < releaseLimit; sent++ {
		if !s.release(s.ring().slab.at(q.head)) {
			break
		}
	}
	if q.n > 0 && !s.active().shaper.blocked {
		s.ring().paced.set(s.active().shaper, s.active().shaper.bucket.Due(s.active().shaper.cost(s.ring().slab.at(q.head).packet.Len())))
	} else {
		s.ring().paced.remove(s.active().shaper)
	}
	s.announceLowWater()
	if q.n == 0 {
		s.drained()
	}
}

// release sends the first record, if it may leave, and reports whether it is gone.
func (s *Socket) release(rec *record) bool {
	sh, r := s.active().shaper, s.ring()
	n := rec.packet.Len()
	now := sh.now(r)
	if !sh.bucket.Ready(now, sh.cost(n)) {
		return false
	}
	r.collectStampsBeforeSend(s)
	e := s.callPacket(rec)
	if e != 0 && s.retrySend(e) {
		e = s.callPacket(rec)
	}
	if e != 0 && e != syscall.EAGAIN && rec.copied && s.isConnected() {
		// An ICMP error of an earlier datagram: it is told, and this one is not lost for it.
		s.sendFailed(s.remote(), e)
		e = s.callPacket(rec)
	}
	if e == syscall.EAGAIN {
		err := r.drv.NotifyWritable(s)
		if err == nil {
			sh.blocked = true
			return false
		}
		e = asErrno(err) // nothing would tell when there is room again
	}
	if e == 0 {
		sh.bucket.Take(now, sh.cost(n))
	}
	s.completeHead(e)
	return true
}

// callPacket sends a record.
func (s *Socket) callPacket(rec *record) syscall.Errno {
	e := s.sendPieces(rec.packet, rec.destination)
	s.active().shaper.timestamps.sent(e, rec.token, !rec.copied)
	return e
}

// sendPieces sends a datagram by the transport.
func (s *Socket) sendPieces(p buffers.Packet, destination netip.AddrPort) syscall.Errno {
	if destination.IsValid() && s.checkAddress(destination) != nil {
		return syscall.EAFNOSUPPORT
	}
	pieces := &s.ring().pieces
	k := 0
	for b := range p.Segments() {
		if k == len(pieces) {
			return syscall.EMSGSIZE
		}
		pieces[k] = b
		k++
	}
	_, e := s.transport().SendVector(s, pieces[:k], destination)
	clear(pieces[:k])
	return e
}

// completeHead takes the first record off the queue: it was sent, or failed with e.
func (s *Socket) completeHead(e syscall.Errno) {
	t, _ := s.takeTransmission()
	if t.Copied {
		if e != 0 {
			s.ring().stats.LostSends++
			s.activate().counts.SendErrors++
			s.sendFailed(t.To, e)
		}
		s.dropCopy(t.Packet)
		return
	}
	s.activate().sending.inflight--
	var err error
	if e != 0 {
		err = &OpError{Op: "send packet", Addr: t.To, Err: e}
		s.activate().counts.SendErrors++
	} else {
		s.sentNow(1, t.Packet.Len())
	}
	s.finishSend(t, err)
}

// releaseDue lets the driver of an own stack take what may leave now.
func (s *Socket) releaseDue() {
	sh, r := s.active().shaper, s.ring()
	granted := sh.released
	for sh.firstHeld != 0 {
		rec := r.slab.at(sh.firstHeld)
		n, now := sh.cost(rec.packet.Len()), sh.now(r)
		if !sh.bucket.Ready(now, n) {
			break
		}
		sh.bucket.Take(now, n)
		sh.firstHeld = rec.next
		sh.released++
	}
	if sh.firstHeld != 0 {
		r.paced.set(s.active().shaper, sh.bucket.Due(sh.cost(r.slab.at(sh.firstHeld).packet.Len())))
	} else {
		r.paced.remove(s.active().shaper)
	}
	if sh.released > granted {
		s.transmit()
	}
}

// sendDue lets go what is due on the ring's paced sockets.
func (r *Ring) sendDue() {
	now := r.clock()
	for range paceLimit {
		if len(r.paced) == 0 || r.paced[0].due > now {
			return
		}
		r.paced[0].socket.dequeueDue()
	}
}

// paceDeadline is when the ring must wake for its paced sockets.
func (r *Ring) paceDeadline(now clock.Time) clock.Time {
	if len(r.paced) == 0 {
		return clock.Never
	}
	if due := r.paced[0].due; due > now {
		return max(due, now.Add(sleepSlack))
	}
	return now
}
