package tcp

import (
	"encoding/binary"
	"math/bits"
)

// flows finds what a segment is for by its four addresses. It is open-addressed and free of pointers. An entry has a part of the hash and a
// reference to a record; the addresses are in the record. It grows without a pause: the larger table stands beside the old one, and each
// insertion moves a few entries.
//
//	young   all insertions go here; removal shifts entries back
//	old     entries up to moved are in young; removal leaves a tombstone, because no insertion needs the place any more
type flows struct {
	young, old []flow
	keys       [2]uint64
	count      int // entries in both
	moved      int // places of old that were moved
}

// flow is 8 bytes: eight to a cache line.
type flow struct {
	hash uint32
	ref  ref
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

// refOf is the reference to the record at index among those of a kind: one more than the index, because zero is no record.
func refOf(kind ref, index uint32) ref { return kind | ref(index+1) }

func (r ref) kind() ref     { return r &^ refMask }
func (r ref) index() uint32 { return uint32(r&refMask) - 1 }

const (
	minFlows     = 64
	movesAtATime = 8
)

func newFlows(keys [2]uint64) flows { return flows{young: make([]flow, minFlows), keys: keys} }

// hash mixes the addresses with keys, so that a peer cannot aim at one place of the table.
func (f *flows) hash(local, remote Endpoint) uint32 {
	a := uint64(binary.LittleEndian.Uint32(remote.Addr[:]))<<32 | uint64(binary.LittleEndian.Uint32(local.Addr[:]))
	b := uint64(remote.Port)<<16 | uint64(local.Port)
	hi, lo := bits.Mul64(a^f.keys[0], b^f.keys[1])
	hi, lo = bits.Mul64(hi^lo^f.keys[1], 0x9e3779b97f4a7c15^f.keys[0])
	return uint32(hi ^ lo)
}

// find is what a segment between the two endpoints is for; 0 when there is no such flow.
func (t *Table) find(local, remote Endpoint) ref {
	return t.findHash(t.flows.hash(local, remote), local, remote)
}

// findHash is find, with the hash of the endpoints.
func (t *Table) findHash(h uint32, local, remote Endpoint) ref {
	if r := t.lookup(t.flows.young, h, local, remote); r != 0 {
		return r
	}
	if t.flows.old != nil {
		return t.lookup(t.flows.old, h, local, remote)
	}
	return 0
}

// lookup is the reference of a flow in one of the tables, or 0. h is the hash of both endpoints; probing is linear.
func (t *Table) lookup(list []flow, h uint32, local, remote Endpoint) ref {
	mask := uint32(len(list) - 1)
	for i := h & mask; list[i].ref != 0; i = (i + 1) & mask {
		if e := list[i]; e.hash == h && t.isBetween(e.ref, local, remote) {
			return e.ref
		}
	}
	return 0
}

// isBetween reports whether a record is of the flow between two endpoints.
func (t *Table) isBetween(r ref, local, remote Endpoint) bool {
	switch r.kind() {
	case refConn:
		c := t.conn(ID(r.index()))
		return c.remote == remote && c.local == local
	case refHalfOpen:
		h := &t.halfOpen.all[r.index()]
		return h.remote == remote && h.local == local
	case refTimeWait:
		w := &t.timeWaits.all[r.index()]
		return w.remote == remote && w.local == local
	}
	return false // a tombstone
}

// enter makes a flow the table's in the directory too, and reports whether it is: false if another table has it. leave undoes it.
func (t *Table) enter(local, remote Endpoint) bool {
	d := t.config.Directory
	return d == nil || d.Enter(local, remote, t.config.Number)
}

func (t *Table) leave(local, remote Endpoint) {
	if d := t.config.Directory; d != nil {
		d.Remove(local, remote, t.config.Number)
	}
}

// IsHere reports whether the table has the flow between two endpoints: as a connection, as half of one, or in TIME-WAIT.
func (t *Table) IsHere(local, remote Endpoint) bool { return t.find(local, remote) != 0 }

// add adds a flow that is not there yet.
func (f *flows) add(local, remote Endpoint, r ref) {
	if f.old == nil && 2*(f.count+1) > len(f.young) {
		f.old, f.young, f.moved = f.young, make([]flow, 2*len(f.young)), 0
	}
	insert(f.young, flow{f.hash(local, remote), r})
	f.count++
	f.move()
}

// insert puts an entry that is not there yet into the first free place from its hash on. The table must have one.
func insert(t []flow, e flow) {
	mask := uint32(len(t) - 1)
	i := e.hash & mask
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
			insert(f.young, *e)
			e.ref = refTombstone
		}
		f.moved++
	}
}

// remove takes the flow of a record out, if it is there.
func (f *flows) remove(local, remote Endpoint, r ref) {
	h := f.hash(local, remote)
	if f.old != nil {
		if e := place(f.old, h, r); e >= 0 {
			f.old[e].ref = refTombstone
			f.count--
			return
		}
	}
	at := place(f.young, h, r)
	if at < 0 {
		return
	}
	f.count--
	// The entries behind close the gap, so that no search ends early.
	mask := uint32(len(f.young) - 1)
	gap := uint32(at)
	for i := (gap + 1) & mask; f.young[i].ref != 0; i = (i + 1) & mask {
		home := f.young[i].hash & mask
		if (i-home)&mask >= (i-gap)&mask {
			f.young[gap] = f.young[i]
			gap = i
		}
	}
	f.young[gap] = flow{}
}

// place is where the entry of a record is in one of the tables, or -1.
func place(t []flow, h uint32, r ref) int {
	mask := uint32(len(t) - 1)
	for i := h & mask; t[i].ref != 0; i = (i + 1) & mask {
		if t[i].ref == r {
			return int(i)
		}
	}
	return -1
}
