package guard

import (
	"github.com/cilium/ebpf/asm"

	"github.com/socketxtreme/socketxtreme/ring/link/internal/bpf"
)

// Verdicts of a program behind the driver (enum tcx_action_base). Next lets the programs behind this one decide; a filter of a clsact qdisc
// returns the same number for that (TC_ACT_UNSPEC).
const (
	tcNext = -1
	tcDrop = 2
)

// count is an index of the program's counters. A segment for which there is an entry increments one of them.
type count int32

const (
	countSegment  count = iota // dropped: of a claimed connection, or of a claimed port without a connection of the kernel's
	countSYN                   // dropped: to a claimed port, before the time of AcceptAfter
	countFragment              // dropped: the first fragment of such a segment
	countKernel                // passed: of a connection of the kernel's
	countAccept                // passed: a SYN, after that time
	countStale                 // passed without a look: the process has not renewed its time for a second
	numCounts
)

var countNames = [numCounts]string{"guard.segment", "guard.syn", "guard.fragment", "guard.kernel", "guard.accept", "guard.stale"}

// What the program keeps in registers over calls (R1 to R5 are lost in each).
const (
	regContext = asm.R6
	regKinds   = asm.R7 // the kinds of entry there are; behind the lookups: where the TCP header begins
	regStart   = asm.R8 // where the TCP header begins, from the network header
	regMore    = asm.R9 // not zero: more fragments follow
)

// Offsets in struct __sk_buff, struct bpf_sock and of TCP's states.
const (
	skbProtocol    = 16
	skbVLANPresent = 20
	skbVLAN        = 24
	sockState      = 72
	stateListen    = 10
	loadFromNet    = 1 // BPF_HDR_START_NET
	tupleIPv4      = 12
)

// Places on the stack.
const (
	stackKey   = -keyBytes
	stackLocal = stackKey - keyBytes
	stackTuple = stackLocal - 16 // struct bpf_sock_tuple: both addresses, both ports
	stackIP    = stackTuple - 24 // the IPv4 header without options
	stackFlags = stackIP - 8
	stackCount = stackFlags - 8
)

// staleAfter is how old the time of a live process may be, in nanoseconds.
const staleAfter = 1_000_000_000

// parameters are what the program is assembled from.
type parameters struct {
	entries, kinds, counts int // descriptors of the maps
	beat                   int // of the map with the time that the process renews; 0: the program goes with the process
}

// assemble writes the guard. It never changes a packet, and what has no entry goes on untouched.
func assemble(p parameters) asm.Instructions {
	a := &assembler{parameters: p}
	a.liveness()
	a.headers()
	a.lookups()
	a.port()
	a.leave()
	return a.Instructions
}

type assembler struct {
	parameters
	bpf.Code
}

// liveness emits the program's entry. For a filter that outlives its process it also emits the test of the time that the process renews: if
// that time is too old, everything is passed. Until headers sets it, regKinds is free: it holds that time over the call.
func (a *assembler) liveness() {
	a.Emit(asm.Mov.Reg(regContext, asm.R1))
	if a.beat == 0 {
		return
	}
	a.Emit(
		asm.LoadMapValue(asm.R1, a.beat, 0),
		asm.LoadMem(regKinds, asm.R1, 0, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.Sub.Reg(asm.R0, regKinds),
		asm.Mov.Imm(asm.R1, int32(countStale)),
		asm.JSGT.Imm(asm.R0, staleAfter, "pass"),
	)
}

// load emits a copy of n bytes to the stack, from the offset in R2 behind the start of the IPv4 header. Behind it R0 is not 0 if the packet
// has fewer.
func (a *assembler) load(place, n int32) {
	a.Emit(
		asm.Mov.Reg(asm.R1, regContext),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, place),
		asm.Mov.Imm(asm.R4, n),
		asm.Mov.Imm(asm.R5, loadFromNet),
		asm.FnSkbLoadBytesRelative.Call(),
	)
}

