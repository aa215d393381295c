package offload

import (
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/udp"
)

// entry is the driver's record of one socket. Others are in other packages:
//
//	ring.Socket                     the source: identity, addresses, options, state; settings and active state beside it
//	entry                           which of these the socket has, its claims, its reasons, lists of the driver that it is in
//	udp.Table                       what lookups read: derived by endpoint
//	udp.record                      options for sending, derived by options; the backlog, the counts of drops
//	stack.socket                    the number in udp.Table, and the route that the last send used
//	shadow.GroupWatcher             copies for another goroutine, by shadow.Key: groups, ports, groups that it sends to
//
// The Directory of an exchange has copies of udp.Table's entries, for the other rings. On a MemoryHost memorySocket takes the place of the
// kernel's socket.
type entry struct {
	s          *ring.Socket // nil while the slot is empty
	gen        uint32
	slot       uint32
	id         udp.ID
	inStack    bool         // UDP of the stack carries it; otherwise only its shadow does
	viaKernel  bool         // a TCP socket that the kernel carries. Of others of TCP only listeners have an entry, for the kernel's beside them
	sending    bool         // in sendQueue.list
	resumed    bool         // in driver.resumed
	waiting    bool         // in sendQueue.waiters
	stamped    bool         // it asked for timestamps
	notifyPath bool         // its path has changed: it is to receive PATH
	watch      shadow.Watch // place of the kernel's side in the list

	boundIf         int // interface that the socket is bound to, 0 for none: see boundInterface
	claims          steering.HeldClaims
	groups          shadow.Memberships // derived from the socket's options, see there
	reasons         []ring.Reason
	publishedPort   shadow.PortUse     // as the exchange's watcher has it
	declinedReasons []ring.Reason      // for which destinations are left to the kernel, see Config.Sender
	groupFlows      []shadow.GroupFlow // groups that it sends to with IP_MULTICAST_LOOP on
}

// table finds entries by slot. They are made in chunks, so that growing never moves one.
type table struct{ chunks []*[chunkSize]entry }

const chunkSize = 64

// add makes the entry of a socket that is attached, at its slot.
func (t *table) add(s *ring.Socket) *entry {
	h := ring.HandleOf(s)
	for int(h.Slot/chunkSize) >= len(t.chunks) {
		t.chunks = append(t.chunks, nil) // slots of TCP have no entries
	}
	if t.chunks[h.Slot/chunkSize] == nil {
		t.chunks[h.Slot/chunkSize] = new([chunkSize]entry)
	}
	e := &t.chunks[h.Slot/chunkSize][h.Slot%chunkSize]
	// The marks of lists that the slot's last user is still in stay: they are of the slot.
	*e = entry{s: s, gen: h.Gen, slot: h.Slot, sending: e.sending, resumed: e.resumed, waiting: e.waiting}
	return e
}

// remove empties the slot of a socket that is detached. The marks of lists that it is still in stay: they are of the slot.
func (t *table) remove(e *entry) {
	*e = entry{sending: e.sending, resumed: e.resumed, waiting: e.waiting, slot: e.slot}
}

// find is the entry of the socket in a slot; nil if that socket was detached and the generation has passed.
func (t *table) find(slot, gen uint32) *entry {
	if int(slot/chunkSize) >= len(t.chunks) || t.chunks[slot/chunkSize] == nil {
		return nil
	}
	if e := &t.chunks[slot/chunkSize][slot%chunkSize]; e.s != nil && e.gen == gen {
		return e
	}
	return nil
}

// each calls f for every socket.
func (t *table) each(f func(e *entry)) {
	for _, c := range t.chunks {
		if c == nil {
			continue
		}
		for i := range c {
			if c[i].s != nil {
				f(&c[i])
			}
		}
	}
}

// of is the entry of a socket; nil if it is not attached.
func (t *table) of(s *ring.Socket) *entry {
	h := ring.HandleOf(s)
	if e := t.find(h.Slot, h.Gen); e != nil && e.s == s {
		return e
	}
	return nil
}

// keyOf is the socket's name for other rings.
func (d *driver) keyOf(e *entry) shadow.Key { return shadow.Key{Ring: d.number, Slot: e.slot} }

// joinedGroups are what a socket has joined, as the table of UDP has it; none while the stack does not carry the socket. No group is joined or
// left meanwhile.
func (d *driver) joinedGroups(e *entry) shadow.Groups {
	return func(yield func(shadow.Group) bool) {
		if !e.inStack {
			return
		}
		for m := range d.udp.Memberships(e.id) {
			if !yield(shadow.Group{Addr: m.Group, Source: m.Source, IfIndex: m.Interface}) {
				return
			}
		}
	}
}

// anyGroup reports whether one of a socket's groups is as is says; hasGroups, whether it has one.
func (d *driver) anyGroup(e *entry, is func(shadow.Group) bool) bool {
	for g := range d.joinedGroups(e) {
		if is(g) {
			return true
		}
	}
	return false
}

func (d *driver) hasGroups(e *entry) bool {
	return d.anyGroup(e, func(shadow.Group) bool { return true })
}
