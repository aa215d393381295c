package tcp

// With many connections the records of a burst's segments are in memory that no cache holds, and each is waited for when Input comes to it. A
// transport can have them read before, for all segments of the burst: the processor waits for them together. The steps build on each other, so
// that each is done for the whole burst before the next:
//
//	FetchFlow    reads the place in the flow table
//	FetchConn    reads the record of the connection that is probably meant there
//
// They change nothing, and need not be called. Each is short, because the processor looks ahead by a number of instructions.

// FetchFlow reads the place of a flow and returns what FetchConn needs.
func (t *Table) FetchFlow(local, remote Endpoint) (hash uint32) {
	hash = t.flows.hash(local, remote)
	t.fetched += uint32(t.flows.young[hash&uint32(len(t.flows.young)-1)].ref)
	return hash
}

// FetchConn reads the record of a connection whose flow has the hash, and returns its ID: a guess, as the addresses are not compared. NoID:
// there is none.
func (t *Table) FetchConn(hash uint32) ID {
	mask := uint32(len(t.flows.young) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := t.flows.young[i]
		if e.hash == hash && e.ref != 0 && e.ref.kind() == refConn {
			id := ID(e.ref.index())
			c := t.conn(id)
			t.fetched += uint32(c.state) + uint32(c.una) + c.srtt + uint32(c.rtxKind) // one of each cache line of the record
			return id
		}
		if e.ref == 0 {
			return NoID
		}
	}
}
