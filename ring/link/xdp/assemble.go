package xdp

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"

	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/internal/bpf"
)

// Verdicts of an XDP program (enum xdp_action).
const (
	xdpPass     = 2
	xdpRedirect = 4
)

// Lengths of an IPv4 header without options, and with all that there is room for.
const (
	minIPv4Header = 20
	maxIPv4Header = 60
)

// metadataBytes is what the program writes before a frame when it stamps: one word of 64 bits.
const metadataBytes = 8

// count is an index of the program's counters. Every packet increments exactly one.
type count int32

const (
	countHit       count = iota // redirected to a socket of ours
	countMiss                   // a protocol we take, a flow nobody claimed
	countNoQueue                // claimed, but it came in on a queue that has no socket of ours
	countFragment               // part of an IPv4 datagram: the kernel reassembles
	countTruncated              // too short for its headers
	countMalformed              // IPv4 with a wrong version or header length
	countForeign                // not IPv4, or tagged twice
	countProtocol               // IPv4, but another protocol
	countKernel                 // of a connection of the kernel's on a claimed port: Program.Pass
	countOversize               // longer than the interface's MTU: several datagrams that a sender on this host has not cut yet
	numCounts
)

var countNames = [numCounts]string{
	"steer.hit", "steer.miss", "steer.no_queue", "steer.fragment", "steer.truncated", "steer.malformed", "steer.not_ipv4",
	"steer.other_protocol", "steer.kernel", "steer.oversize",
}

// What the program keeps in registers over calls (R1 to R5 are lost in each).
const (
	regContext = asm.R6
	regCursor  = asm.R7 // where the next header begins
	regEnd     = asm.R8 // end of the packet; after parsing, the verdict
	regFront   = asm.R7 // after parsing, instead of the cursor: the front
	regKinds   = asm.R7 // after that, the kinds of entry there are
	regVLAN    = asm.R9 // as in the frame; after parsing, the stamp
)

// Offsets in struct xdp_md.
const (
	ctxData     = 0
	ctxDataEnd  = 4
	ctxDataMeta = 8
	ctxQueue    = 16
)

// Places on the stack. The key is the flow's as flow.go has it; the second one is for the question whether an address is ours.
const (
	stackKey   = -keyBytes
	stackLocal = -2 * keyBytes
	stackCount = stackLocal - 8
)

// stamping says what the program writes before each frame it redirects.
type stamping int

const (
	stampNothing  stamping = iota
	stampKernel            // bpf_ktime_get_tai_ns
	stampHardware          // bpf_xdp_metadata_rx_timestamp, 0 when the driver has none
)

// parameters are what the program is assembled from.
type parameters struct {
	flows, front, sockets, counts int // descriptors of the maps
	protocols                     []uint8
	mtu                           int // longest IPv4 packet that can be taken
	stamp                         stamping
	kfunc                         int64 // BTF type of bpf_xdp_metadata_rx_timestamp, for stampHardware
}

// assemble writes the steering program:
//
//	Ethernet, at most one 802.1Q tag, IPv4 that is no fragment, a protocol we take
//	  → look the flow up, from the most exact entry to the most general
//	  → a hit goes to the socket of the queue it came in on; all else goes on to the kernel
//
// It never drops, never changes a packet, and never takes one that nobody claimed: without sockets or claims the interface works as if
// it were not there.
func assemble(p parameters) asm.Instructions {
	a := &assembler{parameters: p}
	a.ethernet()
	a.ipv4()
	a.ports()
	a.lookups()
	a.redirect()
	a.leave()
	return a.Instructions
}

type assembler struct {
	parameters
	bpf.Code
}

// need jumps to truncated unless n bytes follow the cursor. The verifier learns from the comparison what may be read.
func (a *assembler) need(n int32) {
	a.Emit(
		asm.Mov.Reg(asm.R2, regCursor),
		asm.Add.Imm(asm.R2, n),
		asm.JGT.Reg(asm.R2, regEnd, "truncated"),
	)
}

