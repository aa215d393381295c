package wire

import (
	"encoding/binary"
	"fmt"
)

// UDPLen is the length of a UDP header; UDPMax is the longest payload in one packet.
const (
	UDPLen = 8
	UDPMax = IPv4Max - IPv4Len - UDPLen
)

// UDP is a header (RFC 768); holding one proves that 8 bytes are there.
type UDP [UDPLen]byte

// SourcePort is the port to answer to, 0 for none.
func (h *UDP) SourcePort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// TargetPort is the port it is for.
func (h *UDP) TargetPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Len is the length of header and payload.
func (h *UDP) Len() int { return int(binary.BigEndian.Uint16(h[4:6])) }

// Sum is the checksum field, 0 for none.
func (h *UDP) Sum() uint16 { return binary.BigEndian.Uint16(h[6:8]) }

// ParseUDP reads the payload of an IPv4 packet that is not a fragment. The payload is cut to the UDP length; bytes behind it are ignored.
// CheckUDP verifies the checksum, because whether a partial one is accepted depends on the interface.
func ParseUDP(b []byte) (h *UDP, payload []byte, d Drop) {
	if len(b) < UDPLen {
		return nil, nil, UDPShort
	}
	h = (*UDP)(b)
	n := h.Len()
	switch {
	case n < UDPLen:
		return nil, nil, UDPLength
	case n > len(b):
		return nil, nil, UDPLong
	case h.TargetPort() == 0:
		return nil, nil, UDPPort
	}
	return h, b[UDPLen:n:n], Accept
}

// SumState is what a received checksum turned out to be.
type SumState uint8

const (
	SumBad     SumState = iota // wrong
	SumGood                    // right
	SumNone                    // UDP's 0: the sender computed none
	SumPartial                 // the pseudo header's sum only: the sender left the rest to a card that was never passed
)

// String is the state's name.
func (s SumState) String() string { return [...]string{"bad", "good", "none", "partial"}[s&3] }

// CheckUDP verifies the checksum over pseudo header, header and payload, as ParseUDP returned them.
func CheckUDP(ip *IPv4, h *UDP, payload []byte) SumState {
	if h.Sum() == 0 {
		return SumNone
	}
	return CheckTransport(ip, ProtocolUDP, h[:], payload, h.Sum())
}

// CheckDatagram is CheckUDP of a datagram whose header and payload are in one piece, b, at least UDPLen long: one pass over it instead of
// two, a quarter less for one of 64 bytes.
func CheckDatagram(ip *IPv4, b []byte) SumState {
	field := (*UDP)(b).Sum()
	if field == 0 {
		return SumNone
	}
	pseudo := Pseudo(ip.Source(), ip.Target(), ProtocolUDP, uint16(len(b)))
	return sumState(pseudo, pseudo.Add(b), field)
}

// CheckInPacket is CheckDatagram of a datagram in its packet: b begins with the addresses at the end of an IPv4 header without options,
// behind which it lies. The addresses are part of the same pass.
func CheckInPacket(b []byte) SumState {
	n := len(b) - 2*len(Addr{})
	field := (*UDP)(b[2*len(Addr{}):]).Sum()
	if field == 0 {
		return SumNone
	}
	if Sum(0).Add(b).Word(uint16(n)).Word(uint16(ProtocolUDP)).Valid() {
		return SumGood
	}
	if field == uint16(Pseudo(Addr(b[:4]), Addr(b[4:8]), ProtocolUDP, uint16(n))) {
		return SumPartial
	}
	return SumBad
}

// CheckTransport verifies a checksum that covers the pseudo header; field is what the transport header carries in its
// checksum field. It serves UDP and TCP.
//
// A partial sum is recognised by equality with the pseudo header's sum, as Linux leaves it there (CHECKSUM_PARTIAL). A good sum is
// recognised first: the one packet in 65535 for which both hold is good.
func CheckTransport(ip *IPv4, protocol uint8, header, payload []byte, field uint16) SumState {
	pseudo := Pseudo(ip.Source(), ip.Target(), protocol, uint16(len(header)+len(payload)))
	return sumState(pseudo, pseudo.Add(header).Add(payload), field)
}

// sumState decides what a checksum is: whole is the sum over everything, pseudo that of the pseudo header, field the checksum field.
func sumState(pseudo, whole Sum, field uint16) SumState {
	switch {
	case whole.Valid():
		return SumGood
	case field == uint16(pseudo):
		return SumPartial
	}
	return SumBad
}

// UDPFields is a header to write.
type UDPFields struct {
	SourcePort, TargetPort uint16
}

// Append writes header and payload behind b, with the complete sum.
func (f *UDPFields) Append(b []byte, source, target Addr, payload []byte) ([]byte, error) {
	switch {
	case f.TargetPort == 0:
		return b, fmt.Errorf("wire: TargetPort 0")
	case len(payload) > UDPMax:
		return b, fmt.Errorf("wire: payload of %d bytes: up to %d", len(payload), UDPMax)
	}
	at, n := len(b), uint16(UDPLen+len(payload))
	b = binary.BigEndian.AppendUint16(b, f.SourcePort)
	b = binary.BigEndian.AppendUint16(b, f.TargetPort)
	b = binary.BigEndian.AppendUint16(b, n)
	b = append(append(b, 0, 0), payload...)
	binary.BigEndian.PutUint16(b[at+6:], sent(Pseudo(source, target, ProtocolUDP, n).Add(b[at:])))
	return b, nil
}

// sent returns the checksum field that UDP sends: 0 means no checksum, so a computed 0 becomes 0xffff (RFC 768).
func sent(s Sum) uint16 {
	if c := s.Check(); c != 0 {
		return c
	}
	return 0xffff
}