// headers emits the parsing of the packet. It writes the connection's key and the tuple for bpf_skc_lookup_tcp to the stack, and sets
// regKinds, regStart and regMore. What is not TCP in IPv4, and all when the map has no entry, goes to "next".
func (a *assembler) headers() {
	a.Emit(
		asm.LoadMem(asm.R2, regContext, skbProtocol, asm.Word),
		asm.JNE.Imm(asm.R2, bpf.Wire16(0x0800), "next"),
		asm.LoadMapValue(regKinds, a.kinds, 0),
		asm.LoadMem(regKinds, regKinds, 0, asm.Word),
		asm.JEq.Imm(regKinds, 0, "next"),
		asm.Mov.Imm(asm.R2, 0),
	)
	a.load(stackIP, 20)
	a.Emit(
		asm.JNE.Imm(asm.R0, 0, "next"),
		asm.LoadMem(asm.R2, asm.RFP, stackIP+9, asm.Byte),
		asm.JNE.Imm(asm.R2, 6, "next"), // TCP
		asm.LoadMem(regMore, asm.RFP, stackIP+6, asm.Half),
		asm.Mov.Reg(asm.R2, regMore),
		asm.And.Imm(asm.R2, bpf.Wire16(0x1fff)), // a later fragment: it has no ports, and is nothing without the first one
		asm.JNE.Imm(asm.R2, 0, "next"),
		asm.And.Imm(regMore, bpf.Wire16(0x2000)),
		asm.LoadMem(regStart, asm.RFP, stackIP, asm.Byte),
		asm.And.Imm(regStart, 15),
		asm.LSh.Imm(regStart, 2),
		asm.Mov.Reg(asm.R2, regStart),
	)
	a.load(stackKey+keyPorts, 4)
	a.Emit(
		asm.JNE.Imm(asm.R0, 0, "next"),
		asm.LoadMem(asm.R2, asm.RFP, stackIP+12, asm.Word),
		asm.StoreMem(asm.RFP, stackKey+keySrc, asm.R2, asm.Word),
		asm.StoreMem(asm.RFP, stackTuple, asm.R2, asm.Word),
		asm.LoadMem(asm.R2, asm.RFP, stackIP+16, asm.Word),
		asm.StoreMem(asm.RFP, stackKey+keyDst, asm.R2, asm.Word),
		asm.StoreMem(asm.RFP, stackTuple+4, asm.R2, asm.Word),
		asm.LoadMem(asm.R2, asm.RFP, stackKey+keyPorts, asm.Word),
		asm.StoreMem(asm.RFP, stackTuple+8, asm.R2, asm.Word),
		// The kernel has taken a tag out of the frame before it runs the guard.
		asm.Mov.Imm(asm.R2, 0),
		asm.LoadMem(asm.R3, regContext, skbVLANPresent, asm.Word),
		asm.JEq.Imm(asm.R3, 0, "untagged"),
		asm.LoadMem(asm.R2, regContext, skbVLAN, asm.Word),
		asm.And.Imm(asm.R2, 0x0fff),
	)
	a.Label("untagged", asm.StoreMem(asm.RFP, stackKey+keyVLAN, asm.R2, asm.Half))
	a.Emit(asm.StoreImm(asm.RFP, stackKey+keyVLAN+2, 0, asm.Half))
}

// lookup emits a lookup in the map of entries of the key at this offset of the stack. Behind it R0 points to the value, or is 0.
func (a *assembler) lookup(place int32) {
	a.Emit(
		asm.LoadMapPtr(asm.R1, a.entries),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, place),
		asm.FnMapLookupElem.Call(),
	)
}

// unless emits a jump to the label for the case that the map has no entry of this kind. R4 is lost.
func (a *assembler) unless(k entryKind, to string) {
	a.Emit(
		asm.Mov.Reg(asm.R4, regKinds),
		asm.And.Imm(asm.R4, int32(k)),
		asm.JEq.Imm(asm.R4, 0, to),
	)
}