// ethernet emits the program's entry and the parsing of the Ethernet header with at most one 802.1Q tag. Behind it regCursor is at the IPv4
// header and regVLAN holds the tag's VLAN, 0 without a tag. Frames of other protocols, or with two tags, go to "foreign".
func (a *assembler) ethernet() {
	a.Emit(
		asm.Mov.Reg(regContext, asm.R1),
		asm.LoadMem(regCursor, asm.R1, ctxData, asm.Word),
		asm.LoadMem(regEnd, asm.R1, ctxDataEnd, asm.Word),
		asm.Mov.Imm(regVLAN, 0),
	)
	a.need(14)
	a.Emit(
		asm.LoadMem(asm.R3, regCursor, 12, asm.Half),
		asm.JEq.Imm(asm.R3, bpf.Wire16(0x0800), "ipv4"),
		asm.JNE.Imm(asm.R3, bpf.Wire16(0x8100), "foreign"),
	)
	a.need(18)
	a.Emit(
		asm.LoadMem(regVLAN, regCursor, 14, asm.Half),
		asm.And.Imm(regVLAN, bpf.Wire16(0x0fff)), // without priority and drop eligibility
		asm.LoadMem(asm.R3, regCursor, 16, asm.Half),
		asm.JNE.Imm(asm.R3, bpf.Wire16(0x0800), "foreign"), // a second tag, or another protocol
		asm.Add.Imm(regCursor, 4),
	)
	a.Label("ipv4", asm.Add.Imm(regCursor, 14))
}

// ipv4 emits the checks of the IPv4 header. Behind them R3 is the header's length and R4 the protocol; the cursor has not moved. A packet with
// one of the program's protocols goes to "ports", all others to the exit of their counter.
func (a *assembler) ipv4() {
	a.need(20)
	a.Emit(
		asm.LoadMem(asm.R3, regCursor, 0, asm.Byte),
		asm.Mov.Reg(asm.R4, asm.R3),
		asm.RSh.Imm(asm.R4, 4),
		asm.JNE.Imm(asm.R4, 4, "malformed"),
		asm.And.Imm(asm.R3, 15),
		asm.JLT.Imm(asm.R3, 5, "malformed"),
		asm.LSh.Imm(asm.R3, 2), // header length, 20 to 60 bytes
		asm.LoadMem(asm.R4, regCursor, 6, asm.Half),
		asm.And.Imm(asm.R4, bpf.Wire16(0x3fff)), // more fragments, or an offset: all but the first have no ports
		asm.JNE.Imm(asm.R4, 0, "fragment"),
		asm.LoadMem(asm.R4, regCursor, 9, asm.Byte),
		// A veth's peer sends up to 64 KiB of TCP in one packet (TSO). A stream has no boundaries: it is taken whole.
		asm.JEq.Imm(asm.R4, int32(link.TCP), "protocols"),
		// Datagrams sent by UDP_SEGMENT are still one packet there, which the kernel would cut here. Its boundaries are outside the packet, so
		// it must not be taken.
		asm.LoadMem(asm.R4, regCursor, 2, asm.Half),
		asm.HostTo(asm.BE, asm.R4, asm.Half),
		asm.JGT.Imm(asm.R4, int32(a.mtu), "oversize"),
		asm.LoadMem(asm.R4, regCursor, 9, asm.Byte),
	)
	for i, protocol := range a.protocols {
		jump := asm.JEq.Imm(asm.R4, int32(protocol), "ports")
		if i == 0 {
			jump = jump.WithSymbol("protocols")
		}
		a.Emit(jump)
	}
	a.Emit(asm.Ja.Label("protocol"))
}

// ports writes the flow's key to the stack: protocol, VLAN, both addresses and both ports. Behind it R4 holds the two ports.
func (a *assembler) ports() {
	// Protocol, a zero and the tag make one word; which is above which depends on the machine's order.
	first, second := regVLAN, asm.R4
	if bigEndian {
		first, second = asm.R4, regVLAN
	}
	a.Label("ports", asm.LSh.Imm(first, 16))
	if bigEndian {
		a.Emit(asm.LSh.Imm(first, 8)) // the protocol is the first byte of its half
	}
	a.Emit(
		asm.Or.Reg(first, second),
		asm.StoreMem(asm.RFP, stackKey+keyProtocol, first, asm.Word),
		asm.LoadMem(asm.R4, regCursor, 16, asm.Word),
		asm.StoreMem(asm.RFP, stackKey+keyDst, asm.R4, asm.Word),
		asm.LoadMem(asm.R4, regCursor, 12, asm.Word),
		asm.StoreMem(asm.RFP, stackKey+keySrc, asm.R4, asm.Word),
	)
	a.skipIPv4()
	transport := len(a.Instructions)
	a.need(8) // the whole UDP header, and the ports and sequence number of TCP
	a.Instructions[transport] = a.Instructions[transport].WithSymbol("transport")
	a.Emit(
		asm.LoadMem(asm.R4, regCursor, 0, asm.Word),
		asm.StoreMem(asm.RFP, stackKey+keyPorts, asm.R4, asm.Word),
	)
}

