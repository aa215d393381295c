package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Offloader is a Driver that carries sockets by a protocol stack of its own, over the kernel's: the descriptor of such a socket reserves
// the port, holds the memberships, and is read beside the link. Which sockets it carries itself it says in Attach (Handle.Stack);
// the others live on their descriptor, as on any ring.
//
// What such a socket sends is copied into a packet of the pool, queued on the socket, and fetched with TakeTransmission, by Transmit's
// promise: at the next Reap or Flush, as many as there are. After each round over a socket the driver calls Taken.
type Offloader interface {
	ProtocolDriver
	// Stamp is a number that moves whenever a way that Prepare found may not be good any more. The owner's; read by the core before each
	// send.
	Stamp() *uint64
	// Prepare finds the way to a destination, or why there is none: ENETUNREACH, EHOSTUNREACH, EACCES …
	Prepare(s *Socket, to netip.AddrPort, w *Way) syscall.Errno
	// Put takes a frame that lacks nothing but its headers, behind what it took before: it leaves with the next Reap or Flush. p is transmitting,
	// the payload behind Way.Head bytes, of a socket with nothing queued; the way is good (see Stamp) and its Head not 0. False when there is
	// more to it, or the links have enough to do: then nothing has happened.
	Put(w *Way, p buffers.Packet) bool
	// Flushes moves with every flush, before Taken is called in it: what Put took before is no more the socket's. As Stamp.
	Flushes() *uint64
	// KernelSends counts the datagrams that leave by sockets' descriptors; the core adds those that it sends so. The owner's.
	KernelSends() *uint64
	// Recall drops what Put took of the socket and has not left, and tells how many datagrams that were.
	Recall(s *Socket) int
	// Changed tells that the socket's addresses, Settings or device are others than in Attach.
	Changed(s *Socket) error
	// MembershipChanged tells that of the socket's Settings.Groups those with the group and source of m are others than before, and nothing
	// else: what it costs must not grow with their number.
	MembershipChanged(s *Socket, m Membership) error
	// Membership joins or leaves a group in the kernel, with the socket's descriptor or with another one that the driver has for it. On an error
	// nothing has changed. Settings and Changed follow.
	Membership(s *Socket, m Membership, join bool) error
	// Path is how the socket's packets travel. Reasons of the set are added by the core.
	Path(s *Socket) Path
	// Drops is how many datagrams were lost at the socket.
	Drops(s *Socket) (uint32, error)
	// Counters appends every count of the driver, its stack and its links by name.
	Counters(dst []Counter) []Counter
}

// Counter is one count with its stable name, such as "udp.no_socket".
type Counter struct {
	Name  string
	Value uint64
}

// Counters appends what an offloaded ring counts: each reason for which a frame was not delivered, what was sent, looped and kept, and the
// counts of its links, those of the kernel included. Other rings have none: the kernel counts for them. Owner, or anyone before the
// first Poll.
func (r *Ring) Counters(dst []Counter) []Counter {
	if !r.readable() || r.off == nil {
		return dst
	}
	return r.off.Counters(dst)
}

// Way is what Prepare found.
type Way struct {
	Route  int32  // the driver's own: comes back in Transmission.Route
	Serial uint32 // and this, for Put
	Head   int    // length of the headers that Put writes; 0: datagrams are queued on the socket
	Limit  int    // longest payload in bytes
	Kernel bool   // by the socket's descriptor
}

// prepared is the way to one destination.
type prepared struct {
	Way
	to    netip.AddrPort
	stamp uint64
}

// Prepare makes everything ready for the first send to an address: route, neighbour, headers. It returns at once; a neighbour may still
// be being asked for. On rings without a stack of their own there is nothing to prepare. Datagram sockets; owner only.
func (s *Socket) Prepare(to netip.AddrPort) error {
	if err := s.usable("prepare"); err != nil {
		return err
	}
	switch {
	case s.handle.Kind != Datagram:
		return stateError("prepare", s)
	case !s.handle.Stack:
		return nil
	}
	if e := s.prepare(to); e != 0 {
		return &OpError{Op: "prepare", Addr: to, Err: e}
	}
	return nil
}

func (s *Socket) prepare(to netip.AddrPort) syscall.Errno {
	w := &s.way
	if !to.IsValid() {
		return syscall.EDESTADDRREQ
	}
	if e := s.ring.off.Prepare(s, to, &w.Way); e != 0 {
		w.stamp = 0
		return e
	}
	w.to, w.stamp = to, *s.ring.stamp
	return 0
}

