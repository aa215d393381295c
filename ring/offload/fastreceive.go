package offload

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/udp"
)

// fastMeta is the ring.Meta of a fast flow's datagrams, made once for the flow.
type fastMeta struct {
	flow udp.Flow
	ring.Meta
}

// noFastPath turns receiveFast off: tests run the contract both ways.
var noFastPath = false

// receiveFast delivers the first frames of a burst of link i, as long as each belongs to a flow that the stack remembers, for one socket: their
// completions go straight into the caller's slice. It returns how many it has delivered. The first other frame and all behind it go through the
// stack, so that each socket's datagrams keep their order.
//
//	fast        the frame is looked at once: udp.MatchFast, ring.Sink.Frame
//	the others  ip.Stack.Input, udp.Protocol.Input, deliver, Sink.Datagram: several sockets, other rings, callbacks, stamps, backlogs, drops
func (d *driver) receiveFast(k *ring.Sink, i int, frames []link.Frame) int {
	if noFastPath || !d.udp.CanMatch(i) {
		return 0
	}
	for n := range frames {
		p := frames[n].Packet
		frame, whole := d.pool.View(p)
		if !whole { // in several buffers
			return n
		}
		x, length := d.udp.MatchFast(i, frame)
		if x == nil {
			return n
		}
		e := d.table.find(uint32(x.Owner), uint32(x.Owner>>32))
		if e == nil || e.stamped { // closed in this burst, or it wants a stamp, which deliver finds: m has none
			return n
		}
		m := &d.burst.fast[x.Slot]
		if m.flow != x.Flow {
			m.set(&x.Flow)
		}
		if !k.Frame(e.s, p, udp.FastOffset, length, &m.Meta) { // a callback, a queue, a limit: Sink.Datagram handles them
			return n
		}
		d.udp.CountFast()
	}
	return len(frames)
}

// set makes m the ring.Meta of flow f.
func (m *fastMeta) set(f *udp.Flow) {
	m.flow = *f
	m.Meta = ring.Meta{Source: netip.AddrPortFrom(netip.AddrFrom4(f.Source), f.SourcePort), Destination: netip.AddrFrom4(f.Target),
		IfIndex: f.Interface}
}
