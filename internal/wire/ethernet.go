package wire

import (
	"encoding/binary"
	"fmt"
)

// Ethernet types.
const (
	TypeIPv4  uint16 = 0x0800
	TypeARP   uint16 = 0x0806
	TypeVLAN  uint16 = 0x8100 // 802.1Q
	TypeQinQ  uint16 = 0x88a8 // 802.1ad
	TypeOldQQ uint16 = 0x9100 // double tags before 802.1ad
)

// EthernetLen is the length of a header without a tag, VLANLen what a tag adds, EthernetMin the shortest frame on a cable
// without its check sequence: shorter ones are padded, and receivers cut the padding by the IPv4 total length.
const (
	EthernetLen = 14
	VLANLen     = 4
	EthernetMin = 60
)

// Ethernet is an Ethernet II header; holding one proves that 14 bytes are there.
type Ethernet [EthernetLen]byte

// Target is the destination address.
func (h *Ethernet) Target() MAC { return MAC(h[0:6]) }

// Source is the source address.
func (h *Ethernet) Source() MAC { return MAC(h[6:12]) }

// Type is the field behind the addresses: TypeVLAN when there is a tag.
func (h *Ethernet) Type() uint16 { return binary.BigEndian.Uint16(h[12:14]) }

// Tag is the control information of an 802.1Q tag; zero when there was none. A priority tag, whose VLAN is 0, means an
// untagged frame with a priority (802.1Q 9.6), so both have VID 0.
type Tag uint16

// VID returns the number of the VLAN, 0 for none.
func (t Tag) VID() uint16 { return uint16(t) & 0xfff }

// Priority is the priority code point, 0 to 7.
func (t Tag) Priority() uint8 { return uint8(t >> 13) }

// Expect returns Accept if the frame belongs to the VLAN vid, 0 being the untagged one; else why it is dropped.
func (t Tag) Expect(vid uint16) Drop {
	if t.VID() != vid {
		return EthernetTag
	}
	return Accept
}

// ParseEthernet reads the header and at most one tag; typ is the type behind the tag. Padding is still in the payload.
func ParseEthernet(frame []byte) (h *Ethernet, tag Tag, typ uint16, payload []byte, d Drop) {
	if len(frame) < EthernetLen {
		return nil, 0, 0, nil, EthernetShort
	}
	h = (*Ethernet)(frame)
	if h[6]&1 != 0 {
		return nil, 0, 0, nil, EthernetSource
	}
	typ, payload = h.Type(), frame[EthernetLen:]
	if typ == TypeIPv4 {
		return h, 0, typ, payload, Accept
	}
	if typ == TypeVLAN {
		if len(payload) < VLANLen {
			return nil, 0, 0, nil, EthernetShortTag
		}
		tag, typ = Tag(binary.BigEndian.Uint16(payload)), binary.BigEndian.Uint16(payload[2:])
		payload = payload[VLANLen:]
		if tag.VID() == 0xfff {
			return nil, 0, 0, nil, EthernetVLAN
		}
	}
	switch {
	case typ == TypeVLAN || typ == TypeQinQ || typ == TypeOldQQ:
		return nil, 0, 0, nil, EthernetQinQ
	case typ < 0x600:
		return nil, 0, 0, nil, EthernetLLC
	}
	return h, tag, typ, payload, Accept
}

// EthernetFields is a header to write. A tag is written when it is not zero.
type EthernetFields struct {
	Target, Source MAC
	Tag            Tag
	Type           uint16
}

// Len is the length of the header.
func (f *EthernetFields) Len() int {
	if f.Tag != 0 {
		return EthernetLen + VLANLen
	}
	return EthernetLen
}

// Append appends the header to b. The payload follows; the link adds padding to EthernetMin.
func (f *EthernetFields) Append(b []byte) []byte {
	b = append(append(b, f.Target[:]...), f.Source[:]...)
	if f.Tag != 0 {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, TypeVLAN), uint16(f.Tag))
	}
	return binary.BigEndian.AppendUint16(b, f.Type)
}

// check reports a field that no frame may carry.
func (f *EthernetFields) check() error {
	switch {
	case f.Source.IsGroup():
		return fmt.Errorf("wire: Source %v is a group address", f.Source)
	case f.Type < 0x600 || f.Type == TypeVLAN || f.Type == TypeQinQ || f.Type == TypeOldQQ:
		return fmt.Errorf("wire: Type %#04x is not an Ethernet II type behind a tag", f.Type)
	case f.Tag.VID() == 0xfff:
		return fmt.Errorf("wire: Tag %#04x: VLAN 4095 is reserved", uint16(f.Tag))
	}
	return nil
}
