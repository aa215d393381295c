package wire

import (
	"encoding/binary"
	"fmt"
)

// IPv4Template is a flow's link and network headers, ready: per packet Put copies them and patches length, identification,
// fragment field and sum. Made once per flow and route; a plain value, to be kept in the flow's record.
type IPv4Template struct {
	bytes  [EthernetLen + VLANLen + IPv4Len]byte
	n, eth uint8
	sum    Sum // of the IPv4 header with total length, identification, fragment field and sum zero
	pseudo Sum // of the pseudo header with length zero
}

// NewIPv4Template makes the template of packets with these fields. Options, ID, flags and Offset of ip are not used: they
// belong to Put, and packets with options are built by IPv4Fields.Append.
func NewIPv4Template(link EthernetFields, ip IPv4Fields) (t IPv4Template, err error) {
	link.Type = TypeIPv4
	switch err = link.check(); {
	case err != nil:
		return t, err
	case ip.TTL == 0:
		return t, fmt.Errorf("wire: TTL 0: no packet may leave with it")
	case len(ip.Options) != 0:
		return t, fmt.Errorf("wire: Options of %d bytes: a template has none", len(ip.Options))
	}
	b := link.Append(t.bytes[:0])
	t.eth = uint8(len(b))
	plain := IPv4Fields{TOS: ip.TOS, TTL: ip.TTL, Protocol: ip.Protocol, Source: ip.Source, Target: ip.Target}
	if b, err = plain.Append(b, 0); err != nil {
		return t, err
	}
	t.n = uint8(len(b))
	h := (*IPv4)(b[t.eth:])
	binary.BigEndian.PutUint16(h[2:], 0)
	binary.BigEndian.PutUint16(h[10:], 0)
	t.sum = Sum(0).AddIPv4(h)
	t.pseudo = Pseudo(ip.Source, ip.Target, ip.Protocol, 0)
	return t, nil
}

// Len is the length of the headers: where the transport header begins.
func (t *IPv4Template) Len() int { return int(t.n) }

// Target is the station that the packets are for.
func (t *IPv4Template) Target() MAC { return MAC(t.bytes[:6]) }

// Pseudo is the sum of the pseudo header for transport bytes of this length.
func (t *IPv4Template) Pseudo(length int) Sum { return t.pseudo.Word(uint16(length)) }

// Whole is the fragment field of a packet that is not cut and may be; Atomic of one that must not be.
const (
	Whole  uint16 = 0
	Atomic uint16 = flagDF
)

// Fragment is the fragment field of a part at offset bytes, a multiple of 8, which more follow or not.
func Fragment(offset int, more bool) uint16 {
	f := uint16(offset/8) & fragmentOffset
	if more {
		f |= flagMF
	}
	return f
}

// Put writes the headers at the start of frame, whose length is that of the whole packet with headers; all behind Len is
// the IPv4 payload. frame must be longer than Len and at most IPv4Max beyond the link header.
func (t *IPv4Template) Put(frame []byte, id, fragment uint16) {
	total := uint16(len(frame) - int(t.eth))
	// Both copies have lengths the compiler knows: what a tag adds is written first and overwritten if there is none.
	*(*[EthernetLen + IPv4Len]byte)(frame) = [EthernetLen + IPv4Len]byte(t.bytes[:])
	if t.eth != EthernetLen {
		*(*[EthernetLen + VLANLen + IPv4Len]byte)(frame) = t.bytes
	}
	h := (*IPv4)(frame[t.eth:])
	binary.BigEndian.PutUint16(h[2:], total)
	binary.BigEndian.PutUint16(h[4:], id)
	binary.BigEndian.PutUint16(h[6:], fragment)
	binary.BigEndian.PutUint16(h[10:], t.sum.Word(total).Word(id).Word(fragment).Check())
}

// UDPHead is the UDP header of a flow, ready: what a UDPTemplate has behind its IPv4Template.
type UDPHead struct {
	ports [4]byte
	base  Sum // of pseudo header and ports, lengths zero
}

