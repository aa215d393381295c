package udp

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// loopLimit is how many datagrams of this stack for itself may wait for Loop.
const loopLimit = 256

// loopedDatagram is a datagram from this stack for this stack.
type loopedDatagram struct {
	packet buffers.Packet // the payload, received
	flow   Flow
}

// queueLooped copies a datagram that this host's own sockets receive, because it is sent to a local address or to a group with members here.
// Loop delivers it.
func (u *Protocol) queueLooped(x *destination, payload []byte) {
	f := Flow{Source: x.route.Source, Target: x.to, SourcePort: u.table.Endpoint(x.id).LocalPort, TargetPort: x.port,
		Interface: uint32(x.route.Interface)}
	switch {
	case x.to.IsMulticast() && !u.joined(x.to, f.Interface):
		return
	case len(u.looped) >= loopLimit:
		u.stats.LoopFull++
		return
	}
	const account = 0 // charged when it is delivered
	p, room := u.allocReceived(len(payload), account)
	if p.IsZero() {
		u.stats.NoBuffer++
		return
	}
	copy(room, payload)
	u.looped = append(u.looped, loopedDatagram{p, f})
}

// joined reports whether a socket of this stack, or of another one in the directory, is a member of a group.
func (u *Protocol) joined(group wire.Addr, iface uint32) bool {
	u.chooseTable()
	return u.lookup.Joined(group, iface)
}

// Looping reports whether Loop has something to deliver.
func (u *Protocol) Looping() bool { return len(u.looped) > 0 }

// Loop delivers the datagrams that this stack has sent to itself.
func (u *Protocol) Loop() {
	for n := range u.looped {
		x := &u.looped[n]
		u.stats.Looped++
		before := len(u.deliveries)
		u.deliverLooped(x)
		if len(u.deliveries) == before {
			_ = x.packet.Release() // received, alone
		}
		*x = loopedDatagram{}
	}
	u.looped = u.looped[:0]
}

// deliverLooped delivers one looped datagram to its sockets, those of other stacks in the directory included if it is for a group.
func (u *Protocol) deliverLooped(x *loopedDatagram) {
	u.ids = u.ids[:0]
	f, payload := ip.Frame{Packet: x.packet}, x.packet.Bytes()
	drop := wire.Accept
	switch to := u.stack.AddressKind(x.flow.Target, x.flow.Interface); {
	case to == ip.AddressBroadcast:
		u.ids, drop = u.table.Broadcast(&x.flow, u.ids)
	case x.flow.Target.IsMulticast():
		if u.chooseTable(); u.snapshot != nil {
			if u.ids, drop = u.lookup.Multicast(&x.flow, u.ids); drop != wire.Accept {
				u.drops[drop]++
			}
			u.deliverToMembers(u.ids, &f, &x.flow, payload, 0)
			return
		}
		u.ids, drop = u.table.Multicast(&x.flow, u.ids)
	default:
		var id ID
		if id, drop = u.table.Unicast(&x.flow); drop == wire.Accept {
			u.ids = append(u.ids, id)
		}
	}
	before := len(u.deliveries)
	for _, id := range u.ids {
		u.deliver(id, &f, &x.flow, payload, 0, before)
	}
	if drop != wire.Accept {
		u.drops[drop]++
		if drop == wire.UDPNoSocket || drop == wire.UDPForeignPeer {
			u.refuseLooped(&x.flow)
		}
	}
}
