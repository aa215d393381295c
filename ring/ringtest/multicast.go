package ringtest

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// multicastOptions: multicast leaves with a time to live of 1 and comes back to members of this host, as Linux has it (VMA: 64, and the
// receiver's choice). Switching the loop off stops the sender's datagrams here, and it alone; sources can be added and taken away one by one.
func multicastOptions(t *testing.T, b Backend) {
	w := newWorld(t, b)
	option := func(s *ring.Socket, option, want int) {
		t.Helper()
		switch option {
		case unix.IP_MULTICAST_TTL:
			w.Equal(want, ring.OptionsOf(s).MulticastTTL)
		case unix.IP_MULTICAST_LOOP:
			w.Equal(want == 1, ring.OptionsOf(s).MulticastLoop)
		}
		if b.Open == nil {
			got, err := unix.GetsockoptInt(s.ID(), unix.IPPROTO_IP, option)
			w.NoError(err)
			w.Equal(want, got)
		}
	}
	g := netip.AddrPortFrom(group(9), freePort(t).Port())
	member := w.groupMember(g, w.local.Addr())
	mute := w.udp(w.local)
	option(mute, unix.IP_MULTICAST_TTL, 1)
	option(mute, unix.IP_MULTICAST_LOOP, 1)
	w.NoError(mute.SetMulticastInterface(w.lo))
	w.NoError(mute.SetMulticastTTL(0))
	option(mute, unix.IP_MULTICAST_TTL, 0)
	w.NoError(mute.SetMulticastLoop(false))
	option(mute, unix.IP_MULTICAST_LOOP, 0)
	heard := w.groupSender()
	send := func(s *ring.Socket, text string) {
		t.Helper()
		_, err := s.SendTo([]byte(text), g)
		w.NoError(err)
		w.flush()
	}
	send(mute, "muted")
	if w.lo == "lo" {
		w.Equal("muted", string(w.read(member, 5)), "there the wire itself leads back to this host")
	}
	send(heard, "heard")
	w.Equal("heard", string(w.read(member, 5)))

	// A second source of the group on the same socket, and the first one gone.
	other := w.udp(netip.AddrPortFrom(w.peers.Other(), 0))
	w.NoError(other.SetMulticastInterface(w.lo))
	w.NoError(other.SetMulticastTTL(0))
	send(other, "a stranger")
	w.silent(5 * time.Millisecond)
	w.NoError(member.JoinGroup(g.Addr(), w.lo, w.peers.Other()))
	send(other, "welcome")
	w.Equal("welcome", string(w.read(member, 7)))
	w.NoError(member.LeaveGroup(g.Addr(), w.lo, w.local.Addr()))
	send(heard, "not any more")
	w.silent(5 * time.Millisecond)
	send(other, "still")
	w.Equal("still", string(w.read(member, 5)))
	w.silent(5 * time.Millisecond)
	w.ErrorContains(member.LeaveGroup(g.Addr(), w.lo, w.local.Addr()), w.local.Addr().String())
}

// membershipLimit: one group more than net.ipv4.igmp_max_memberships: a socket of the kernel's is refused, by the limit's name; one that a
// driver carries over a kernel has further descriptors for it, and a network of our own has no such limit. Nothing is half done.
func membershipLimit(t *testing.T, b Backend) {
	w := newWorld(t, b)
	text, err := os.ReadFile("/proc/sys/net/ipv4/igmp_max_memberships")
	w.NoError(err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	w.NoError(err)
	if limit > 1000 {
		testnet.Missing(t, "memberships", fmt.Sprintf("a net.ipv4.igmp_max_memberships of at most 1,000, it is %d", limit))
	}
	numbered := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{239, 9, byte(i >> 8), byte(i)}) }
	u := w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	for i := range limit {
		w.NoError(u.JoinGroup(numbered(i), w.lo, netip.Addr{}), "group %d", i)
	}
	err = u.JoinGroup(numbered(limit), w.lo, netip.Addr{})
	if u.IsOffloaded() || b.Open != nil {
		w.NoError(err)
		w.NoError(u.LeaveGroup(numbered(limit), w.lo, netip.Addr{}))
		return
	}
	w.ErrorIs(err, unix.ENOBUFS)
	w.ErrorContains(err, numbered(limit).String())
	w.ErrorContains(err, strconv.Itoa(limit)+" groups (net.ipv4.igmp_max_memberships)")
	w.Len(ring.OptionsOf(u).Groups, limit)
	w.NoError(u.LeaveGroup(numbered(0), w.lo, netip.Addr{}))
	w.NoError(u.JoinGroup(numbered(limit), w.lo, netip.Addr{}))

	u = w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	for i := 1; err == nil || i == 1; i++ {
		w.Less(i, 250, "no limit of sources")
		err = u.JoinGroup(numbered(0), w.lo, netip.AddrFrom4([4]byte{127, 0, 0, byte(i)}))
	}
	w.ErrorIs(err, unix.ENOBUFS)
	w.ErrorContains(err, "sources of one group (net.ipv4.igmp_max_msf)")
}
