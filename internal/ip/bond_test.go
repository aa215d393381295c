package ip_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// bundle is a stack with n links that have one interface.
func bundle(t *testing.T, n int) *world {
	return newWorld(t, func(c *ip.Config) {
		for range n - 1 {
			c.Interfaces = append(c.Interfaces, c.Interfaces[0])
		}
	})
}

// Queues of one card: the first that is not down sends.
func TestFirstQueueSends(t *testing.T) {
	w := bundle(t, 3)
	for i := range 3 {
		for hash := range uint32(100) {
			w.Equal(i, w.IP.PickLink(iface, hash))
		}
		w.IP.SetDown(i, true)
	}
	w.Equal(-1, w.IP.PickLink(iface, 1))
	w.IP.SetDown(1, false)
	w.Equal(1, w.IP.PickLink(iface, 1))
	w.Equal(-1, w.IP.PickLink(iface+1, 1))
}

// Members of a bond: flows are spread evenly over those that are active, further queues and inactive ones get none, and what one of them
// has queued moves with it.
func TestMembersOfABond(t *testing.T) {
	w := bundle(t, 6)
	members := []ip.Member{ip.MemberActive, ip.MemberQueue, ip.MemberActive, ip.MemberInactive, ip.MemberActive, ip.MemberActive}
	for i, m := range members {
		w.IP.SetMember(i, m)
	}
	count := func() (n [6]int) {
		for hash := range uint32(6000) {
			n[w.IP.PickLink(iface, hash*2654435769)]++
		}
		return n
	}
	for i, n := range count() {
		if members[i] != ip.MemberActive {
			w.Zero(n, "%d", i)
			continue
		}
		w.InDelta(1500, n, 300, "%d", i)
	}
	stamp := *w.IP.RouteGeneration()
	w.IP.SetMember(2, ip.MemberActive)
	w.Equal(stamp, *w.IP.RouteGeneration(), "nothing has changed")
	w.IP.SetMember(2, ip.MemberInactive)
	w.NotEqual(stamp, *w.IP.RouteGeneration(), "routes are found again")
	w.Zero(count()[2])
	w.IP.SetDown(0, true)
	w.Zero(count()[0])

	p, err := w.Pool.Alloc(1)
	w.NoError(err)
	p, err = w.Pool.Transmit(p)
	w.NoError(err)
	w.IP.QueueOn(4, ip.Out{Packet: p})
	w.IP.SetMember(4, ip.MemberInactive)
	w.Empty(w.IP.Output(4))
	w.Len(w.IP.Output(5), 1)
	w.Equal(1, w.IP.Queued())
	w.Equal(5, w.IP.SendingLink(4))
	w.IP.SetMember(5, ip.MemberInactive)
	w.Equal(-1, w.IP.PickLink(iface, 0))
	w.Zero(w.IP.Queued(), "there is no other")
}

// A frame for a group is taken on a member that carries no traffic neither once nor twice; one for the station is, but not in active-backup.
func TestInactiveMemberHearsNoGroups(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	w.NoError(w.UDP.Join(w.Now, id, grp, iface, none4))
	w.IP.SetMember(0, ip.MemberInactive)
	w.Drop(wire.EthernetInactive, iptest.From(peer, grp, "x"))
	w.Len(w.In(iptest.From(peer, us, "x")), 1)
	w.IP.SetMember(0, ip.MemberBackup)
	w.Drop(wire.EthernetInactive, iptest.From(peer, grp, "x"))
	w.Drop(wire.EthernetInactive, iptest.From(peer, us, "x"))
	w.IP.SetMember(0, ip.MemberActive)
	w.Len(w.In(iptest.From(peer, us, "x")), 1)
}

// Interfaces of one wire are told apart by their tags, whichever link the frame came by; one that is down, or whose VLAN is, receives nothing.
func TestOneWire(t *testing.T) {
	w := newWorld(t, func(c *ip.Config) {
		tagged := c.Interfaces[0]
		tagged.VLAN = 5
		c.Interfaces[0].Wire, tagged.Wire = 1, 1
		c.Interfaces = append(c.Interfaces, tagged)
	})
	w.Socket(udp.Endpoint{Local: us})
	tagged := iptest.From(peer, us, "x", func(d *iptest.Datagram) { d.Eth.Tag = 3<<13 | 5 })
	other := iptest.From(peer, us, "x", func(d *iptest.Datagram) { d.Eth.Tag = 6 })
	w.Len(w.In(tagged, iptest.From(peer, us, "x")), 2)
	w.Drop(wire.EthernetTag, other)
	w.IP.SetDown(1, true)
	w.Drop(wire.EthernetTag, tagged)
	w.IP.SetDown(1, false)
	w.IP.SetVLANDown(0, true)
	w.Drop(wire.EthernetTag, iptest.From(peer, us, "x"))
	w.Len(w.In(tagged), 1)
	w.IP.SetVLANDown(0, false)
	w.Len(w.In(iptest.From(peer, us, "x")), 1)
}
