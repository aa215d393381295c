package tcp

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Endpoint is an IPv4 address and a port.
type Endpoint struct {
	Addr wire.Addr
	Port uint16
}

// EndpointFrom is false for what is no IPv4 address.
func EndpointFrom(a netip.AddrPort) (Endpoint, bool) {
	addr, ok := wire.AddrFrom(a.Addr())
	return Endpoint{addr, a.Port()}, ok
}

// AddrPort is the endpoint for package net/netip.
func (e Endpoint) AddrPort() netip.AddrPort { return netip.AddrPortFrom(e.Addr.Netip(), e.Port) }

// Buffer is the transport's own number of a buffer with payload. The table stores it and hands it back; it never reads payload.
type Buffer uint64

// Payload is a piece of a buffer.
type Payload struct {
	Buffer         Buffer
	Offset, Length uint32
}

// cut is the payload without its first n bytes; n is at most Length.
func (p Payload) cut(n int) Payload {
	return Payload{p.Buffer, p.Offset + uint32(n), p.Length - uint32(n)}
}

// first is the first n bytes of the payload; n is at most Length.
func (p Payload) first(n int) Payload { return Payload{p.Buffer, p.Offset, uint32(n)} }

// ECN is the field of the IP header (RFC 3168 section 5).
type ECN uint8

// The codepoints.
const (
	NotECT ECN = iota
	ECT1
	ECT0
	CE
)

// Segment is a segment's header, where its payload is, and what the transport has to know of the packet around it. Local is this host, in both
// directions.
type Segment struct {
	Local, Remote  Endpoint
	Seq, Ack       Seq
	Window, Urgent uint16 // as on the wire: the window is not scaled
	Flags          wire.TCPFlags
	ECN            ECN
	Payload        Payload
	Options        wire.TCPOptions

	// Of received segments:

	Group bool // the packet was addressed to more than one host, or came from such an address

	// Of segments to send:

	Conn    ID     // NoID: of no connection, or of one that has no record any more
	User    uint64 // what Connect, Take, Import or the listener was given; of no connection and no listener 0
	TTL     uint8  // of the connection's settings
	TOS     uint8  // without the ECN bits
	Again   bool   // the payload was sent before: a link may still hold the frame that it lies in, which must not be rewritten then
	MayFrag bool   // the don't fragment bit is to be clear
}

// span is how many sequence numbers the segment takes: a SYN and a FIN take one each (RFC 9293 section 3.4).
func (s *Segment) span() int {
	n := int(s.Payload.Length)
	if s.Flags&wire.TCPSyn != 0 {
		n++
	}
	if s.Flags&wire.TCPFin != 0 {
		n++
	}
	return n
}

// Parse reads the TCP part of a received packet into the segment: b is the payload of the IPv4 packet. The payload is described by offset, which
// is where b begins in the buffer. The checksum is the caller's matter (wire.CheckTCP).
func (s *Segment) Parse(source, target wire.Addr, b []byte, buffer Buffer, offset int) wire.Drop {
	h, options, payload, d := wire.ParseTCP(b)
	if d != wire.Accept {
		return d
	}
	s.Local, s.Remote = Endpoint{target, h.TargetPort()}, Endpoint{source, h.SourcePort()}
	s.Seq, s.Ack = Seq(h.Seq()), Seq(h.Ack())
	s.Window, s.Urgent, s.Flags = h.Window(), h.Urgent(), h.Flags()
	s.Payload = Payload{Buffer: buffer, Offset: uint32(offset + h.HeaderLen()), Length: uint32(len(payload))}
	s.Options.Parse(options)
	return wire.Accept
}

// HeaderLen is the length of the TCP header that Put writes.
func (s *Segment) HeaderLen() int { return wire.TCPLen + s.Options.Len() }

// Put writes the TCP header at the start of b, which has the payload behind HeaderLen. pseudo is the sum of the pseudo header for len(b) bytes,
// payload that of the payload.
func (s *Segment) Put(b []byte, pseudo, payload wire.Sum) {
	f := wire.TCPFields{SourcePort: s.Local.Port, TargetPort: s.Remote.Port, Seq: uint32(s.Seq), Ack: uint32(s.Ack), Flags: s.Flags,
		Window: s.Window, Urgent: s.Urgent, Options: s.Options}
	f.Put(b, pseudo, payload)
}
