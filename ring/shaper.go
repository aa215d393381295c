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

// shaper decides when the datagrams of a socket leave: of one that is paced, or whose datagrams are numbered for transmit stamps.
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
	granted    int32      // own stack: how many the driver may take
	firstHeld  int32      // own stack: the first that was not granted, in the ring's slab; 0: none
	timestamps *transmitStamps
}

const (
	shapedSendLimit = 16 // datagrams of one socket at a time
	paceLimit       = 64 // sockets in one Poll
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

// openShaper gives the socket a shaper. Datagrams that wait already may leave as before: they are granted.
func (s *Socket) openShaper() *shaper {
	s.activate().shaper = &shaper{socket: s, granted: s.activate().sending.waiting.n}
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

// sendShaped is Send, SendTo and SendVector of a kernel socket with a shaper: b, or the pieces of bufs, n bytes in all. It sends at once if
// nothing waits and the rate allows it, else it queues a copy.
func (s *Socket) sendShaped(b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, error) {
	sh, r := s.active().shaper, s.ring()
	if s.state != stateOpen {
		return 0, s.whyCannotSend("send")
	}
	if s.active().sending.waiting.n == 0 && !sh.blocked {
		r.collectStampsBeforeSend(s)
		if now := sh.now(r); sh.bucket.Ready(now, sh.cost(n)) {
			sent, e := s.transportSend(b, bufs, to)
			for tries := 0; e != 0 && tries < mostRetries && s.retrySend(e); tries++ { // e was an earlier datagram's error
				sh.timestamps.sentWithoutToken(e)
				sent, e = s.transportSend(b, bufs, to)
			}
			if e == 0 {
				sh.bucket.Take(now, sh.cost(n))
			}
			sh.timestamps.sentWithoutToken(e)
			return s.finishDirectSend(sent, n, e, to)
		}
	}
	return s.queueShaped(b, bufs, n, to)
}

// transportSend makes one send of the transport: b, or the pieces of bufs.
func (s *Socket) transportSend(b []byte, bufs [][]byte, to netip.AddrPort) (int, syscall.Errno) {
	if bufs != nil {
		return s.transport().SendVector(s, bufs, to)
	}
	return s.transport().Send(s, sys.NoEscape(b), to)
}

// queueShaped queues a copy of a datagram that may not leave yet.
func (s *Socket) queueShaped(b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, error) {
	r := s.ring()
	if !to.IsValid() && !s.isConnected() {
		return 0, &OpError{Op: "send", Err: syscall.EDESTADDRREQ} // as the kernel would say
	}
	if n > s.largestPayload() {
		return 0, &OpError{Op: "send", Addr: to, Err: syscall.EMSGSIZE}
	}
	if int(s.active().sending.waiting.n)+s.active().sending.inflight >= s.config().SendQueue {
		s.wantOut = true // dequeueDue raises EventOut
		s.countShortSend()
		return 0, ErrWouldBlock
	}
	p, err := r.pool.Alloc(n)
	if err != nil {
		s.countShortSend()
		if s.active().sending.waiting.n > 0 {
			s.wantOut = true // dequeueDue raises EventOut, and has freed buffers by then
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
	s.countSends(1, n)
	s.dequeueDue()
	return n, nil
}

// dequeueDue sends the waiting datagrams that may leave now, or grants them to our stack's driver, and enters the socket in the ring's queue for
// the time of the next one.
func (s *Socket) dequeueDue() {
	if s.stack() != nil {
		s.grantDue()
		return
	}
	q := &s.active().sending.waiting
	for sent := 0; q.n > 0 && !s.active().shaper.blocked && sent < shapedSendLimit; sent++ {
		if !s.sendHead(s.ring().slab.at(q.head)) {
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
		s.onSendsDone()
	}
}

// sendHead sends the first waiting datagram rec, if the rate allows it now, and reports whether it has left the queue, sent or failed.
func (s *Socket) sendHead(rec *record) bool {
	sh, r := s.active().shaper, s.ring()
	n := rec.packet.Len()
	now := sh.now(r)
	if !sh.bucket.Ready(now, sh.cost(n)) {
		return false
	}
	r.collectStampsBeforeSend(s)
	e := s.sendRecord(rec)
	for tries := 0; e != 0 && tries < mostRetries && s.retrySend(e); tries++ { // e was an earlier datagram's error
		e = s.sendRecord(rec)
	}
	if e != 0 && rec.copied && s.isConnected() && s.isEarlierError(e) {
		// An ICMP error of an earlier datagram: it is reported, and this one is sent again. A packet of SendPacket ends with the error: its
		// EventSent reports it. ENOBUFS is of this one, which is lost (Config.ReportDrops).
		s.sendFailed(s.remote(), e)
		e = s.sendRecord(rec)
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

// sendRecord sends a queued datagram by the transport and numbers it for its transmit stamp.
func (s *Socket) sendRecord(rec *record) syscall.Errno {
	e := s.sendPieces(rec.packet, rec.destination)
	if t := s.active().shaper.timestamps; rec.copied {
		t.sentWithoutToken(e)
	} else {
		t.sent(e, rec.token)
	}
	return e
}

// sendPieces sends a packet's buffers as one datagram by the transport.
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
		s.countSends(1, t.Packet.Len())
	}
	s.finishSend(t, err)
}

// grantDue is dequeueDue for a socket of our own stack: it grants the datagrams that may leave now to the driver.
func (s *Socket) grantDue() {
	sh, r := s.active().shaper, s.ring()
	before := sh.granted
	for sh.firstHeld != 0 {
		rec := r.slab.at(sh.firstHeld)
		n, now := sh.cost(rec.packet.Len()), sh.now(r)
		if !sh.bucket.Ready(now, n) {
			break
		}
		sh.bucket.Take(now, n)
		sh.firstHeld = rec.next
		sh.granted++
	}
	if sh.firstHeld != 0 {
		r.paced.set(s.active().shaper, sh.bucket.Due(sh.cost(r.slab.at(sh.firstHeld).packet.Len())))
	} else {
		r.paced.remove(s.active().shaper)
	}
	if sh.granted > before {
		s.transmit()
	}
}

// sendDue sends what is due on the ring's paced sockets, at most paceLimit of them. Poll and Flush call it.
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
