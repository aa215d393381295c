package udp

import "slices"

// Snapshot is the table as it is now, for lookups by any goroutine (Unicast, Multicast, Broadcast, Joined, Owner); it never changes. Lookups
// choose as the table's do, those among sockets that share a port included. Table and snapshot share their memory until the table is
// changed: a change copies what it writes to, which of memberships is one shard of numShards and of the rest the whole list.
func (t *Table) Snapshot() *Table {
	t.shared = shared{flows: true, foreign: true, sockets: true}
	t.members.shared = ^uint64(0)
	return &Table{flows: t.flows, members: t.members, foreign: t.foreign, sockets: t.sockets, connected: t.connected, shared: t.shared}
}

// shared says which lists a snapshot reads.
type shared struct{ flows, foreign, sockets bool }

// writeFlows, writeForeign and writeSockets are called before each change of these lists.

func (t *Table) writeFlows() *flows {
	if t.shared.flows {
		t.flows, t.shared.flows = t.flows.clone(), false
	}
	return &t.flows
}

func (t *Table) writeForeign() *flows {
	if t.shared.foreign {
		t.foreign, t.shared.foreign = t.foreign.clone(), false
	}
	return &t.foreign
}

func (t *Table) writeSockets() {
	if t.shared.sockets {
		t.sockets, t.shared.sockets = slices.Clone(t.sockets), false
	}
}

func (f *flows) clone() flows {
	c := *f
	c.entries = slices.Clone(f.entries)
	return c
}
