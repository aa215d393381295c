package packetdrill

import "encoding/binary"

// AppendOptions appends options as they are, padded with zeros to a multiple of four bytes.
func AppendOptions(b []byte, list []Option) []byte {
	begin := len(b)
	for _, o := range list {
		switch o.Kind {
		case OptionEnd, OptionNop:
			b = append(b, o.Kind)
		case OptionMSS:
			b = binary.BigEndian.AppendUint16(append(b, o.Kind, 4), uint16(o.Value))
		case OptionWindowScale:
			b = append(b, o.Kind, 3, byte(o.Value))
		case OptionSACKPermitted:
			b = append(b, o.Kind, 2)
		case OptionSACK:
			b = append(b, o.Kind, byte(2+8*len(o.Blocks)))
			for _, x := range o.Blocks {
				b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, x[0]), x[1])
			}
		case OptionTimestamps:
			b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(append(b, o.Kind, 10), o.Val), o.Ecr)
		default:
			b = append(b, o.Raw...)
		}
	}
	for (len(b)-begin)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// ParseOptions reads the options of a segment that left. ok is false where the list is not well formed: what stands in the place of the
// padding then is a raw option.
func ParseOptions(b []byte) (list []Option, ok bool) {
	for len(b) > 0 {
		if b[0] == OptionEnd {
			for _, x := range b {
				if x != 0 { // RFC 9293 section 3.1: padding is zeros
					return list, false
				}
			}
			return append(list, Option{Kind: OptionEnd}), true
		}
		if b[0] == OptionNop {
			list, b = append(list, Option{Kind: OptionNop}), b[1:]
			continue
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			return append(list, Option{Kind: OptionRaw, Raw: b}), false
		}
		o, data := Option{Kind: b[0]}, b[2:b[1]]
		switch {
		case o.Kind == OptionMSS && len(data) == 2:
			o.Value = uint32(binary.BigEndian.Uint16(data))
		case o.Kind == OptionWindowScale && len(data) == 1:
			o.Value = uint32(data[0])
		case o.Kind == OptionSACKPermitted && len(data) == 0:
		case o.Kind == OptionTimestamps && len(data) == 8:
			o.Val, o.Ecr = binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
		case o.Kind == OptionSACK && len(data)%8 == 0:
			for i := 0; i < len(data); i += 8 {
				o.Blocks = append(o.Blocks, [2]uint32{binary.BigEndian.Uint32(data[i:]), binary.BigEndian.Uint32(data[i+4:])})
			}
		default:
			o.Kind, o.Raw = OptionRaw, b[:b[1]]
		}
		list, b = append(list, o), b[b[1]:]
	}
	return list, true
}
