package ip

import (
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// icmp answers echo requests and hands errors to the protocol of the packet that they quote (RFC 792, RFC 1122 section 3.2.2).
func (s *Stack) icmp(now clock.Time, i int, p *Parsed) wire.Drop {
	h, body, d := wire.ParseICMP(p.Payload())
	switch {
	case d != wire.Accept:
		return d
	case h.Type() == wire.ICMPEchoRequest:
		switch {
		case p.LinkGroup || p.Flow.Target.IsMulticast():
			return wire.ICMPGroup // RFC 1122 section 3.2.2.6 leaves it open; amplification decides
		case !s.mayAnswer(now):
			return wire.ICMPRate
		}
		echo := wire.ICMPEcho{Reply: true, ID: h.ID(), Sequence: h.Sequence(), Data: body}
		s.reply(i, p, func(b []byte) ([]byte, error) { return echo.Append(b), nil })
		return wire.Accept
	case h.IsError():
		return s.icmpError(now, h, body)
	}
	return wire.ICMPType // an echo reply: no socket of this stack sends requests
}

// icmpError passes an ICMP error on to the protocol of the packet that it quotes, which checks that it has sent that packet. A packet that was
// too long for a router then lowers the path's MTU.
func (s *Stack) icmpError(now clock.Time, h *wire.ICMP, body []byte) wire.Drop {
	q, d := wire.ParseQuote(h, body)
	if d != wire.Accept {
		return d
	}
	slot := s.slots[q.IP.Protocol()]
	if slot == 0 || s.AddressKind(q.IP.Source(), 0) != AddressLocal {
		return wire.ICMPNoSocket
	}
	e := ICMPError{Type: h.Type(), Code: h.Code(), Errno: errnoOf(h), Quote: q,
		Flow: Flow{Source: q.IP.Target(), SourcePort: q.TargetPort(), Target: q.IP.Source(), TargetPort: q.SourcePort()}}
	tooLong := h.Type() == wire.ICMPUnreachable && h.Code() == wire.ICMPFragmentation
	if tooLong {
		e.MTU = h.MTU()
	}
	if d := s.protocols[slot-1].Error(now, e); d != wire.Accept {
		return d
	}
	if tooLong {
		s.lowerPathMTU(now, q.IP.Target(), e.MTU)
	}
	return wire.Accept
}

// ErrorViaKernel takes an ICMP message that the kernel has received for this host, from the IPv4 header on: an error that quotes a packet of the
// protocol is handed to it. Accept: the protocol has sent that packet. Errors about other protocols change nothing and count nowhere:
// their sockets are told by the kernel.
func (s *Stack) ErrorViaKernel(now clock.Time, packet []byte, protocol uint8) wire.Drop {
	header, _, payload, d := wire.ParseIPv4(packet)
	if d == wire.Accept && header.Protocol() == wire.ProtocolICMP {
		var h *wire.ICMP
		var body []byte
		h, body, d = wire.ParseICMP(payload)
		switch {
		case d != wire.Accept:
		case !h.IsError():
			return wire.ICMPType
		default:
			if q, bad := wire.ParseQuote(h, body); bad == wire.Accept && q.IP.Protocol() != protocol {
				return wire.ICMPNoSocket
			}
			d = s.icmpError(now, h, body)
		}
	}
	if d != wire.Accept {
		s.drops[d]++
	}
	return d
}

// errnoOf is icmp_err_convert of the kernel, as far as its errors are fatal; sockets are not told of passing ones.
func errnoOf(h *wire.ICMP) Errno {
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

// SendPortUnreachable answers a received packet for a port that no socket has. Beside a kernel it does nothing: the kernel answers.
func (s *Stack) SendPortUnreachable(now clock.Time, i int, p *Parsed) {
	if s.localHost == nil || !wire.MayAnswer(p.IPv4(), p.Payload(), p.LinkGroup) {
		return
	}
	if !s.mayAnswer(now) {
		s.drops[wire.ICMPRate]++
		return
	}
	e := wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPPort, Packet: p.Packet()}
	s.reply(i, p, e.Append)
}

// answerLimit is how many ICMP messages a second other hosts can make this stack send (RFC 1812 section 4.3.2.8).
const answerLimit = 1000

// mayAnswer counts an ICMP answer and reports whether the limit of the current second allows it.
func (s *Stack) mayAnswer(now clock.Time) bool {
	if now-s.answersFrom >= clock.Time(1e9) {
		s.answersFrom, s.answers = now, 0
	}
	s.answers++
	return s.answers <= answerLimit
}

// reply sends an ICMP message to the sender of a packet, by the link and from the station that it came by.
func (s *Stack) reply(i int, p *Parsed, message func([]byte) ([]byte, error)) {
	l := &s.links[i]
	eth := wire.EthernetFields{Target: (*wire.Ethernet)(p.Frame).Source(), Source: l.MAC, Tag: wire.Tag(l.VLAN), Type: wire.TypeIPv4}
	head := eth.Len() + wire.IPv4Len
	var room [wire.EthernetLen + wire.VLANLen + wire.IPv4Len]byte
	b, err := message(append(s.scratch[:0], room[:head]...)) // behind the headers, which need its length
	n := len(b) - head
	s.scratch = b
	if err != nil || n+wire.IPv4Len > l.MTU {
		return
	}
	ip := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolICMP, ID: s.NextID(), Source: p.Flow.Target, Target: p.Flow.Source}
	if _, err := ip.Append(eth.Append(b[:0]), n); err != nil {
		return
	}
	s.sendControl(i, b)
}
