package tcp

import (
	"encoding/binary"
	"math/bits"
)

// flows finds what a segment is for by its four addresses. It is open-addressed and free of pointers. It grows without a pause: the larger table
// stands beside the old one, and each insertion moves a few entries.
//
//	young   all insertions go here; removal shifts entries back
//	old     entries up to moved are in young; removal leaves a tombstone, because no insertion needs the place any more
type flows struct {
	young, old []flow
	keys       [2]uint64
	count      int // entries in both
	moved      int // places of old that were moved
}

// flow is 16 bytes: four to a cache line.
type flow struct {
	remote, local Endpoint
	ref           ref
}

// ref names a record: its kind and its place. Zero is none.
type ref uint32

const (
	refKinds         = 30
	refConn      ref = 0 << refKinds
	refHalfOpen  ref = 1 << refKinds
	refTimeWait  ref = 2 << refKinds
	refTombstone ref = 3 << refKinds
	refMask      ref = 1<<refKinds - 1
)

func refOf(kind ref, index uint32) ref { return kind | ref(index+1) }

func (r ref) kind() ref     { return r &^ refMask }
func (r ref) index() uint32 { return uint32(r&refMask) - 1 }

const (
	minFlows     = 64
	movesAtATime = 8
)

func newFlows(keys [2]uint64) flows { return flows{young: make([]flow, minFlows), keys: keys} }

// hash mixes the addresses with keys, so that a peer cannot aim at one place of the table.
func (f *flows) hash(local, remote Endpoint) uint64 {
	a := uint64(binary.LittleEndian.Uint32(remote.Addr[:]))<<32 | uint64(binary.LittleEndian.Uint32(local.Addr[:]))
	b := uint64(remote.Port)<<16 | uint64(local.Port)
	hi, lo := bits.Mul64(a^f.keys[0], b^f.keys[1])
	hi, lo = bits.Mul64(hi^lo^f.keys[1], 0x9e3779b97f4a7c15^f.keys[0])
	return hi ^ lo
}

// find is what a segment between the two endpoints is for; 0 when there is no such flow.
func (f *flows) find(local, remote Endpoint) ref {
	h := f.hash(local, remote)
	if e := lookup(f.young, h, local, remote); e >= 0 {
		return f.young[e].ref
	}
	if f.old != nil {
		if e := lookup(f.old, h, local, remote); e >= 0 {
			return f.old[e].ref
		}
	}
	return 0
}

// lookup is the place of a flow's entry in one of the tables, or -1. h is the hash of both endpoints; probing is linear.
func lookup(t []flow, h uint64, local, remote Endpoint) int {
	mask := uint64(len(t) - 1)
	for i := h & mask; t[i].ref != 0; i = (i + 1) & mask {
		if t[i].remote == remote && t[i].local == local && t[i].ref != refTombstone {
			return int(i)
		}
	}
	return -1
}

// set adds a flow, or changes what it refers to.
func (f *flows) set(local, remote Endpoint, r ref) {
	h := f.hash(local, remote)
	if e := lookup(f.young, h, local, remote); e >= 0 {
		f.young[e].ref = r
		return
	}
	if f.old != nil {
		if e := lookup(f.old, h, local, remote); e >= 0 {
			f.old[e].ref = refTombstone
			f.count--
		}
	}
	if f.old == nil && 2*(f.count+1) > len(f.young) {
		f.old, f.young, f.moved = f.young, make([]flow, 2*len(f.young)), 0
	}
	insert(f.young, h, flow{remote, local, r})
	f.count++
	f.move()
}

// insert puts an entry that is not there yet into the first free place from its hash on. The table must have one.
func insert(t []flow, h uint64, e flow) {
	mask := uint64(len(t) - 1)
	i := h & mask
	for t[i].ref != 0 {
		i = (i + 1) & mask
	}
	t[i] = e
}

// move takes a few entries from the old table. Each insertion moves eight places, so the old table is empty long before young is half full.
func (f *flows) move() {
	for n := 0; f.old != nil && n < movesAtATime; n++ {
		if f.moved == len(f.old) {
			f.old = nil
			return
		}
		if e := &f.old[f.moved]; e.ref != 0 && e.ref != refTombstone {
			insert(f.young, f.hash(e.local, e.remote), *e)
			e.ref = refTombstone
		}
		f.moved++
	}
}

// remove takes a flow out, if it is there.
func (f *flows) remove(local, remote Endpoint) {
	h := f.hash(local, remote)
	if f.old != nil {
		if e := lookup(f.old, h, local, remote); e >= 0 {
			f.old[e].ref = refTombstone
			f.count--
			return
		}
	}
	at := lookup(f.young, h, local, remote)
	if at < 0 {
		return
	}
	f.count--
	// The entries behind close the gap, so that no search ends early.
	mask := uint64(len(f.young) - 1)
	gap := uint64(at)
	for i := (gap + 1) & mask; f.young[i].ref != 0; i = (i + 1) & mask {
		home := f.hash(f.young[i].local, f.young[i].remote) & mask
		if (i-home)&mask >= (i-gap)&mask {
			f.young[gap] = f.young[i]
			gap = i
		}
	}
	f.young[gap] = flow{}
}
