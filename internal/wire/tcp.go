package wire

import (
	"encoding/binary"
	"fmt"
)

// TCPLen is the length of a TCP header without options; TCPOptionsMax is how many bytes of options fit behind it.
const (
	TCPLen        = 20
	TCPOptionsMax = 40
)

// TCPFlags are the control bits of a header (RFC 9293 section 3.1); AE is the ninth (RFC 9768).
type TCPFlags uint16

// The flags.
const (
	TCPFin TCPFlags = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
	TCPUrg
	TCPEce
	TCPCwr
	TCPAe
	tcpFlags = TCPAe<<1 - 1
)

// String names the flags with tcpdump's letters: "S.", "P.", "R"; "-" for none.
func (f TCPFlags) String() string {
	var b []byte
	for i, letter := range "FSRPUEWe" {
		if bit := [...]TCPFlags{TCPFin, TCPSyn, TCPRst, TCPPsh, TCPUrg, TCPEce, TCPCwr, TCPAe}[i]; f&bit != 0 {
			b = append(b, byte(letter))
		}
	}
	if f&TCPAck != 0 {
		b = append(b, '.')
	}
	if len(b) == 0 {
		return "-"
	}
	return string(b)
}

// TCP is a header without its options (RFC 9293 section 3.1); holding one proves that 20 bytes are there.
//
//	0              4          8          12            14       16       18       20
//	| source target | sequence | acknow-  | length flags | window | sum    | urgent | options
//	| port   port   | number   | ledgment |  4 bits  12  |        |        |        |
type TCP [TCPLen]byte

// SourcePort is the sender's port.
func (h *TCP) SourcePort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// TargetPort is the port it is for.
func (h *TCP) TargetPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Seq is the sequence number of the first byte, or of the SYN.
func (h *TCP) Seq() uint32 { return binary.BigEndian.Uint32(h[4:8]) }

// Ack is the next sequence number that the sender expects, if TCPAck is set.
func (h *TCP) Ack() uint32 { return binary.BigEndian.Uint32(h[8:12]) }

// HeaderLen is the length of the header with its options.
func (h *TCP) HeaderLen() int { return int(h[12]>>4) * 4 }

// Flags are the control bits.
func (h *TCP) Flags() TCPFlags { return TCPFlags(binary.BigEndian.Uint16(h[12:14])) & tcpFlags }

// Window is the window field, not scaled.
func (h *TCP) Window() uint16 { return binary.BigEndian.Uint16(h[14:16]) }

// Sum is the checksum field.
func (h *TCP) Sum() uint16 { return binary.BigEndian.Uint16(h[16:18]) }

// Urgent is the urgent pointer, if TCPUrg is set.
func (h *TCP) Urgent() uint16 { return binary.BigEndian.Uint16(h[18:20]) }

// ParseTCP reads the payload of an IPv4 packet that is not a fragment. The checksum is checked apart, by CheckTCP, because a partial one is
// the interface's question.
func ParseTCP(b []byte) (h *TCP, options, payload []byte, d Drop) {
	if len(b) < TCPLen {
		return nil, nil, nil, TCPShort
	}
	h = (*TCP)(b)
	n := h.HeaderLen()
	switch {
	case n < TCPLen:
		return nil, nil, nil, TCPOffset
	case n > len(b):
		return nil, nil, nil, TCPLong
	case h.SourcePort() == 0 || h.TargetPort() == 0:
		return nil, nil, nil, TCPPort
	}
	return h, b[TCPLen:n:n], b[n:len(b):len(b)], Accept
}

// CheckTCP verifies the checksum of a segment, b, at least TCPLen long: header, options and payload in one piece. TCP's checksum is never
// absent (RFC 9293 MUST-2, MUST-3), so SumNone is not among the answers.
func CheckTCP(ip *IPv4, b []byte) SumState {
	pseudo := Pseudo(ip.Source(), ip.Target(), ProtocolTCP, uint16(len(b)))
	return sumState(pseudo, pseudo.Add(b), (*TCP)(b).Sum())
}

// TCPFields is a header to write.
type TCPFields struct {
	SourcePort, TargetPort uint16
	Seq, Ack               uint32
	Window, Urgent         uint16
	Flags                  TCPFlags
	Options                TCPOptions
	// RawOptions stands in the place of Options unless it is nil: for options that this package does not know, and for bad ones. Its length is
	// a multiple of 4, at most TCPOptionsMax.
	RawOptions []byte
}

// HeaderLen is the length of the header with its options.
func (f *TCPFields) HeaderLen() int {
	if f.RawOptions != nil {
		return TCPLen + len(f.RawOptions)
	}
	return TCPLen + f.Options.Len()
}

// Put writes the header at the start of segment, which is HeaderLen long or longer. pseudo is the sum of the pseudo header for the whole
// length (IPv4Template.Pseudo), payload that of all that follows the header.
func (f *TCPFields) Put(segment []byte, pseudo, payload Sum) {
	n := f.HeaderLen()
	b := segment[:n]
	binary.BigEndian.PutUint16(b[0:], f.SourcePort)
	binary.BigEndian.PutUint16(b[2:], f.TargetPort)
	binary.BigEndian.PutUint32(b[4:], f.Seq)
	binary.BigEndian.PutUint32(b[8:], f.Ack)
	binary.BigEndian.PutUint16(b[12:], uint16(n/4)<<12|uint16(f.Flags&tcpFlags))
	binary.BigEndian.PutUint16(b[14:], f.Window)
	binary.BigEndian.PutUint32(b[16:], uint32(f.Urgent)) // and the sum, zero while it is computed
	if f.RawOptions != nil {
		copy(b[TCPLen:], f.RawOptions)
	} else if n > TCPLen {
		f.Options.Put(b[TCPLen:])
	}
	binary.BigEndian.PutUint16(b[16:], pseudo.Add(b).Plus(payload).Check())
}

// Append writes header and payload behind b, with the complete sum.
func (f *TCPFields) Append(b []byte, source, target Addr, payload []byte) ([]byte, error) {
	n := f.HeaderLen()
	switch {
	case n > TCPLen+TCPOptionsMax || n%4 != 0:
		return b, fmt.Errorf("wire: TCP options of %d bytes: up to %d in fours", n-TCPLen, TCPOptionsMax)
	case n+len(payload) > IPv4Max-IPv4Len:
		return b, fmt.Errorf("wire: payload of %d bytes: up to %d", len(payload), IPv4Max-IPv4Len-n)
	}
	at := len(b)
	b = append(b, make([]byte, n)...)
	b = append(b, payload...)
	f.Put(b[at:], Pseudo(source, target, ProtocolTCP, uint16(n+len(payload))), Sum(0).Add(payload))
	return b, nil
}