// give is every send of an offloaded socket but SendPacket: b, or the pieces of bufs, n bytes in all.
func (s *Socket) give(b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, error) {
	r, w := s.ring, &s.way
	if s.state != stateOpen {
		return 0, s.cannotSend("send")
	}
	if w.stamp != *r.stamp || w.to != to {
		if e := s.prepare(to); e != 0 {
			return 0, &OpError{Op: "send", Addr: to, Err: e}
		}
	}
	switch {
	case n > w.Limit:
		return 0, &OpError{Op: "send", Addr: to, Err: syscall.EMSGSIZE}
	case w.Kernel && s.outlet == nil && s.ahead(): // a paced one waits its turn: the driver finds out that only the kernel can deliver it
		return s.direct(b, bufs, n, to)
	case s.crowded():
		s.sentShort()
		return 0, ErrWouldBlock
	}
	head := 0
	if s.sending.waiting.n == 0 && s.outlet == nil {
		head = w.Head
	}
	p, frame := r.pool.Draft(head, n)
	if p.IsZero() {
		s.sentShort()
		if err := s.promiseOut(); err != nil {
			return 0, err
		}
		return 0, ErrWouldBlock
	}
	room := frame[head:]
	copy(room, b)
	for _, piece := range bufs {
		room = room[copy(room, piece):]
	}
	if head > 0 && r.off.Put(&w.Way, p) {
		s.put()
	} else {
		if head > 0 {
			_ = p.Pull(head) // it was just made: alone, and longer
		}
		rec := s.sending.waiting.add(&r.slab)
		rec.packet, rec.destination, rec.route, rec.copied = p, to, w.Route, true
		s.queued()
	}
	s.sentNow(1, n)
	return n, nil
}

// put notes a datagram that went straight to the driver. Until the next flush it counts as if it were queued on the socket.
func (s *Socket) put() {
	q := &s.sending
	if q.flush != *s.ring.flushes {
		q.flush, q.put = *s.ring.flushes, 0
	}
	q.put++
}

// unflushed is how many datagrams the driver was handed since its last flush.
func (s *Socket) unflushed() int {
	if q := &s.sending; q.put > 0 && q.flush == *s.ring.flushes {
		return q.put
	}
	return 0
}

// visit makes the driver come to the socket at its next flush, in which what it was handed leaves: Taken follows.
func (s *Socket) visit() {
	if s.unflushed() > 0 && s.sending.waiting.n == 0 {
		s.transmit()
	}
}

// full tells whether as many sends are not done as Config.SendQueue allows.
func (s *Socket) full() bool {
	return int(s.sending.waiting.n)+s.sending.inflight+s.unflushed() >= s.config.SendQueue
}

// crowded is full for a sender, who is promised an EventOut: Taken or Sink.Sent pays it.
func (s *Socket) crowded() bool {
	if !s.full() {
		return false
	}
	s.wantOut = true
	s.visit()
	return true
}

// ahead lets leave what the socket has sent before, which its descriptor would overtake. False: the links had no room for all of it.
func (s *Socket) ahead() bool {
	if s.sending.waiting.n == 0 && s.unflushed() == 0 {
		return true
	}
	if err := s.ring.off.Flush(); err != nil {
		s.ring.fail(&OpError{Op: "flush", Err: err})
	}
	return s.sending.waiting.n == 0
}

// direct sends by the socket's descriptor.
func (s *Socket) direct(b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, error) {
	sent, e := s.call(b, bufs, to)
	return s.tookDirect(sent, n, e, to)
}

// tookDirect is tookSend, counted.
func (s *Socket) tookDirect(sent, n int, e syscall.Errno, to netip.AddrPort) (int, error) {
	if e == 0 {
		*s.ring.kernelSends++
	}
	return s.tookSend(sent, n, e, to)
}

// Taken tells that a driver has fetched what it could of the socket's transmissions: what waited for them goes on.
func (s *Socket) Taken() {
	if !s.readable() || s.state == stateGone {
		return
	}
	s.lowWater()
	if !s.sending.queued() {
		s.drained()
	}
}

// changed tells a driver with a stack of its own.
func (s *Socket) changed(op string) error {
	if s.ring == nil || s.ring.off == nil || s.state >= stateDead {
		return nil
	}
	if err := s.ring.off.Changed(s); err != nil {
		return &OpError{Op: op, Err: err}
	}
	return nil
}

// offloadedPath is the driver's word, with the reasons of the set and of the ring.
func (s *Socket) offloadedPath() Path {
	p := s.ring.off.Path(s)
	reasons := append([]Reason(nil), s.set.reasons...)
	if why := s.ring.key.reason; why.Code != "" {
		reasons = append(reasons, why)
	}
	if one := s.set.config.OneRing; one.Code != "" && s.apart {
		reasons = append(reasons, one)
	}
	p.Reasons = s.cardReasons(append(append(reasons, p.Reasons...), s.why...))
	return p
}
