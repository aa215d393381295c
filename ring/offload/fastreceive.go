package offload

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/udp"
)

// fastMeta is what the ring is told of the datagrams of a fast flow, made once.
type fastMeta struct {
	flow udp.Flow
	ring.Meta
}

// noFastPath turns receiveFast off: tests run the contract both ways.
var noFastPath = false

// receiveFast delivers frames of a link, the first ones, that need nothing but their own headers: each is of a flow that the stack
// remembers, for one socket, and its completion goes straight into the caller's slice. It returns how many it has delivered. From the first
// other frame on all are the stack's, so that each socket's datagrams keep their order.
//
//	fast        the frame is looked at once: udp.MatchFast, ring.Sink.Frame
//	the others  ip.Stack.Input, udp.Protocol.Input, hand, ring.Sink.Datagram: several sockets, other rings, callbacks, stamps, backlogs, drops
func (d *driver) receiveFast(k *ring.Sink, i int, frames []link.Frame) int {
	if noFastPath || !d.udp.CanMatch(i) {
		return 0
	}
	for n := range frames {
		p := frames[n].Packet
		frame, whole := d.pool.View(p)
		if !whole {
			return n
		}
		x, length := d.udp.MatchFast(i, frame)
		if x == nil {
			return n
		}
		e := d.table.find(uint32(x.Owner), uint32(x.Owner>>32))
		if e == nil || e.stamped {
			return n
		}
		m := &d.fast[x.Slot]
		if m.flow != x.Flow {
			m.set(&x.Flow)
		}
		if !k.Frame(e.s, p, udp.FastOffset, length, &m.Meta) {
			return n
		}
		d.udp.CountFast()
	}
	return len(frames)
}

func (m *fastMeta) set(f *udp.Flow) {
	m.flow = *f
	m.Meta = ring.Meta{Source: netip.AddrPortFrom(netip.AddrFrom4(f.Source), f.SourcePort), Destination: netip.AddrFrom4(f.Target),
		IfIndex: f.Interface}
}
