package wire

import "encoding/binary"

// Operations of ARP.
const (
	ARPRequest uint16 = 1
	ARPReply   uint16 = 2
)

// ARPLen is the length of an ARP packet for IPv4 over Ethernet.
const ARPLen = 28

// ARP is a packet of IPv4 over Ethernet (RFC 826); holding one proves that 28 bytes are there and are of that kind.
type ARP [ARPLen]byte

// Operation is ARPRequest or ARPReply.
func (a *ARP) Operation() uint16 { return binary.BigEndian.Uint16(a[6:8]) }

// SenderMAC and SenderAddr are the binding that the packet states.
func (a *ARP) SenderMAC() MAC   { return MAC(a[8:14]) }
func (a *ARP) SenderAddr() Addr { return Addr(a[14:18]) }

// TargetMAC is meaningless in a request; TargetAddr is who is asked, or to whom is replied.
func (a *ARP) TargetMAC() MAC   { return MAC(a[18:24]) }
func (a *ARP) TargetAddr() Addr { return Addr(a[24:28]) }

// IsProbe reports whether the sender has no address yet (RFC 5227 1.1): it states no binding.
func (a *ARP) IsProbe() bool { return a.SenderAddr().IsZero() }

// IsGratuitous reports whether the sender speaks of itself: an announcement, which updates known entries only.
func (a *ARP) IsGratuitous() bool { return a.SenderAddr() == a.TargetAddr() }

// ParseARP reads the payload of an Ethernet frame that came from source. Padding behind the packet is ignored.
func ParseARP(b []byte, source MAC) (*ARP, Drop) {
	if len(b) < ARPLen {
		return nil, ARPShort
	}
	a := (*ARP)(b)
	sender := a.SenderAddr()
	switch {
	case binary.BigEndian.Uint16(a[0:2]) != 1 || a[4] != 6:
		return nil, ARPHardware
	case binary.BigEndian.Uint16(a[2:4]) != TypeIPv4 || a[5] != 4:
		return nil, ARPProtocol
	case a.Operation() != ARPRequest && a.Operation() != ARPReply:
		return nil, ARPOperation
	case a.SenderMAC().IsGroup() || a.SenderMAC().IsZero():
		return nil, ARPSender
	case a.SenderMAC() != source:
		// Legal where somebody answers for others; such an answer is the classic forgery, and our own ARP runs only on
		// links between stacks, where nobody has reason to.
		return nil, ARPSpoofed
	case sender.IsMulticast() || sender.IsReserved() || sender.IsLoopback():
		return nil, ARPAddress
	}
	return a, Accept
}

// ARPFields is a packet to write.
type ARPFields struct {
	Operation  uint16
	SenderMAC  MAC
	SenderAddr Addr
	TargetMAC  MAC // zero in a request
	TargetAddr Addr
}

// Append writes the packet behind b.
func (f *ARPFields) Append(b []byte) []byte {
	b = append(b, 0, 1, byte(TypeIPv4>>8), byte(TypeIPv4&0xff), 6, 4)
	b = binary.BigEndian.AppendUint16(b, f.Operation)
	b = append(append(b, f.SenderMAC[:]...), f.SenderAddr[:]...)
	return append(append(b, f.TargetMAC[:]...), f.TargetAddr[:]...)
}
