package udp

import "slices"

// Snapshot is the table as it is now, for lookups by any goroutine (Unicast, Multicast, Broadcast, Joined, Owner); it never changes. Its lookups
// choose as the table's do, also among sockets that share a port. Table and snapshot share their memory until the table changes: a change
// copies what it writes to, which is one of numShards tables of the memberships, and the whole of every other list.
func (t *Table) Snapshot() *Table {
	t.shared = shared{flows: true, connectedPorts: true, sockets: true}
	t.members.shared = ^uint64(0)
	return &Table{flows: t.flows, members: t.members, connectedPorts: t.connectedPorts, sockets: t.sockets, connected: t.connected, shared: t.shared}
}

// shared says which lists a snapshot reads.
type shared struct{ flows, connectedPorts, sockets bool }

// writeFlows is called before each change of flows: it copies the list if a snapshot reads it. writeConnectedPorts and writeSockets are the
// same for the other lists.

func (t *Table) writeFlows() *flows {
	if t.shared.flows {
		t.flows, t.shared.flows = t.flows.clone(), false
	}
	return &t.flows
}

// writeConnectedPorts is writeFlows for connectedPorts.
func (t *Table) writeConnectedPorts() *flows {
	if t.shared.connectedPorts {
		t.connectedPorts, t.shared.connectedPorts = t.connectedPorts.clone(), false
	}
	return &t.connectedPorts
}

// writeSockets is writeFlows for sockets.
func (t *Table) writeSockets() {
	if t.shared.sockets {
		t.sockets, t.shared.sockets = slices.Clone(t.sockets), false
	}
}
