package udp

import "github.com/socketxtreme/socketxtreme/internal/wire"

// Policy says what is done with a datagram whose checksum is not right. The sum is always computed: 6 ns for 64 bytes.
type Policy uint8

// The policies.
const (
	// Strict: a wrong sum is dropped, and so is one that is only the pseudo header's.
	Strict Policy = iota
	// AcceptPartial: a sum that is only the pseudo header's is taken for right. Such datagrams come from a kernel on this very
	// machine over veth or tap, which leaves the sum to a card that the datagram never sees; they were not on any cable.
	AcceptPartial
	// Off: nothing is checked.
	Off
)

// String is the policy as options name it.
func (p Policy) String() string { return [...]string{"strict", "accept-partial", "off"}[min(p, 2)] }

// Parse reads the payload of an IPv4 packet that is not a fragment: lengths, port, checksum. partial tells that the sum was
// only the pseudo header's and was accepted.
func Parse(ip *wire.IPv4, b []byte, p Policy) (h *wire.UDP, payload []byte, partial bool, d wire.Drop) {
	h, payload, d = wire.ParseUDP(b)
	if d != wire.Accept || p == Off {
		return h, payload, false, d
	}
	switch wire.CheckDatagram(ip, b[:wire.UDPLen+len(payload)]) {
	case wire.SumGood, wire.SumNone:
		return h, payload, false, wire.Accept
	case wire.SumPartial:
		if p == AcceptPartial {
			return h, payload, true, wire.Accept
		}
		return nil, nil, false, wire.UDPPartial
	}
	return nil, nil, false, wire.UDPSum
}
