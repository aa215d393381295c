package simnet

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
)

// What seeds have found, each as the few operations that were left of it.

// A group that was joined by the routing table's choice is left by the interface's name, as with the kernel (ip_mc_leave_group), and
// the other way round. Seed 1: the stack went on delivering.
func TestLeaveByAnotherName(t *testing.T) {
	group := netip.MustParseAddr("233.252.0.1")
	for _, names := range [][2]string{{"", "eth0"}, {"eth0", ""}, {"", ""}, {"eth0", "eth0"}} {
		p := newPair(t, 1)
		a, b := p.udp(0, 7000), p.udp(1, 7001)
		p.NoError(b.SetMulticastAll(false))
		s, err := p.hosts[1].OpenUDP(netip.AddrPortFrom(group, 7000), ring.Config{})
		p.NoError(err)
		p.NoError(s.SetMulticastAll(false))
		send := func() {
			_, err := a.SendTo([]byte("x"), netip.AddrPortFrom(group, 7000))
			p.NoError(err)
			p.NoError(p.Run(p.Now() + time.Second))
		}
		p.NoError(s.JoinGroup(group, names[0], netip.Addr{}))
		send()
		p.Len(p.got[1], 1)
		p.NoError(s.LeaveGroup(group, names[1], netip.Addr{}))
		send()
		p.Len(p.got[1], 1, "joined on %q, left on %q", names[0], names[1])
		p.Equal(uint64(1), p.hosts[1].Counter("udp.group_not_joined"))
		p.Error(s.LeaveGroup(group, names[1], netip.Addr{}))
	}
}

// Datagrams that were kept for a socket are counted when it is closed. Seed 6: they went without a trace.
func TestKeptDatagramsOfAClosedSocket(t *testing.T) {
	p := newPair(t, 1)
	a, b := p.udp(0, 7000), p.udp(1, 7000)
	p.NoError(b.Suspend())
	for range 12 {
		p.send(a, b, "kept")
	}
	p.NoError(p.Run(time.Second))
	kept := p.hosts[1].Counter("stack.kept")
	require.Positive(t, kept)
	p.NoError(b.Close())
	p.NoError(p.Run(2 * time.Second))
	p.Empty(p.got[1])
	p.Equal(uint64(12), p.hosts[1].Counter("stack.discarded")+p.hosts[1].ring.Stats().ClosedDrops)
}
