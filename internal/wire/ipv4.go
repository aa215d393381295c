package wire

import (
	"encoding/binary"
	"fmt"
)

// Protocols above IPv4.
const (
	ProtocolICMP uint8 = 1
	ProtocolIGMP uint8 = 2
	ProtocolTCP  uint8 = 6
	ProtocolUDP  uint8 = 17
)

// IPv4Len is the length of a header without options, IPv4Max of the longest packet.
const (
	IPv4Len = 20
	IPv4Max = 65535
)

// Bits of the flags and fragment field.
const (
	flagReserved   = 0x8000
	flagDF         = 0x4000
	flagMF         = 0x2000
	fragmentOffset = 0x1fff // in units of 8 bytes
)

// IPv4 is a header (RFC 791) without its options; holding one proves that 20 bytes are there.
type IPv4 [IPv4Len]byte

// HeaderLen is the length of the header with options, in bytes.
func (h *IPv4) HeaderLen() int { return int(h[0]&0xf) * 4 }

// TOS is the former type of service: DSCP and ECN.
func (h *IPv4) TOS() uint8 { return h[1] }

// TotalLen is the length of header and payload.
func (h *IPv4) TotalLen() int { return int(binary.BigEndian.Uint16(h[2:4])) }

// ID is the identification, meaningful for fragments only (RFC 6864).
func (h *IPv4) ID() uint16 { return binary.BigEndian.Uint16(h[4:6]) }

// DontFragment and MoreFragments are the flags; Offset is where a fragment's payload belongs, in bytes.
func (h *IPv4) DontFragment() bool  { return h[6]&(flagDF>>8) != 0 }
func (h *IPv4) MoreFragments() bool { return h[6]&(flagMF>>8) != 0 }
func (h *IPv4) Offset() int         { return int(h.fragment()&fragmentOffset) * 8 }

// IsFragment reports whether the packet is a fragment: it has an offset, or more fragments follow.
func (h *IPv4) IsFragment() bool { return h.fragment()&(flagMF|fragmentOffset) != 0 }

// TTL is the time to live.
func (h *IPv4) TTL() uint8 { return h[8] }

// Protocol is what the payload is.
func (h *IPv4) Protocol() uint8 { return h[9] }

// Sum is the header checksum field.
func (h *IPv4) Sum() uint16 { return binary.BigEndian.Uint16(h[10:12]) }

// Source is the source address.
func (h *IPv4) Source() Addr { return Addr(h[12:16]) }

// Target is the destination address.
func (h *IPv4) Target() Addr { return Addr(h[16:20]) }

func (h *IPv4) fragment() uint16 { return binary.BigEndian.Uint16(h[6:8]) }

// ParseIPv4 reads a packet and checks everything that can be checked without knowing the host: version, lengths, header checksum, TTL, flags,
// fragment arithmetic, options. The payload is cut to the total length, which removes Ethernet's padding. Addresses checks the addresses.
func ParseIPv4(b []byte) (h *IPv4, options, payload []byte, d Drop) {
	if len(b) < IPv4Len {
		return nil, nil, nil, IPv4Short
	}
	h = (*IPv4)(b)
	if h[0] != 0x45 {
		if d = lengthsIPv4(b); d != Accept {
			return nil, nil, nil, d
		}
	}
	header, total := h.HeaderLen(), h.TotalLen()
	if total < header || total > len(b) {
		switch {
		case total == 0:
			return nil, nil, nil, IPv4TotalZero
		case total < header:
			return nil, nil, nil, IPv4TotalShort
		}
		return nil, nil, nil, IPv4TotalLong
	}
	sum := Sum(0).AddIPv4(h)
	if header > IPv4Len {
		options = b[IPv4Len:header:header]
		sum = sum.Add(options)
	}
	if !sum.Valid() {
		return nil, nil, nil, IPv4Sum
	}
	if h.TTL() == 0 {
		return nil, nil, nil, IPv4TTL
	}
	payload = b[header:total:total]
	if f := h.fragment(); f&^flagDF != 0 {
		if d = checkFragment(f, h.Protocol(), len(payload)); d != Accept {
			return nil, nil, nil, d
		}
	}
	if options != nil {
		if d = walkOptions(options); d != Accept {
			return nil, nil, nil, d
		}
	}
	return h, options, payload, Accept
}

// lengthsIPv4 returns why a packet is dropped whose first byte is not that of IPv4 without options, or Accept.
func lengthsIPv4(b []byte) Drop {
	switch header := int(b[0]&0xf) * 4; {
	case b[0]>>4 != 4:
		return IPv4Version
	case header < IPv4Len || header > len(b):
		return IPv4HeaderLength
	}
	return Accept
}

