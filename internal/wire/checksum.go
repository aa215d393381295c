package wire

import (
	"encoding/binary"
	"math/bits"
)

// Sum is a one's complement sum of 16-bit words in network order, not complemented (RFC 1071). The zero Sum is that of no
// bytes. Only the last piece of what is summed may have an odd length.
type Sum uint16

// Add returns the sum with the bytes of b added.
//
// The bytes are read as little-endian words of eight and added with carry, 32 a round; a one's complement sum does not care
// for byte order but at the end (RFC 1071 2(B)), so one swap replaces four.
func (s Sum) Add(b []byte) Sum {
	var sum, carry uint64
	for len(b) >= 32 {
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[8:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[16:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 8 {
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b), carry)
		b = b[8:]
	}
	var tail uint64
	if len(b) >= 4 {
		tail = uint64(binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		tail += uint64(binary.LittleEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		tail += uint64(b[0]) // RFC 1071: padded with a zero byte, which is the high one here
	}
	sum, carry = bits.Add64(sum, tail, carry)
	sum += carry // cannot carry again: a sum that just did is small
	return s.Plus(Sum(bits.ReverseBytes16(fold(sum))))
}

// AddIPv4 returns the sum with the 20 bytes of a header without options added.
func (s Sum) AddIPv4(h *IPv4) Sum {
	sum, carry := bits.Add64(binary.LittleEndian.Uint64(h[0:8]), binary.LittleEndian.Uint64(h[8:16]), 0)
	sum, carry = bits.Add64(sum, uint64(binary.LittleEndian.Uint32(h[16:20])), carry)
	return s.Plus(Sum(bits.ReverseBytes16(fold(sum + carry))))
}

// Plus joins two sums.
func (s Sum) Plus(t Sum) Sum {
	n := uint32(s) + uint32(t)
	return Sum(n + n>>16)
}

// Word returns the sum with one 16-bit word added.
func (s Sum) Word(w uint16) Sum { return s.Plus(Sum(w)) }

// Check is the checksum field that makes the whole valid.
func (s Sum) Check() uint16 { return ^uint16(s) }

// Valid reports whether the bytes summed, which include the checksum field, are intact.
func (s Sum) Valid() bool { return s == 0xffff }

// Pseudo is the sum of the pseudo header of UDP and TCP: addresses, protocol, and the length of transport header and payload.
func Pseudo(source, target Addr, protocol uint8, length uint16) Sum {
	n := uint32(source[0])<<8 + uint32(source[1]) + uint32(source[2])<<8 + uint32(source[3]) +
		uint32(target[0])<<8 + uint32(target[1]) + uint32(target[2])<<8 + uint32(target[3]) +
		uint32(protocol) + uint32(length)
	n = n&0xffff + n>>16
	return Sum(n + n>>16)
}

// Update16 is the checksum field after a 16-bit word under it changed (RFC 1624, equation 3).
func Update16(check, was, is uint16) uint16 {
	return Sum(^check).Word(^was).Word(is).Check()
}

// Update32 is the checksum field after a 32-bit word under it, aligned to 16 bits, changed: an address.
func Update32(check uint16, was, is uint32) uint16 {
	return Update16(Update16(check, uint16(was>>16), uint16(is>>16)), uint16(was), uint16(is))
}

// fold brings a 64-bit one's complement sum down to 16 bits.
func fold(sum uint64) uint16 {
	sum = sum&0xffffffff + sum>>32
	sum = sum&0xffff + sum>>16&0xffff + sum>>32
	sum = sum&0xffff + sum>>16
	return uint16(sum + sum>>16)
}
