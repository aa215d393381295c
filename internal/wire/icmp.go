package wire

import (
	"encoding/binary"
	"fmt"
)

// Types of ICMP that this package reads.
const (
	ICMPEchoReply       uint8 = 0
	ICMPUnreachable     uint8 = 3
	ICMPEchoRequest     uint8 = 8
	ICMPTimeExceeded    uint8 = 11
	ICMPParameter       uint8 = 12
	icmpUnreachableLast uint8 = 15 // RFC 1812 5.2.7.1: codes 0 to 15
)

// Codes of ICMPUnreachable that matter to sockets.
const (
	ICMPNet              uint8 = 0
	ICMPHost             uint8 = 1
	ICMPProtocol         uint8 = 2
	ICMPPort             uint8 = 3
	ICMPFragmentation    uint8 = 4
	ICMPSourceRoute      uint8 = 5
	ICMPAdminProhibited  uint8 = 13
	ICMPReassembly       uint8 = 1 // of ICMPTimeExceeded
	ICMPTransit          uint8 = 0 // of ICMPTimeExceeded
	icmpTimeExceededLast uint8 = 1
	icmpParameterLast    uint8 = 2
)

// ICMPLen is the length of the header.
const ICMPLen = 8

// mtuMin is the least MTU that IPv4 allows (RFC 791).
const mtuMin = 68

// ICMP is an ICMPv4 header (RFC 792); holding one proves that 8 bytes are there.
type ICMP [ICMPLen]byte

// Type is the message type.
func (h *ICMP) Type() uint8 { return h[0] }

// Code refines the type.
func (h *ICMP) Code() uint8 { return h[1] }

// ID and Sequence are those of echo messages.
func (h *ICMP) ID() uint16       { return binary.BigEndian.Uint16(h[4:6]) }
func (h *ICMP) Sequence() uint16 { return binary.BigEndian.Uint16(h[6:8]) }

// MTU is the next hop's in a fragmentation-needed message (RFC 1191 4).
func (h *ICMP) MTU() int { return int(binary.BigEndian.Uint16(h[6:8])) }

// IsError reports whether the message is about a packet that it quotes.
func (h *ICMP) IsError() bool {
	return h[0] == ICMPUnreachable || h[0] == ICMPTimeExceeded || h[0] == ICMPParameter
}

// ParseICMP reads the payload of an IPv4 packet. Echo, unreachable, time exceeded and parameter problem are accepted; all
// else, redirects and source quench (RFC 6633) among it, is not acted on and therefore dropped.
func ParseICMP(b []byte) (h *ICMP, body []byte, d Drop) {
	if len(b) < ICMPLen {
		return nil, nil, ICMPShort
	}
	if !Sum(0).Add(b).Valid() {
		return nil, nil, ICMPSum
	}
	h = (*ICMP)(b)
	var last uint8
	switch h.Type() {
	case ICMPEchoReply, ICMPEchoRequest:
		last = 0
	case ICMPUnreachable:
		last = icmpUnreachableLast
	case ICMPTimeExceeded:
		last = icmpTimeExceededLast
	case ICMPParameter:
		last = icmpParameterLast
	default:
		return nil, nil, ICMPType
	}
	if h.Code() > last {
		return nil, nil, ICMPCode
	}
	return h, b[ICMPLen:], Accept
}

// Quote is the start of a packet of ours that an ICMP error is about.
type Quote struct {
	IP        *IPv4
	Transport *[8]byte // RFC 792: at least these; ports come first in UDP and TCP
}

// SourcePort and TargetPort are the ports of UDP and TCP: ours is the source.
func (q Quote) SourcePort() uint16 { return binary.BigEndian.Uint16(q.Transport[0:2]) }
func (q Quote) TargetPort() uint16 { return binary.BigEndian.Uint16(q.Transport[2:4]) }

