package stack

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// icmp answers echo requests and tells connected sockets of errors.
func (s *Stack) icmp(now clock.Time, i int, frame []byte, l *look) wire.Drop {
	h, body, d := wire.ParseICMP(frame[l.segment:l.end])
	switch {
	case d != wire.Accept:
		return d
	case h.Type() == wire.ICMPEchoRequest:
		switch {
		case l.group || l.flow.Target.IsMulticast():
			return wire.ICMPGroup // RFC 1122 section 3.2.2.6 leaves it open; amplification decides
		case !s.mayAnswer(now):
			return wire.ICMPRate
		}
		echo := wire.ICMPEcho{Reply: true, ID: h.ID(), Sequence: h.Sequence(), Data: body}
		s.reply(i, frame, l, func(b []byte) ([]byte, error) { return echo.Append(b), nil })
		return wire.Accept
	case h.IsError():
		return s.icmpError(now, h, body)
	}
	return wire.ICMPType // an echo reply: nobody here asks
}

// icmpError finds the socket that the quoted packet came from.
func (s *Stack) icmpError(now clock.Time, h *wire.ICMP, body []byte) wire.Drop {
	q, d := wire.ParseQuote(h, body)
	if d != wire.Accept {
		return d
	}
	if q.IP.Protocol() != wire.ProtocolUDP || s.kindOf(q.IP.Source(), 0) != addrOurs {
		return wire.ICMPNoSocket
	}
	// The quoted packet went the other way round: its target is who would answer.
	id, d := s.udp.Unicast(&udp.Flow{Source: q.IP.Target(), SourcePort: q.TargetPort(), Target: q.IP.Source(), TargetPort: q.SourcePort()})
	if d != wire.Accept {
		return wire.ICMPNoSocket
	}
	if h.Type() == wire.ICMPUnreachable && h.Code() == wire.ICMPFragmentation {
		s.lowerMTU(now, q.IP.Target(), h.MTU())
		return wire.Accept
	}
	if e := errnoOf(h); e != 0 {
		s.tell(id, e)
	}
	return wire.Accept
}

// tell raises an error on a connected socket. One that is not connected sends to many: an error says nothing that it could use
// (RFC 1122 section 4.1.3.3; udp_err of the kernel).
func (s *Stack) tell(id udp.ID, e syscall.Errno) {
	if !s.udp.Endpoint(id).Remote.IsZero() {
		s.events = append(s.events, Event{Owner: s.udp.Owner(id), Errno: e})
	}
}

// errnoOf is icmp_err_convert of the kernel, as far as its errors are fatal; passing ones are not told.
func errnoOf(h *wire.ICMP) syscall.Errno {
	if h.Type() != wire.ICMPUnreachable {
		return 0
	}
	switch h.Code() {
	case wire.ICMPProtocol:
		return unix.ENOPROTOOPT
	case wire.ICMPPort:
		return unix.ECONNREFUSED
	case 6: // destination network unknown
		return unix.ENETUNREACH
	case 7: // destination host unknown
		return unix.EHOSTDOWN
	case 8: // source host isolated
		return unix.ENONET
	case 9, 10, wire.ICMPAdminProhibited, 14, 15:
		return unix.EHOSTUNREACH
	}
	return 0
}

// refused tells the sender of a looped datagram that nobody has the port.
func (s *Stack) refused(f *udp.Flow) {
	back := udp.Flow{Source: f.Target, SourcePort: f.TargetPort, Target: f.Source, TargetPort: f.SourcePort}
	if id, d := s.udp.Unicast(&back); d == wire.Accept {
		s.tell(id, unix.ECONNREFUSED)
	}
}

// unreachable answers a datagram for a port that nobody has.
func (s *Stack) unreachable(now clock.Time, i int, frame []byte, l *look) {
	if !wire.MayAnswer((*wire.IPv4)(frame[l.net:]), frame[l.segment:l.end], l.group) {
		return
	}
	if !s.mayAnswer(now) {
		s.drops[wire.ICMPRate]++
		return
	}
	e := wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPPort, Packet: frame[l.net:l.end]}
	s.reply(i, frame, l, e.Append)
}

// mayAnswer bounds what strangers can make this stack send (RFC 1812 section 4.3.2.8).
func (s *Stack) mayAnswer(now clock.Time) bool {
	if now-s.answersFrom >= clock.Time(1e9) {
		s.answersFrom, s.answers = now, 0
	}
	s.answers++
	return s.answers <= answerLimit
}

// reply sends an ICMP message back where a frame came from, by the way it came.
func (s *Stack) reply(i int, frame []byte, l *look, message func([]byte) ([]byte, error)) {
	link := &s.links[i]
	eth := wire.EthernetFields{Target: (*wire.Ethernet)(frame).Source(), Source: link.MAC, Tag: wire.Tag(link.VLAN), Type: wire.TypeIPv4}
	head := eth.Len() + wire.IPv4Len
	var room [wire.EthernetLen + wire.VLANLen + wire.IPv4Len]byte
	b, err := message(append(s.scratch[:0], room[:head]...)) // behind the headers, which need its length
	n := len(b) - head
	s.scratch = b
	if err != nil || n+wire.IPv4Len > link.MTU {
		return
	}
	s.id++
	ip := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolICMP, ID: s.id, Source: l.flow.Target, Target: l.flow.Source}
	if _, err := ip.Append(eth.Append(b[:0]), n); err != nil {
		return
	}
	s.control(i, b)
}