// skipIPv4 moves the cursor behind the IPv4 header, whose length is in R3, and goes on at "transport". It adds constants only: without
// CAP_PERFMON the verifier refuses a register that is added to a pointer into the packet (sanitize_ptr_alu in kernel/bpf/verifier.c).
func (a *assembler) skipIPv4() {
	a.Emit(asm.Add.Imm(regCursor, minIPv4Header))
	for n := int32(minIPv4Header); n < maxIPv4Header; n += 4 {
		a.Emit(asm.JEq.Imm(asm.R3, n, "transport"), asm.Add.Imm(regCursor, 4))
	}
}

// anyPort makes the key that of all source ports; label names the first instruction. R3 is lost.
func (a *assembler) anyPort(label string) {
	a.Label(label, asm.LoadMem(asm.R3, asm.RFP, stackKey+keyPorts, asm.Word))
	a.Emit(asm.And.Imm(asm.R3, halfMask(1)), asm.StoreMem(asm.RFP, stackKey+keyPorts, asm.R3, asm.Word))
}

// lookup emits a lookup in the flow map of the key at this offset of the stack. Behind it R0 is 0 if there is no such entry.
func (a *assembler) lookup(place int32) {
	a.Emit(
		asm.LoadMapPtr(asm.R1, a.flows),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, place),
		asm.FnMapLookupElem.Call(),
	)
}

// lookups tries the entries of a flow. For unicast: the connection, which may be one of the kernel's (pass.go); the listener on its address; the
// listener on all addresses, which counts only if the address is one of ours, so that a router keeps what it forwards. For multicast: the
// connection; the group from that source; the group. What was joined elsewhere on this machine is the kernel's.
//
// A lookup in a hash table costs more than all the rest of the program. So the front (front.go) is read first, and no lookup is made for a
// kind of entry of which there is none.
func (a *assembler) lookups() {
	a.Emit(asm.LoadMapValue(regFront, a.parameters.front, 0))
	a.front()
	a.Label("lookups", asm.LoadMem(regKinds, regFront, 0, asm.Word))
	a.Emit(
		asm.LoadMem(asm.R3, asm.RFP, stackKey+keyDst, asm.Byte),
		asm.And.Imm(asm.R3, 0xf0),
		asm.JEq.Imm(asm.R3, 0xe0, "multicast"),
	)
	a.unless(kindConnected, "listener")
	a.lookup(stackKey)
	a.Emit(
		asm.JEq.Imm(asm.R0, 0, "listener"),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Word),
		asm.JNE.Imm(asm.R2, int32(passFlow), "hit"),
		asm.Ja.Label("kernel"),
	)
	a.anyPort("listener")
	a.Emit(asm.StoreImm(asm.RFP, stackKey+keySrc, 0, asm.Word))
	a.unless(kindBound, "wildcard")
	a.lookup(stackKey)
	a.Emit(asm.JNE.Imm(asm.R0, 0, "hit"))
	a.Label("wildcard", asm.LoadMem(asm.R3, asm.RFP, stackKey+keyDst, asm.Word))
	a.unless(kindWildcard, "miss")
	a.Emit(
		asm.StoreMem(asm.RFP, stackLocal+keyDst, asm.R3, asm.Word),
		asm.StoreImm(asm.RFP, stackKey+keyDst, 0, asm.Word),
	)
	a.lookup(stackKey)
	a.Emit(
		asm.JEq.Imm(asm.R0, 0, "miss"),
		asm.StoreImm(asm.RFP, stackLocal+keySrc, 0, asm.Word),
		asm.StoreImm(asm.RFP, stackLocal+keyPorts, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.RFP, stackKey+keyProtocol, asm.Word),
		asm.And.Imm(asm.R3, halfMask(1)), // the tag
		asm.StoreMem(asm.RFP, stackLocal+keyProtocol, asm.R3, asm.Word),
	)
	a.lookup(stackLocal)
	a.Emit(
		asm.JNE.Imm(asm.R0, 0, "hit"),
		asm.Ja.Label("miss"),
	)
	multicast := len(a.Instructions)
	a.unless(kindGroupConnected, "source")
	a.Instructions[multicast] = a.Instructions[multicast].WithSymbol("multicast")
	a.lookup(stackKey)
	a.Emit(asm.JNE.Imm(asm.R0, 0, "hit"))
	a.anyPort("source")
	a.unless(kindGroupSource, "group")
	a.lookup(stackKey)
	a.Emit(asm.JNE.Imm(asm.R0, 0, "hit"))
	a.Label("group", asm.StoreImm(asm.RFP, stackKey+keySrc, 0, asm.Word))
	a.unless(kindGroup, "miss")
	a.lookup(stackKey)
	a.Emit(asm.JEq.Imm(asm.R0, 0, "miss"))
}

