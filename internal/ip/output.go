package ip

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Limits of the frames that wait for a neighbour's station.
const (
	waitingPackets   = 512 // over all neighbours
	waitingPerTarget = 128
	waitingTime      = 3 * time.Second // three requests, one a second
	// bufferInterval is when a packet is tried again whose neighbour is known, and for whose fragments too few buffers were free.
	bufferInterval = clock.Time(time.Millisecond)
)

// NextID is the identification of the next packet. It has a meaning for fragments only (RFC 6864).
func (s *Stack) NextID() uint16 {
	s.id++
	return s.id
}

// PeekID is what NextID will return.
func (s *Stack) PeekID() uint16 { return s.id + 1 }

// SendFrame sends a frame of a route whose packets leave by a link: p is transmitting and begins with the route's headers. The frame is
// queued on the link, or waits for its neighbour's station. token is given back with it (Out.Token, Failure); 0 for frames whose end
// is not reported.
func (s *Stack) SendFrame(now clock.Time, r *Route, p buffers.Packet, token uint64) {
	if r.Kind == RouteAwaitsNeighbour {
		s.await(now, r, waitingFrame{packet: p, token: token, link: r.link})
		return
	}
	s.QueueFrame(now, r, Out{Packet: p, Token: token}, noSender)
}

// await has a frame wait for the next hop of its route, and asks for that.
func (s *Stack) await(now clock.Time, r *Route, w waitingFrame) {
	s.now = now
	s.stats.Resolutions++
	t := s.hops.list[r.hop].target()
	if s.waiting.Len() == 0 {
		s.askAt = now + requestInterval
	}
	s.waiting.Add(now, s.snapshot, t, w)
	s.host.Resolve(t)
}

// QueueFrame queues a frame of a current route of kind RouteOverLink.
func (s *Stack) QueueFrame(now clock.Time, r *Route, o Out, from Sender) {
	if !s.hops.list[r.hop].used {
		s.useHop(now, r.hop)
	}
	s.queue(int(r.link), o, from)
}

// noToken and noSender are for frames whose end is not reported, and which Recall does not take back.
const (
	noToken  uint64 = 0
	noSender Sender = 0
)

// queue appends a frame to the queue of link i; from is the socket that Recall finds it by, or noSender.
func (s *Stack) queue(i int, o Out, from Sender) {
	s.stats.Sent++
	s.queued++
	l := &s.links[i]
	l.queue = append(l.queue, o)
	l.senders = append(l.senders, from)
}

// Queued is how many frames wait for the links together: a driver stops sending above a limit of its own.
func (s *Stack) Queued() int { return s.queued }

// Output is the frames that wait for a link.
func (s *Stack) Output(i int) []Out { return s.links[i].queue }

// Took removes the first n frames that wait for link i: the link has taken them.
func (s *Stack) Took(i, n int) {
	l := &s.links[i]
	s.queued -= n
	if n == len(l.queue) { // entries behind the end refer to the pool only
		l.queue, l.senders = l.queue[:0], l.senders[:0]
		return
	}
	rest := copy(l.queue, l.queue[n:])
	copy(l.senders, l.senders[n:])
	clear(l.queue[rest:])
	l.queue, l.senders = l.queue[:rest], l.senders[:rest]
}

// Recall drops the frames of a sender that still wait for their links, and returns how many.
func (s *Stack) Recall(from Sender) (n int) {
	for i := range s.links {
		l := &s.links[i]
		kept := 0
		for j, o := range l.queue {
			if l.senders[j] == from {
				s.pool.FreeTransmit(o.Packet)
				n++
				continue
			}
			l.queue[kept], l.senders[kept] = o, l.senders[j]
			kept++
		}
		l.queue, l.senders = l.queue[:kept], l.senders[:kept]
	}
	s.queued -= n
	return n
}

// ForgetSender removes a sender's name from its queued frames: the next socket may have the same number.
func (s *Stack) ForgetSender(from Sender) {
	if s.queued == 0 {
		return
	}
	for i := range s.links {
		for j, x := range s.links[i].senders {
			if x == from {
				s.links[i].senders[j] = 0
			}
		}
	}
}

// Failure is a frame with a token that was taken and that will not leave: for packets that were to be cut, a fragment, or the whole packet while
// it has waited for its neighbour.
type Failure struct {
	Packet buffers.Packet // transmitting
	Token  uint64
	Errno  Errno
}

// Failures are the frames that will not leave, until the next ClearFailures.
func (s *Stack) Failures() []Failure { return s.failures }

// ClearFailures empties the list.
func (s *Stack) ClearFailures() {
	clear(s.failures)
	s.failures = s.failures[:0]
}

