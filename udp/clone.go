package udp

import "slices"

// Clone is a copy that shares nothing with the table: one that is never changed again may be looked into by any goroutine (Unicast,
// Multicast, Broadcast, Joined, Owner). Its lookups choose as the table's do, those among sockets that share a port included.
func (t *Table) Clone() *Table {
	c := &Table{flows: t.flows.clone(), members: t.members.clone(), groups: t.groups.clone(), foreign: t.foreign.clone(),
		sockets: slices.Clone(t.sockets), facts: slices.Clone(t.facts), joined: slices.Clone(t.joined), free: slices.Clone(t.free),
		connected: t.connected}
	for i, list := range c.joined {
		c.joined[i] = slices.Clone(list)
		for j := range c.joined[i] {
			c.joined[i][j].sources = slices.Clone(c.joined[i][j].sources)
		}
	}
	return c
}

func (f *flows) clone() flows {
	c := *f
	c.entries = slices.Clone(f.entries)
	return c
}
