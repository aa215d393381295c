package xdp

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"
)

// front is what the program reads before it looks into the flow map, in one place that it need not hash for: which kinds of entry there are,
// and a small table of some entries. All flows whose local ports end with the same six bits share a slot; the first of them has it until it
// is released. The flow map has all entries, those of the slots too.
//
//	| kinds |  -  |  -  |  -  | slot 0: a key | slot 1 | … | slot 63 |
//
// A slot is filled only when it is empty, and emptied when its entry goes. A program that reads it meanwhile sees a part of one key and zeros,
// which no packet matches: its address, port and protocol are not 0.
type front struct {
	kinds entryKind
	slots [frontSlots]key
}

const (
	frontSlots = 64
	frontKeys  = 16 // where the slots begin
	frontBytes = frontKeys + frontSlots*keyBytes
)

// isInFront reports whether entries of the kind may lie in slots: those that the words of a frame alone decide. Behind a wildcard the address
// is looked up too, and an entry for one source of a group is for all its ports.
func (k entryKind) isInFront() bool {
	return k&(kindConnected|kindBound|kindGroupConnected|kindGroup) != 0
}

func (k *key) slot() int { return int(k[keyDstPort+1]) % frontSlots }

// add puts an entry into its slot, if that is empty, and reports whether it did.
func (f *front) add(k key) bool {
	s := &f.slots[k.slot()]
	if !k.kind().isInFront() || *s != (key{}) {
		return false
	}
	*s = k
	return true
}

// remove empties the slot of an entry, if it has one, and reports whether it had.
func (f *front) remove(k key) bool {
	s := &f.slots[k.slot()]
	if !k.kind().isInFront() || *s != k {
		return false
	}
	*s = key{}
	return true
}

// bytes is the front as the program reads it.
func (f *front) bytes() []byte {
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, frontBytes), uint32(f.kinds))
	b = append(b, make([]byte, frontKeys-len(b))...)
	for i := range f.slots {
		b = append(b, f.slots[i][:]...)
	}
	return b
}

// front emits the comparison of the frame's key with the slot of its local port: equal goes to "hit", anything else to "lookups". R4 holds both
// ports, regFront the front. R1 to R5 are lost.
func (a *assembler) front() {
	a.Emit(asm.Mov.Reg(asm.R5, asm.R4))
	if !bigEndian {
		a.Emit(asm.RSh.Imm(asm.R5, 24)) // the last byte of the two ports is the lowest one of the second
	}
	slot := func(at int16) int16 { return frontKeys + at }
	a.Emit(
		asm.And.Imm(asm.R5, frontSlots-1),
		asm.LSh.Imm(asm.R5, 4), // keyBytes
		asm.Add.Reg(asm.R5, regFront),
		asm.LoadMem(asm.R2, asm.R5, slot(keyDst), asm.Word),
		asm.LoadMem(asm.R3, asm.RFP, stackKey+keyDst, asm.Word),
		asm.JNE.Reg(asm.R2, asm.R3, "lookups"),
		asm.LoadMem(asm.R2, asm.R5, slot(keyProtocol), asm.Word),
		asm.LoadMem(asm.R3, asm.RFP, stackKey+keyProtocol, asm.Word),
		asm.JNE.Reg(asm.R2, asm.R3, "lookups"),
		asm.LoadMem(asm.R2, asm.R5, slot(keySrc), asm.Word),
		asm.LoadMem(asm.R3, asm.R5, slot(keyPorts), asm.Word),
		asm.JEq.Imm(asm.R2, 0, "any_peer"),
		asm.LoadMem(asm.R1, asm.RFP, stackKey+keySrc, asm.Word),
		asm.JNE.Reg(asm.R2, asm.R1, "lookups"),
		asm.JEq.Reg(asm.R3, asm.R4, "hit"),
		asm.Ja.Label("lookups"),
	)
	a.Label("any_peer", asm.And.Imm(asm.R4, halfMask(1)))
	a.Emit(asm.JEq.Reg(asm.R3, asm.R4, "hit"))
}