// ParseQuote reads the body of an ICMP error. The quoted header's sum is not checked, routers change what it covers. A
// fragmentation-needed message must carry an MTU that explains it: at least 68 and less than the quoted packet's length;
// routers that give none (before RFC 1191) are not guessed at.
func ParseQuote(h *ICMP, body []byte) (q Quote, d Drop) {
	if q, d = QuoteOf(body); d != Accept {
		return q, d
	}
	if h.Type() == ICMPUnreachable && h.Code() == ICMPFragmentation {
		switch mtu := h.MTU(); {
		case mtu < mtuMin:
			return Quote{}, ICMPMTU
		case mtu >= q.IP.TotalLen():
			return Quote{}, ICMPMTULarge
		}
	}
	return q, Accept
}

// QuoteOf is the quote that an ICMP error about an IPv4 packet would have; it needs only the packet's first bytes.
func QuoteOf(body []byte) (q Quote, d Drop) {
	if len(body) < IPv4Len+8 {
		return Quote{}, ICMPQuoteShort
	}
	q.IP = (*IPv4)(body)
	header := q.IP.HeaderLen()
	switch {
	case body[0]>>4 != 4 || header < IPv4Len || q.IP.TotalLen() < header:
		return Quote{}, ICMPQuote
	case len(body) < header+8:
		return Quote{}, ICMPQuoteShort
	case q.IP.Offset() != 0:
		return Quote{}, ICMPQuoteTail
	}
	q.Transport = (*[8]byte)(body[header:])
	return q, Accept
}

// ICMPEcho is an echo message to write.
type ICMPEcho struct {
	Reply        bool
	ID, Sequence uint16
	Data         []byte
}

// Append writes the message behind b.
func (e *ICMPEcho) Append(b []byte) []byte {
	at, kind := len(b), ICMPEchoRequest
	if e.Reply {
		kind = ICMPEchoReply
	}
	b = append(b, kind, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, e.ID)
	b = append(binary.BigEndian.AppendUint16(b, e.Sequence), e.Data...)
	binary.BigEndian.PutUint16(b[at+2:], Sum(0).Add(b[at:]).Check())
	return b
}

// quoteMax keeps an error's packet within 576 bytes (RFC 1812 4.3.2.3).
const quoteMax = 576 - IPv4Len - ICMPLen

// ICMPError is an error message to write.
type ICMPError struct {
	Type, Code uint8
	MTU        uint16 // of a fragmentation-needed message
	Packet     []byte // the offending IPv4 packet, header first: as much of it is quoted as fits
}

// Append writes the message behind b. MayAnswer reports whether an error may be sent about the packet at all.
func (e *ICMPError) Append(b []byte) ([]byte, error) {
	if h := (ICMP{e.Type}); !h.IsError() {
		return b, fmt.Errorf("wire: Type %d is not an ICMP error", e.Type)
	}
	if len(e.Packet) < IPv4Len+8 {
		return b, fmt.Errorf("wire: Packet of %d bytes: an error quotes a header and 8 bytes", len(e.Packet))
	}
	at := len(b)
	b = append(b, e.Type, e.Code, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, e.MTU)
	b = append(b, e.Packet[:min(len(e.Packet), quoteMax)]...)
	binary.BigEndian.PutUint16(b[at+2:], Sum(0).Add(b[at:]).Check())
	return b, nil
}

// MayAnswer reports whether an ICMP error may be sent about a packet (RFC 1122 3.2.2): not about an ICMP error, a later
// fragment, a group or broadcast, on either layer, or a source that is not one host. payload is the IPv4 payload.
func MayAnswer(ip *IPv4, payload []byte, linkGroup bool) bool {
	source, target := ip.Source(), ip.Target()
	if linkGroup || target.IsMulticast() || target.IsReserved() || ip.Offset() != 0 ||
		source[0] == 0 || source.IsLoopback() || source.IsMulticast() || source.IsReserved() {
		return false
	}
	if ip.Protocol() != ProtocolICMP {
		return true
	}
	return len(payload) > 0 && (payload[0] == ICMPEchoRequest || payload[0] == ICMPEchoReply)
}