// loseFrame drops and counts a frame that cannot leave, and lists it in Failures if it has a token.
func (s *Stack) loseFrame(p buffers.Packet, token uint64, e Errno) {
	s.stats.Lost++
	s.failFrame(p, token, e)
}

// failFrame is loseFrame for a frame that is counted elsewhere.
func (s *Stack) failFrame(p buffers.Packet, token uint64, e Errno) {
	if token == 0 {
		s.pool.FreeTransmit(p)
		return
	}
	s.failures = append(s.failures, Failure{Packet: p, Token: token, Errno: e})
}

// waitingFrame is a frame that waits for its neighbour's station, or a packet that is to be cut when that is known.
type waitingFrame struct {
	packet buffers.Packet
	token  uint64
	link   int16
	uncut  *uncut // nil: packet is a frame; else the packet's bytes behind the IPv4 header, and this is how they are cut
}

// sendResolved queues a frame that waited for its neighbour's station, which is known now. It is lost if its link is down, or another link is
// too short for it. False: it waits for the buffers of its fragments.
func (s *Stack) sendResolved(w waitingFrame, n host.Neighbour) bool {
	i := s.sendingLink(int(w.link))
	switch l := &s.links[i]; {
	case !l.sends():
		s.loseFrame(w.packet, w.token, unix.ENETDOWN)
	case w.uncut != nil:
		return s.sendResolvedUncut(i, w, n.MAC)
	case !l.fits(w.packet):
		s.loseFrame(w.packet, w.token, unix.EMSGSIZE)
	default:
		copy(w.packet.Bytes(), n.MAC[:]) // the Ethernet header begins with the target
		s.queue(i, Out{Packet: w.packet, Token: w.token}, noSender)
	}
	return true
}

// onGiveUp is called by the queue of waiting frames for one whose neighbour did not answer, or which waited for buffers as long.
func (s *Stack) onGiveUp(w waitingFrame, t host.Target, why host.GiveUp) {
	e := unix.EHOSTUNREACH
	if n, ok := s.snapshot.Neighbour(t); ok && n.Usable() && why == host.GiveUpTime {
		e = unix.ENOBUFS
	} else if w.uncut == nil && (why == host.GiveUpTime || why == host.GiveUpFailed) {
		s.reportNoNeighbour(int(w.link), w.packet)
	}
	s.loseFrame(w.packet, w.token, e)
}

// reportNoNeighbour tells TCP of a segment whose neighbour did not answer, as the kernel does: by an error like the ICMP message of a router.
// Protocols of datagrams learn it by the failure of the send.
func (s *Stack) reportNoNeighbour(link int, frame buffers.Packet) {
	slot := s.slots[wire.ProtocolTCP]
	b := frame.Bytes()
	n := wire.EthernetLen
	if s.links[link].VLAN != 0 {
		n += wire.VLANLen
	}
	if slot == 0 || len(b) < n+wire.IPv4Len+8 {
		return
	}
	q, d := wire.QuoteOf(b[n:])
	if d != wire.Accept || q.IP.Protocol() != wire.ProtocolTCP {
		return
	}
	// Not accepted: the connection has ended meanwhile.
	_ = s.protocols[slot-1].Error(s.now, ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPHost, NoNeighbour: true, Quote: q,
		Flow: Flow{Source: q.IP.Target(), SourcePort: q.TargetPort(), Target: q.IP.Source(), TargetPort: q.SourcePort()}})
}

// AwaitedNeighbours appends the neighbours that frames wait for to list.
func (s *Stack) AwaitedNeighbours(list []host.Target) []host.Target {
	s.waiting.Targets(func(t host.Target) { list = append(list, t) })
	return list
}

// resolveAwaited asks again for the neighbours that frames wait for, once a second (RFC 1122 section 2.3.2.1): the first request may have
// been refused because another came in the same second, or the interface was down.
func (s *Stack) resolveAwaited(now clock.Time) {
	if s.waiting.Len() > 0 && now >= s.askAt {
		s.askAt = now + requestInterval
		s.waiting.Targets(s.host.Resolve)
	}
}

// sendControl queues a frame of ARP, ICMP or IGMP. Without a free buffer it is lost, and counted: these protocols repeat.
func (s *Stack) sendControl(i int, frame []byte) {
	p, err := s.pool.Alloc(len(frame))
	if err != nil {
		s.stats.NoBuffer++
		return
	}
	copy(p.Room(), frame)
	if p, err = s.pool.Transmit(p); err != nil {
		s.stats.NoBuffer++
		return
	}
	s.queue(i, Out{Packet: p}, noSender)
}