// unless emits a jump to the label for the case that the flow map has no entry of this kind. R4 is lost.
func (a *assembler) unless(k entryKind, to string) {
	a.Emit(
		asm.Mov.Reg(asm.R4, regKinds),
		asm.And.Imm(asm.R4, int32(k)),
		asm.JEq.Imm(asm.R4, 0, to),
	)
}

// redirect sends a hit to the socket of its queue, or on to the kernel when that queue has none: the flags of bpf_redirect_map are the
// verdict for that case, and 0 would be XDP_ABORTED, a black hole.
func (a *assembler) redirect() {
	hit := len(a.Instructions)
	a.Emit(
		asm.LoadMapPtr(asm.R1, a.sockets),
		asm.LoadMem(asm.R2, regContext, ctxQueue, asm.Word),
		asm.Mov.Imm(asm.R3, xdpPass),
		asm.FnRedirectMap.Call(),
		asm.Mov.Reg(regEnd, asm.R0),
		asm.Mov.Imm(asm.R1, int32(countNoQueue)),
		asm.JNE.Imm(asm.R0, xdpRedirect, "leave"),
	)
	a.Instructions[hit] = a.Instructions[hit].WithSymbol("hit")
	if a.stamp != stampNothing {
		a.stamps()
	}
	a.Label("hit_done", asm.Mov.Imm(asm.R1, int32(countHit)))
	a.Emit(asm.Ja.Label("leave"))
}

// stamps emits the code that writes the time of arrival into the metadata before the frame; the kernel copies them with the frame. It ends
// at "hit_done", also where the driver has no metadata or no time.
func (a *assembler) stamps() {
	if a.stamp == stampHardware {
		a.Emit(
			asm.Mov.Imm(asm.R1, 0),
			asm.StoreMem(asm.RFP, stackLocal, asm.R1, asm.DWord),
			asm.Mov.Reg(asm.R1, regContext),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, stackLocal),
			asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: a.kfunc},
			asm.LoadMem(regVLAN, asm.RFP, stackLocal, asm.DWord),
			asm.JEq.Imm(asm.R0, 0, "stamped"),
			asm.Mov.Imm(regVLAN, 0), // the driver had none for this frame
		)
		a.Label("stamped", asm.Mov.Reg(asm.R1, regContext))
	} else {
		a.Emit(
			asm.FnKtimeGetTaiNs.Call(),
			asm.Mov.Reg(regVLAN, asm.R0),
			asm.Mov.Reg(asm.R1, regContext),
		)
	}
	a.Emit(
		asm.Mov.Imm(asm.R2, -metadataBytes),
		asm.FnXdpAdjustMeta.Call(),
		asm.JNE.Imm(asm.R0, 0, "hit_done"), // no room or no metadata in this driver: the frame goes without a stamp
		asm.LoadMem(asm.R2, regContext, ctxDataMeta, asm.Word),
		asm.LoadMem(asm.R3, regContext, ctxData, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, metadataBytes),
		asm.JGT.Reg(asm.R4, asm.R3, "hit_done"),
		asm.StoreMem(asm.R2, 0, regVLAN, asm.DWord),
	)
}

// leave emits the program's exits. One label for each reason to pass a frame to the kernel sets the counter in R1; "leave" increments that
// counter and returns the verdict in regEnd.
func (a *assembler) leave() {
	for _, way := range []struct {
		name string
		c    count
	}{
		{"miss", countMiss}, {"fragment", countFragment}, {"truncated", countTruncated}, {"malformed", countMalformed},
		{"foreign", countForeign}, {"protocol", countProtocol}, {"kernel", countKernel}, {"oversize", countOversize},
	} {
		a.Label(way.name, asm.Mov.Imm(asm.R1, int32(way.c)))
		a.Emit(asm.Ja.Label("pass"))
	}
	a.Label("pass", asm.Mov.Imm(regEnd, xdpPass))
	a.Label("leave", asm.StoreMem(asm.RFP, stackCount, asm.R1, asm.Word))
	a.Emit(
		asm.LoadMapPtr(asm.R1, a.counts),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackCount),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord), // the counters are per CPU: no other one writes
	)
	a.Label("out", asm.Mov.Reg(asm.R0, regEnd))
	a.Emit(asm.Return())
}

// bigEndian tells the machine's byte order.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// halfMask is the mask of the first or second two bytes of a word in memory.
func halfMask(i int) int32 {
	if (i == 0) == bigEndian {
		return -1 << 16 // above it are zeros in any case: words are loaded so
	}
	return 0xffff
}
