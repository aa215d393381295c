package stack

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Verdict is what became of a datagram given to Send.
type Verdict uint8

// The verdicts.
const (
	Queued    Verdict = iota // it is a frame now, or waits to be one; the stack has the packet
	Kept                     // it is done and the packet is the caller's again, still transmitting: it did not leave this stack, or in parts
	ViaKernel                // only the socket's descriptor leads there; the packet is the caller's
	Refused                  // the errno says why; the packet is the caller's
)

// parked is a frame that waits for its neighbour's address.
type parked struct {
	packet buffers.Packet
	token  uint64
	link   int16
}

// Send sends the payload p, which is transmitting and in one buffer, to the destination of a route; the address is compared, so
// that a route which has another destination by now is found again. token is given back with the frame (see Out and Failure); 0
// is for those that nobody wants to hear of.
func (s *Stack) Send(now clock.Time, id udp.ID, at int32, to wire.Addr, port uint16, p buffers.Packet, token uint64) (Verdict, syscall.Errno) {
	s.now = now
	r := &s.routes[uint32(at)%routeCount]
	if r.stamp != s.stamp || r.to != to || r.port != port || r.id != id {
		w, e := s.Prepare(now, id, to, port)
		if e != 0 {
			return Refused, e
		}
		r = &s.routes[w.Route]
	}
	n := p.Len()
	switch {
	case r.way == wayError:
		return Refused, r.errno
	case n > int(r.limit):
		return Refused, unix.EMSGSIZE
	case r.way == wayKernel, n > int(r.whole) && !r.parts:
		return ViaKernel, 0
	}
	if r.loop {
		s.loop(r, p.Bytes())
	}
	if r.way == wayLoop {
		return Kept, 0
	}
	if n > int(r.whole) {
		return s.fragment(now, r, p)
	}
	length := r.template.Len()
	if _, err := p.Push(length); err != nil {
		return Refused, unix.ENOBUFS // less headroom than headers: a packet that had been pushed to before
	}
	s.id++
	r.template.Put(p.Bytes(), s.id)
	s.leave(now, r, p, token)
	return Queued, 0
}

// leave queues a frame on its link, or lets it wait for its neighbour.
func (s *Stack) leave(now clock.Time, r *route, p buffers.Packet, token uint64) {
	if r.way == wayWait {
		s.stats.Resolutions++
		t := s.targetOf(r)
		if s.waiting.Len() == 0 {
			s.askAt = now + askAgain
		}
		s.waiting.Add(now, s.snap, t, parked{p, token, r.link})
		s.host.Resolve(t)
		return
	}
	if !r.used && !r.hop.IsZero() {
		s.use(now, r)
	}
	s.queue(int(r.link), Out{Packet: p, Token: token})
}

// use notes that frames leave for the route's neighbour.
func (s *Stack) use(now clock.Time, r *route) {
	r.used = true
	if !s.used {
		s.used, s.sweep = true, now+sweepEvery
	}
}

func (s *Stack) queue(link int, o Out) {
	s.stats.Sent++
	s.queued++
	s.links[link].out = append(s.links[link].out, o)
}

// Backlog is how many frames wait for the links together: a driver stops sending above a limit of its own.
func (s *Stack) Backlog() int { return s.queued }

// resolved sends a frame whose neighbour has an address now, unless its link has changed meanwhile.
func (s *Stack) resolved(w parked, n host.Neighbour) {
	i := s.instead(int(w.link))
	switch l := &s.links[i]; {
	case !l.sends():
		s.lost(w.packet, w.token, unix.ENETDOWN)
	case !l.fits(w.packet):
		s.lost(w.packet, w.token, unix.EMSGSIZE)
	default:
		copy(w.packet.Bytes(), n.MAC[:])
		s.queue(i, Out{Packet: w.packet, Token: w.token})
	}
}

// gaveUp takes back a frame whose neighbour did not answer.
func (s *Stack) gaveUp(w parked, _ host.Target, _ host.GiveUp) {
	s.lost(w.packet, w.token, unix.EHOSTUNREACH)
}

// looped is a datagram from this stack for this stack.
type looped struct {
	packet buffers.Packet // the payload, received
	flow   udp.Flow
}

// loop copies a datagram for the sockets of this stack; Loop delivers it.
func (s *Stack) loop(r *route, payload []byte) {
	f := udp.Flow{Source: r.source, Target: r.to, SourcePort: s.udp.Endpoint(r.id).LocalPort, TargetPort: r.port, Interface: uint32(r.iface)}
	switch {
	case r.to.IsMulticast() && !s.joined(r.to, f.Interface):
		return
	case len(s.looped) >= loopLimit:
		s.stats.LoopFull++
		return
	}
	p, room := s.fresh(len(payload), 0)
	if p.IsZero() {
		s.stats.NoBuffer++
		return
	}
	copy(room, payload)
	s.looped = append(s.looped, looped{p, f})
}

// joined tells whether a socket of this stack, or of another one in the directory, is a member of a group.
func (s *Stack) joined(group wire.Addr, iface uint32) bool {
	s.lookInto()
	return s.all.Joined(group, iface)
}

// Looping tells whether Loop has something to deliver.
func (s *Stack) Looping() bool { return len(s.looped) > 0 }

// Loop appends the datagrams that this stack sent to itself to dst.
func (s *Stack) Loop(dst []Delivery) []Delivery {
	for n := range s.looped {
		x := &s.looped[n]
		s.stats.Looped++
		dst = s.loopOne(x, dst)
		*x = looped{}
	}
	s.looped = s.looped[:0]
	return dst
}

func (s *Stack) loopOne(x *looped, dst []Delivery) []Delivery {
	s.ids = s.ids[:0]
	drop := wire.Accept
	switch to := s.kindOf(x.flow.Target, x.flow.Interface); {
	case to == addrBroadcast:
		s.ids, drop = s.udp.Broadcast(&x.flow, s.ids)
	case x.flow.Target.IsMulticast():
		if s.lookInto(); s.book != nil {
			return s.loopAmong(x, dst)
		}
		s.ids, drop = s.udp.Multicast(&x.flow, s.ids)
	default:
		var id udp.ID
		if id, drop = s.udp.Unicast(&x.flow); drop == wire.Accept {
			s.ids = append(s.ids, id)
		}
	}
	f, l, before := Frame{Packet: x.packet}, look{flow: x.flow}, len(dst)
	for _, id := range s.ids {
		dst = s.deliver(id, &f, &l, x.packet.Bytes(), 0, dst, before)
	}
	if drop != wire.Accept {
		s.drops[drop]++
		if drop == wire.UDPNoSocket || drop == wire.UDPForeignPeer {
			s.refused(&x.flow)
		}
	}
	if len(dst) == before {
		_ = x.packet.Release() // received, alone
	}
	return dst
}

// loopAmong is loopOne for a group where other stacks are in the directory.
func (s *Stack) loopAmong(x *looped, dst []Delivery) []Delivery {
	var drop wire.Drop
	if s.ids, drop = s.all.Multicast(&x.flow, s.ids); drop != wire.Accept {
		s.drops[drop]++
	}
	f, l, before := Frame{Packet: x.packet}, look{flow: x.flow, count: int32(len(s.ids))}, len(dst)
	if dst = s.amongMembers(&f, &l, x.packet.Bytes(), 0, dst); len(dst) == before {
		_ = x.packet.Release() // received, alone
	}
	return dst
}
