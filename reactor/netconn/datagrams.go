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

// reserve queues a datagram of n bytes and returns where they belong.
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

// lend queues a packet that was lent.
func (q *datagrams) lend(l buffers.Lent, n int, peer netip.AddrPort) {
	q.list = append(q.list, datagram{lent: l, n: n, peer: peer})
	q.cost += n + datagramCost
}

// take takes the whole queue; old, which was taken before and is used up, is filled next.
func (q *datagrams) take(old []datagram) []datagram {
	taken := q.list
	q.list, q.cost = old[:0], 0
	return taken
}

func (q *datagrams) drop() {
	for i := range q.list {
		done(q.list, i)
	}
	q.list, q.cost = nil, 0
}

// copyTo copies the datagram to b; what b has no room for is lost.
func (d *datagram) copyTo(b []byte) int {
	if d.chunk == nil {
		return d.lent.CopyTo(b)
	}
	return copy(b, d.bytes())
}

// bytes is the datagram if it is in a chunk.
func (d *datagram) bytes() []byte { return d.chunk.b[d.at : d.at+d.n] }

// done gives back what the i-th of the datagrams was in; they are given back in order.
func done(list []datagram, i int) {
	d := &list[i]
	switch {
	case d.chunk == nil:
		_ = d.lent.Release()
	case i+1 == len(list) || list[i+1].chunk != d.chunk:
		d.chunk.free()
	}
	d.lent = buffers.Lent{} // chunk stays until the next has looked at it
}
