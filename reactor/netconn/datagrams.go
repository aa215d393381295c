package netconn

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// datagram is one that waits, for a reader or for being sent: lent by the pool, or in a chunk that it may share with its
// neighbours.
type datagram struct {
	lent  buffers.Lent
	chunk *chunk
	at, n int // chunk.b[at:at+n]
	peer  netip.AddrPort
}

// datagramCost is what a datagram counts for beside its bytes, so that empty ones are bounded too.
const datagramCost = 64

// datagrams is a queue of them. It is filled by one side and taken as a whole by the other, which then owns its chunks.
type datagrams struct {
	list []datagram
	cost int
}

// reserve appends a datagram of n bytes from or to peer, and returns the memory for its bytes.
func (q *datagrams) reserve(n int, peer netip.AddrPort) []byte {
	var k *chunk
	if last := len(q.list) - 1; last >= 0 {
		k = q.list[last].chunk
	}
	if k == nil || len(k.room()) < n {
		want := n
		if len(q.list) > 0 {
			want = max(n, largeChunk)
		}
		k = wholeChunk(want)
	}
	at := k.w
	k.w += n
	q.list = append(q.list, datagram{chunk: k, at: at, n: n, peer: peer})
	q.cost += n + datagramCost
	return k.b[at : at+n]
}

// lend appends a datagram that is in a lent packet.
func (q *datagrams) lend(l buffers.Lent, n int, peer netip.AddrPort) {
	q.list = append(q.list, datagram{lent: l, n: n, peer: peer})
	q.cost += n + datagramCost
}

// take returns the whole queue and begins a new one in the slice old, which was taken before and is used up.
func (q *datagrams) take(old []datagram) []datagram {
	taken := q.list
	q.list, q.cost = old[:0], 0
	return taken
}

// drop releases all datagrams of the queue.
func (q *datagrams) drop() {
	for i := range q.list {
		release(q.list, i)
	}
	q.list, q.cost = nil, 0
}

// copyTo copies the datagram to b; bytes that do not fit are lost.
func (d *datagram) copyTo(b []byte) int {
	if d.chunk == nil {
		return d.lent.CopyTo(b)
	}
	return copy(b, d.bytes())
}

// bytes returns the bytes of a datagram that is in a chunk.
func (d *datagram) bytes() []byte { return d.chunk.b[d.at : d.at+d.n] }

// release releases the memory of the i-th of the datagrams. They are released in order, because several share a chunk.
func release(list []datagram, i int) {
	d := &list[i]
	switch {
	case d.chunk == nil:
		_ = d.lent.Release()
	case i+1 == len(list) || list[i+1].chunk != d.chunk:
		d.chunk.free()
	}
	d.lent = buffers.Lent{} // chunk stays until the next has looked at it
}
