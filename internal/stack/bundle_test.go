package stack

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// bundle is a stack with n links that have one interface.
func bundle(t *testing.T, n int) *world {
	return newWorld(t, func(c *Config) {
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
			w.Equal(i, w.s.pick(iface, hash))
		}
		w.s.SetDown(i, true)
	}
	w.Equal(-1, w.s.pick(iface, 1))
	w.s.SetDown(1, false)
	w.Equal(1, w.s.pick(iface, 1))
	w.Equal(-1, w.s.pick(iface+1, 1))
}

// Members of a bond: flows are spread evenly over those that are active, further queues and inactive ones get none, and what one of them
// has queued moves with it.
func TestMembersOfABond(t *testing.T) {
	w := bundle(t, 6)
	members := []Member{MemberActive, MemberQueue, MemberActive, MemberInactive, MemberActive, MemberActive}
	for i, m := range members {
		w.s.SetMember(i, m)
	}
	count := func() (n [6]int) {
		for hash := range uint32(6000) {
			n[w.s.pick(iface, hash*2654435769)]++
		}
		return n
	}
	for i, n := range count() {
		if members[i] != MemberActive {
			w.Zero(n, "%d", i)
			continue
		}
		w.InDelta(1500, n, 300, "%d", i)
	}
	stamp := w.s.stamp
	w.s.SetMember(2, MemberActive)
	w.Equal(stamp, w.s.stamp, "nothing has changed")
	w.s.SetMember(2, MemberInactive)
	w.NotEqual(stamp, w.s.stamp, "routes are found again")
	w.Zero(count()[2])
	w.s.SetDown(0, true)
	w.Zero(count()[0])

	p, err := w.pool.Alloc(1)
	w.NoError(err)
	p, err = w.pool.Transmit(p)
	w.NoError(err)
	w.s.queue(4, Out{Packet: p})
	w.s.SetMember(4, MemberInactive)
	w.Empty(w.s.Output(4))
	w.Len(w.s.Output(5), 1)
	w.Equal(1, w.s.Backlog())
	w.Equal(5, w.s.instead(4))
	w.s.SetMember(5, MemberInactive)
	w.Equal(-1, w.s.pick(iface, 0))
	w.Zero(w.s.Backlog(), "there is no other")
}

// A frame for a group is taken on a member that carries no traffic neither once nor twice; one for the station is, but not in active-backup.
func TestInactiveMemberHearsNoGroups(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	w.NoError(w.s.Join(w.now, id, grp, iface, none4))
	w.s.SetMember(0, MemberInactive)
	w.drop(wire.EthernetInactive, from(peer, grp, "x"))
	w.Len(w.in(from(peer, us, "x")), 1)
	w.s.SetMember(0, MemberBackup)
	w.drop(wire.EthernetInactive, from(peer, grp, "x"))
	w.drop(wire.EthernetInactive, from(peer, us, "x"))
	w.s.SetMember(0, MemberActive)
	w.Len(w.in(from(peer, us, "x")), 1)
}

// Interfaces of one wire are told apart by their tags, whichever link the frame came by; one that is down or deaf hears nothing.
func TestOneWire(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		tagged := c.Interfaces[0]
		tagged.VLAN = 5
		c.Interfaces[0].Wire, tagged.Wire = 1, 1
		c.Interfaces = append(c.Interfaces, tagged)
	})
	w.socket(udp.Endpoint{Local: us})
	tagged := from(peer, us, "x", func(d *datagram) { d.eth.Tag = 3<<13 | 5 })
	other := from(peer, us, "x", func(d *datagram) { d.eth.Tag = 6 })
	w.Len(w.in(tagged, from(peer, us, "x")), 2)
	w.drop(wire.EthernetTag, other)
	w.s.SetDown(1, true)
	w.drop(wire.EthernetTag, tagged)
	w.s.SetDown(1, false)
	w.s.SetDeaf(0, true)
	w.drop(wire.EthernetTag, from(peer, us, "x"))
	w.Len(w.in(tagged), 1)
	w.s.SetDeaf(0, false)
	w.Len(w.in(from(peer, us, "x")), 1)
}