// lookups tries the connection, the port on its address, and the port on any address, which counts only if the address is one of ours: a router
// keeps what it forwards.
func (a *assembler) lookups() {
	a.unless(kindConnection, "listener")
	a.lookup(stackKey)
	a.Emit(
		asm.JEq.Imm(asm.R0, 0, "listener"),
		asm.LoadMem(asm.R2, asm.R0, valueVerdict, asm.Word),
		asm.Mov.Imm(asm.R1, int32(countKernel)),
		asm.JEq.Imm(asm.R2, int32(verdictPass), "pass"),
		asm.Ja.Label("segment"),
	)
	a.Label("listener", asm.StoreImm(asm.RFP, stackKey+keySrc, 0, asm.Word))
	a.Emit(asm.StoreImm(asm.RFP, stackKey+keySrcPort, 0, asm.Half))
	a.unless(kindPort, "anywhere")
	a.lookup(stackKey)
	a.Emit(asm.JNE.Imm(asm.R0, 0, "port"))
	a.Label("anywhere", asm.Mov.Imm(asm.R4, 0)) // an instruction that carries the label: unless writes R4 anyway
	a.unless(kindAnywhere, "next")
	a.Emit(
		asm.LoadMem(asm.R2, asm.RFP, stackKey+keyDst, asm.Word),
		asm.StoreMem(asm.RFP, stackLocal+keyDst, asm.R2, asm.Word),
		asm.StoreImm(asm.RFP, stackLocal+keySrc, 0, asm.Word),
		asm.StoreImm(asm.RFP, stackLocal+keyPorts, 0, asm.Word),
		asm.LoadMem(asm.R2, asm.RFP, stackKey+keyVLAN, asm.Word),
		asm.StoreMem(asm.RFP, stackLocal+keyVLAN, asm.R2, asm.Word),
	)
	a.lookup(stackLocal)
	a.Emit(
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.StoreImm(asm.RFP, stackKey+keyDst, 0, asm.Word),
	)
	a.lookup(stackKey)
	a.Emit(asm.JEq.Imm(asm.R0, 0, "next"))
}

// port emits the decision about a segment to a claimed port, whose entry R0 points to: SYNs by the time in the entry, other segments by
// whether the kernel has a connection of these addresses.
func (a *assembler) port() {
	a.Label("port", asm.JNE.Imm(regMore, 0, "fragment"))
	a.Emit(
		asm.LoadMem(regKinds, asm.R0, valueSYNs, asm.DWord),
		asm.StoreImm(asm.RFP, stackFlags, 0, asm.Word),
		asm.Mov.Reg(asm.R2, regStart),
		asm.Add.Imm(asm.R2, 13),
	)
	a.load(stackFlags, 1)
	a.Emit(
		asm.JNE.Imm(asm.R0, 0, "segment"), // too short for a TCP header
		asm.LoadMem(asm.R2, asm.RFP, stackFlags, asm.Byte),
		asm.And.Imm(asm.R2, 0x12),
		asm.JNE.Imm(asm.R2, 0x02, "established"),
		asm.FnKtimeGetNs.Call(),
		asm.JLT.Reg(asm.R0, regKinds, "syn"),
		asm.Mov.Imm(asm.R1, int32(countAccept)),
		asm.Ja.Label("pass"),
	)
	a.Label("established", asm.Mov.Reg(asm.R1, regContext))
	a.Emit(
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackTuple),
		asm.Mov.Imm(asm.R3, tupleIPv4),
		asm.Mov.Imm(asm.R4, -1), // BPF_F_CURRENT_NETNS
		asm.Mov.Imm(asm.R5, 0),
		asm.FnSkcLookupTcp.Call(),
		asm.JEq.Imm(asm.R0, 0, "segment"),
		asm.LoadMem(regKinds, asm.R0, sockState, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.FnSkRelease.Call(),
		asm.JEq.Imm(regKinds, stateListen, "segment"),
		asm.Mov.Imm(asm.R1, int32(countKernel)),
		asm.Ja.Label("pass"),
	)
}

// leave emits the program's exits. At "pass" and "leave" R1 is the counter to increment, at "leave" regKinds is the verdict; "next" counts
// nothing.
func (a *assembler) leave() {
	a.Label("segment", asm.Mov.Imm(asm.R1, int32(countSegment)))
	a.Emit(
		asm.JEq.Imm(regMore, 0, "drop"),
		asm.Ja.Label("fragment"),
	)
	a.Label("syn", asm.Mov.Imm(asm.R1, int32(countSYN)))
	a.Emit(asm.Ja.Label("drop"))
	a.Label("fragment", asm.Mov.Imm(asm.R1, int32(countFragment)))
	a.Label("drop", asm.Mov.Imm(regKinds, tcDrop))
	a.Emit(asm.Ja.Label("leave"))
	a.Label("pass", asm.Mov.Imm(regKinds, tcNext))
	a.Label("leave", asm.StoreMem(asm.RFP, stackCount, asm.R1, asm.Word))
	a.Emit(
		asm.LoadMapPtr(asm.R1, a.counts),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackCount),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord), // the counters are per CPU, and the program is not interrupted by itself
	)
	a.Label("out", asm.Mov.Reg(asm.R0, regKinds))
	a.Emit(asm.Return())
	a.Label("next", asm.Mov.Imm(asm.R0, tcNext))
	a.Emit(asm.Return())
}
