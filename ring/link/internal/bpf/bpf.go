// Package bpf is what the programs that the library loads into the kernel have in common: how they are written down, and how their
// counters are read. The steering program is in package xdp, the guard behind it in package guard.
package bpf

import (
	"encoding/binary"
	"math/bits"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Code is a program that is being written. Its zero value is empty.
type Code struct{ Instructions asm.Instructions }

// Emit appends instructions.
func (c *Code) Emit(i ...asm.Instruction) { c.Instructions = append(c.Instructions, i...) }

// Label appends an instruction that jumps find by name.
func (c *Code) Label(name string, i asm.Instruction) { c.Emit(i.WithSymbol(name)) }

// Wire16 is a number of 16 bits as a program loads it from a packet: big-endian bytes in the machine's own order.
func Wire16(v uint16) int32 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return int32(v)
	}
	return int32(bits.ReverseBytes16(v))
}

// Counters appends the counters of a map of the kind PerCPUArray, each the sum over all processors. names[i] is the one with the index i; one
// that cannot be read is left out.
func Counters(dst []link.Counter, counts *ebpf.Map, names []string) []link.Counter {
	for i, name := range names {
		var perCPU []uint64
		if err := counts.Lookup(uint32(i), &perCPU); err != nil {
			continue
		}
		var sum uint64
		for _, n := range perCPU {
			sum += n
		}
		dst = append(dst, link.Counter{Name: name, Value: sum})
	}
	return dst
}