// NewUDPHead makes the UDP header for packets with these IPv4 headers.
func NewUDPHead(ip *IPv4Template, sourcePort, targetPort uint16) (h UDPHead, err error) {
	switch {
	case sourcePort == 0:
		return h, fmt.Errorf("wire: SourcePort 0")
	case targetPort == 0:
		return h, fmt.Errorf("wire: TargetPort 0")
	}
	binary.BigEndian.PutUint16(h.ports[0:], sourcePort)
	binary.BigEndian.PutUint16(h.ports[2:], targetPort)
	h.base = ip.pseudo.Word(sourcePort).Word(targetPort)
	return h, nil
}

// PutTransport writes the UDP header alone, at the start of datagram, whose length is that of the whole datagram; payload is
// the sum of what follows. For datagrams that are sent in fragments, and for payloads whose sum is known.
func (h *UDPHead) PutTransport(datagram []byte, payload Sum) {
	n := uint16(len(datagram))
	b := (*UDP)(datagram)
	*(*[4]byte)(b[:4]) = h.ports
	binary.BigEndian.PutUint16(b[4:], n)
	// The length is in the pseudo header and in the header: it counts twice.
	binary.BigEndian.PutUint16(b[6:], sent(h.base.Word(n).Word(n).Plus(payload)))
}

// PutDatagram writes the headers of both in front of a payload that is behind them in frame already, for a packet that is never to be
// fragmented: Put and PutTransport in one pass.
func (h *UDPHead) PutDatagram(t *IPv4Template, frame []byte, id uint16) {
	payload := Sum(0).Add(frame[int(t.n)+UDPLen:])
	total := uint16(len(frame) - int(t.eth))
	*(*[EthernetLen + IPv4Len]byte)(frame) = [EthernetLen + IPv4Len]byte(t.bytes[:])
	if t.eth != EthernetLen {
		*(*[EthernetLen + VLANLen + IPv4Len]byte)(frame) = t.bytes
	}
	b := (*[IPv4Len + UDPLen]byte)(frame[t.eth:])
	binary.BigEndian.PutUint16(b[2:], total)
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], Atomic)
	binary.BigEndian.PutUint16(b[10:], foldWords(uint32(t.sum)+uint32(total)+uint32(id)+uint32(Atomic)).Check())
	n := total - IPv4Len
	*(*[4]byte)(b[IPv4Len:]) = h.ports
	binary.BigEndian.PutUint16(b[IPv4Len+4:], n)
	// The length is in the pseudo header and in the header: it counts twice.
	binary.BigEndian.PutUint16(b[IPv4Len+6:], sent(foldWords(uint32(h.base)+uint32(n)+uint32(n)+uint32(payload))))
}

// foldWords converts a plain sum of a few 16-bit words to a one's complement sum.
func foldWords(n uint32) Sum {
	n = n&0xffff + n>>16
	return Sum(n + n>>16)
}

// UDPTemplate is the headers of one UDP flow, ready.
type UDPTemplate struct {
	IPv4Template
	UDPHead
}

// UDPFlow says where the datagrams of a template go.
type UDPFlow struct {
	Link                   EthernetFields // Type is not used
	TOS, TTL               uint8
	Source, Target         Addr
	SourcePort, TargetPort uint16
}

// NewUDPTemplate makes the template of a flow.
func NewUDPTemplate(f UDPFlow) (t UDPTemplate, err error) {
	ip := IPv4Fields{TOS: f.TOS, TTL: f.TTL, Protocol: ProtocolUDP, Source: f.Source, Target: f.Target}
	if t.IPv4Template, err = NewIPv4Template(f.Link, ip); err != nil {
		return t, err
	}
	t.UDPHead, err = NewUDPHead(&t.IPv4Template, f.SourcePort, f.TargetPort)
	return t, err
}

// Len is the length of all headers: where the payload begins.
func (t *UDPTemplate) Len() int { return int(t.n) + UDPLen }

// Put writes the headers in front of the payload, which is in frame[Len():] already. The packet leaves as one, never to be
// fragmented on its way (RFC 6864: its identification means nothing). The caller has compared the length with the MTU.
func (t *UDPTemplate) Put(frame []byte, id uint16) {
	t.IPv4Template.Put(frame, id, Atomic)
	t.PutTransport(frame[t.n:], Sum(0).Add(frame[t.Len():]))
}
