package stream

import (
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// recordedFlows are the connections as they stand in the record by which their peers are reset when the process is killed: package flowrecord.
//
//	established   Add        Accepted, Connected
//	data leaves   Advance    Output: one store
//	forgotten     Remove     Gone
type recordedFlows struct {
	record *flowrecord.Record // nil: none is kept
	slots  []*[chunk]uint32   // by tcp.ID: the slot + 1; 0: it has none
}

// slotOf is the place where a connection's slot is kept.
func (f *recordedFlows) slotOf(id tcp.ID) *uint32 {
	for int(id/chunk) >= len(f.slots) {
		f.slots = append(f.slots, new([chunk]uint32))
	}
	return &f.slots[id/chunk][id%chunk]
}

// recordFlow writes a connection that is established into the record. One for which there is no room is counted.
func (t *Transport) recordFlow(id tcp.ID) {
	f := &t.recorded
	if f.record == nil {
		return
	}
	i, ok := t.table.Info(id)
	if !ok {
		return
	}
	slot, err := f.record.Add(i.Local.AddrPort(), i.Remote.AddrPort(), uint32(i.Next))
	if err != nil {
		t.stats.Unrecorded++
		return
	}
	*f.slotOf(id) = uint32(slot) + 1
}

// advanceFlow notes what a connection sends next, behind a segment with payload.
func (t *Transport) advanceFlow(s *tcp.Segment) {
	f := &t.recorded
	if f.record == nil || s.Again || s.Conn == tcp.NoID || int(s.Conn/chunk) >= len(f.slots) {
		return
	}
	if slot := f.slots[s.Conn/chunk][s.Conn%chunk]; slot != 0 {
		f.record.Advance(flowrecord.Slot(slot-1), uint32(s.Seq)+s.Payload.Length)
	}
}

// forgetFlow removes a connection from the record.
func (t *Transport) forgetFlow(id tcp.ID) {
	f := &t.recorded
	if f.record == nil || int(id/chunk) >= len(f.slots) {
		return
	}
	if slot := f.slotOf(id); *slot != 0 {
		f.record.Remove(flowrecord.Slot(*slot - 1))
		*slot = 0
	}
}