// checkFragment returns why flags, offset and length of a fragment cannot be; Accept if they can.
func checkFragment(f uint16, protocol uint8, length int) Drop {
	more, offset := f&flagMF != 0, int(f&fragmentOffset)*8
	switch {
	case f&flagReserved != 0:
		return IPv4ReservedFlag
	case more && f&flagDF != 0:
		return IPv4DFMF
	case offset+length > IPv4Max-IPv4Len: // the whole would be longer than a packet can be (ping of death)
		return IPv4FragmentEnd
	case more && (length%8 != 0 || length == 0):
		return IPv4FragmentSize
	case more && offset == 0 && length < tinyFragment(protocol):
		return IPv4FragmentTiny
	case offset == 8 && protocol == ProtocolTCP:
		return IPv4FragmentTCP
	}
	return Accept
}

// tinyFragment is the least a first fragment must hold: TCP's ports and flags (RFC 1858 3.2.1), everybody else's 8 bytes.
func tinyFragment(protocol uint8) int {
	if protocol == ProtocolTCP {
		return 16
	}
	return 8
}

// Options of IPv4.
const (
	optionEnd    = 0
	optionNop    = 1
	optionLoose  = 131 // loose source and record route
	optionStrict = 137 // strict source and record route
)

// walkOptions checks that the options are well formed and route nothing; what else they say is ignored.
func walkOptions(b []byte) Drop {
	for len(b) > 0 {
		switch b[0] {
		case optionEnd:
			return Accept
		case optionNop:
			b = b[1:]
			continue
		}
		switch {
		case len(b) < 2:
			return IPv4OptionOverrun
		case b[1] < 2:
			return IPv4OptionLength
		case int(b[1]) > len(b):
			return IPv4OptionOverrun
		case b[0] == optionLoose || b[0] == optionStrict:
			return IPv4SourceRoute
		}
		b = b[b[1]:]
	}
	return Accept
}

// Addresses checks what the addresses show by themselves (RFC 1122 3.2.1.3, RFC 6890). loopback says that the packet came
// over the loopback interface, where 127/8 and talking to oneself are legal. group says that the frame was addressed to
// a link-layer group; then a unicast destination is refused (RFC 1122 3.3.6). A subnet's broadcast address looks like
// unicast here: a caller that knows the packet's destination to be one passes false.
//
// IGMP alone may come from 0.0.0.0: snooping switches query so (RFC 4541 2.1.1).
func (h *IPv4) Addresses(loopback, group bool) Drop {
	source, target := h.Source(), h.Target()
	switch {
	case source[0] == 0:
		if h.Protocol() != ProtocolIGMP || !source.IsZero() {
			return IPv4SourceZero
		}
	case source.IsLoopback():
		if !loopback {
			return IPv4SourceLoopback
		}
	case source.IsMulticast():
		return IPv4SourceMulticast
	case source.IsReserved():
		return IPv4SourceBroadcast
	}
	switch {
	case target[0] == 0:
		return IPv4TargetZero
	case target.IsLoopback():
		if !loopback {
			return IPv4TargetLoopback
		}
	case target.IsReserved() && !target.IsBroadcast():
		return IPv4TargetReserved
	case source == target && !loopback:
		return IPv4Land
	}
	if group && !target.IsMulticast() && !target.IsBroadcast() {
		return IPv4LinkMulticast
	}
	return Accept
}

// IPv4Fields is a header to write.
type IPv4Fields struct {
	TOS            uint8
	ID             uint16
	DontFragment   bool
	MoreFragments  bool
	Offset         int // of a fragment, in bytes; a multiple of 8
	TTL, Protocol  uint8
	Source, Target Addr
	Options        []byte // a multiple of 4 bytes, 40 at most
}

// RouterAlert is the option that IGMP packets carry (RFC 2113).
var RouterAlert = [4]byte{0x94, 4, 0, 0}

// Append writes the header of a packet with payload bytes behind it; the payload follows.
func (f *IPv4Fields) Append(b []byte, payload int) ([]byte, error) {
	total := IPv4Len + len(f.Options) + payload
	switch {
	case len(f.Options) > 40 || len(f.Options)%4 != 0:
		return b, fmt.Errorf("wire: Options of %d bytes: up to 40 in fours", len(f.Options))
	case f.Offset < 0 || f.Offset%8 != 0 || f.Offset > fragmentOffset*8:
		return b, fmt.Errorf("wire: Offset %d: a multiple of 8 up to %d", f.Offset, fragmentOffset*8)
	case payload < 0 || total > IPv4Max:
		return b, fmt.Errorf("wire: payload of %d bytes: the packet would be %d long", payload, total)
	}
	fragment := uint16(f.Offset / 8)
	if f.DontFragment {
		fragment |= flagDF
	}
	if f.MoreFragments {
		fragment |= flagMF
	}
	at := len(b)
	b = append(b, 0x40|byte((IPv4Len+len(f.Options))/4), f.TOS)
	b = binary.BigEndian.AppendUint16(b, uint16(total))
	b = binary.BigEndian.AppendUint16(b, f.ID)
	b = binary.BigEndian.AppendUint16(b, fragment)
	b = append(b, f.TTL, f.Protocol, 0, 0)
	b = append(append(append(b, f.Source[:]...), f.Target[:]...), f.Options...)
	binary.BigEndian.PutUint16(b[at+10:], Sum(0).Add(b[at:]).Check())
	return b, nil
}
