package protocol

import (
	"encoding/binary"
	"net/netip"
)

// Endpoint is an IPv4 address and a port.
type Endpoint struct {
	Addr [4]byte
	Port uint16
}

// EndpointFrom converts from package net/netip; false: not an IPv4 address.
func EndpointFrom(a netip.AddrPort) (Endpoint, bool) {
	ip := a.Addr().Unmap()
	if !ip.Is4() {
		return Endpoint{}, false
	}
	return Endpoint{ip.As4(), a.Port()}, true
}

// AddrPort is the endpoint for package net/netip.
func (e Endpoint) AddrPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4(e.Addr), e.Port)
}

// Flags of a segment.
type Flags uint8

// The flags, as TCP's.
const (
	FIN Flags = 1 << iota
	SYN
	RST
	ACK
	allFlags = FIN | SYN | RST | ACK
)

// Segment is a segment's header.
type Segment struct {
	Source, Target Endpoint
	Seq, Ack       Seq
	Window         uint32 // bytes that may be sent from Ack on
	Length         uint16 // bytes of payload
	Flags          Flags
}

// span is how many sequence numbers the segment takes: a SYN and a FIN take one each.
func (s *Segment) span() int {
	n := int(s.Length)
	if s.Flags&SYN != 0 {
		n++
	}
	if s.Flags&FIN != 0 {
		n++
	}
	return n
}

// HeaderLen is the length of a header on the wire.
//
//	0          2        3        4                  8                  12       14       16     20     24       28
//	| length   | flags  | kind   | source address   | target address   | ports           | seq  | ack  | window |
const HeaderLen = 28

// kind marks a segment of this protocol.
const kind = 0x6d

// Put writes the header to b, which has room for it.
func (s *Segment) Put(b []byte) {
	_ = b[HeaderLen-1]
	binary.BigEndian.PutUint16(b[0:], s.Length)
	b[2], b[3] = byte(s.Flags), kind
	copy(b[4:8], s.Source.Addr[:])
	copy(b[8:12], s.Target.Addr[:])
	binary.BigEndian.PutUint16(b[12:], s.Source.Port)
	binary.BigEndian.PutUint16(b[14:], s.Target.Port)
	binary.BigEndian.PutUint32(b[16:], uint32(s.Seq))
	binary.BigEndian.PutUint32(b[20:], uint32(s.Ack))
	binary.BigEndian.PutUint32(b[24:], s.Window)
}

// Parse reads a frame: a header and exactly as much payload as it says. ok is false for everything else.
func Parse(frame []byte) (s Segment, payload []byte, ok bool) {
	if len(frame) < HeaderLen || frame[3] != kind || Flags(frame[2])&^allFlags != 0 {
		return Segment{}, nil, false
	}
	s = Segment{
		Source: Endpoint{Addr: [4]byte(frame[4:8]), Port: binary.BigEndian.Uint16(frame[12:])},
		Target: Endpoint{Addr: [4]byte(frame[8:12]), Port: binary.BigEndian.Uint16(frame[14:])},
		Seq:    Seq(binary.BigEndian.Uint32(frame[16:])),
		Ack:    Seq(binary.BigEndian.Uint32(frame[20:])),
		Window: binary.BigEndian.Uint32(frame[24:]),
		Length: binary.BigEndian.Uint16(frame[0:]),
		Flags:  Flags(frame[2]),
	}
	payload = frame[HeaderLen:]
	if int(s.Length) != len(payload) || s.Source.Port == 0 || s.Target.Port == 0 {
		return Segment{}, nil, false
	}
	if s.Window > maxWindow {
		return Segment{}, nil, false
	}
	return s, payload, true
}

// maxWindow keeps what is outstanding within half of the sequence numbers (RFC 9293 section 3.4).
const maxWindow = 1 << 30
