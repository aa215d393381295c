package offload_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// manyGroups is a number of groups for which one descriptor has no room.
const manyGroups = 64

func groupNumber(i int) netip.Addr { return netip.AddrFrom4([4]byte{239, 7, byte(i >> 8), byte(i)}) }

// many is a socket on a cable whose program can be taken off, and its peer, which numbers what it sends.
type many struct {
	*watcher
	shared *shared
	detach func()
	next   uint64
}

func newMany(t *testing.T) *many {
	s, detach := detachable(t)
	set, _ := s.set(nil)
	m := &many{shared: s, detach: detach}
	m.watcher = &watcher{t: t, s: s.open(set, "0.0.0.0:7000"), dst: make([]ring.Completion, 64), seen: map[uint64]bool{}}
	m.poll()
	return m
}

func (m *many) join(list ...int) {
	m.t.Helper()
	for _, i := range list {
		require.NoError(m.t, m.s.JoinGroup(groupNumber(i), "v0", netip.Addr{}))
	}
}

// send has the peer send one datagram to each address and returns how many it has sent before.
func (m *many) send(to ...netip.Addr) (first uint64) {
	first = m.next
	for _, a := range to {
		p := m.shared.Dial(netip.AddrPortFrom(a, 7000))
		_, err := p.Write(binary.LittleEndian.AppendUint64(nil, m.next))
		require.NoError(m.t, err)
		require.NoError(m.t, p.Close())
		m.next++
	}
	return first
}

// receives polls until all that was sent has come, none twice, and reports how many of them by the shadow.
func (m *many) receives(what string, to ...netip.Addr) (os int) {
	m.t.Helper()
	before := m.os
	first := m.send(to...)
	m.until(what, func() bool {
		for i := first; i < m.next; i++ {
			if !m.seen[i] {
				return false
			}
		}
		return true
	})
	return m.os - before
}

// receivesNone sends to what is not to be received, then to our address, which comes later and is.
func (m *many) receivesNone(what string, to ...netip.Addr) {
	m.t.Helper()
	first := m.send(to...)
	m.receives(what, m.shared.Local())
	for i := range to {
		require.False(m.t, m.seen[first+uint64(i)], "%s: %v", what, to[i])
	}
}

// byShadow takes the program off; hold keeps it off.
func (m *many) byShadow() (end func()) {
	m.detach()
	end = m.shared.occupy()
	m.until("the shadow alone", func() bool { return m.s.Path().Tier == "kernel" })
	return end
}

func numbers(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

func groupsOf(list []int) (groups []netip.Addr) {
	for _, i := range list {
		groups = append(groups, groupNumber(i))
	}
	return groups
}

// descriptors counts the process's sockets.
func descriptors(t *testing.T) (n int) {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// member reports whether the host is a member of a group on v0 (/proc/net/igmp: hexadecimal, as it lies in memory).
func member(t *testing.T, group netip.Addr) bool {
	text, err := os.ReadFile("/proc/thread-self/net/igmp")
	require.NoError(t, err)
	b := group.As4()
	return strings.Contains(string(text), fmt.Sprintf("\t%08X ", binary.NativeEndian.Uint32(b[:])))
}

// A socket in more groups than one descriptor may have: each datagram comes once by the link, and once by the shadow when the program is
// gone; what was left is not received, and nothing is left over at the end.
func TestMoreGroupsThanADescriptorHas(t *testing.T) {
	for _, all := range []bool{true, false} {
		t.Run(fmt.Sprintf("IP_MULTICAST_ALL=%v", all), func(t *testing.T) {
			m := newMany(t)
			require.NoError(t, m.s.SetMulticastAll(all))
			every := numbers(0, manyGroups)
			m.join(every[0]) // the search for other members has descriptors too
			before := descriptors(t)
			m.join(every[1:]...)
			require.Equal(t, before+(manyGroups-1)/20, descriptors(t), "one for each further twenty")
			if all {
				require.NoError(t, m.s.SetMulticastAll(false)) // also while there are holders
				require.NoError(t, m.s.SetMulticastAll(true))
			}
			require.ErrorIs(t, m.s.JoinGroup(groupNumber(3), "v0", netip.Addr{}), unix.EADDRINUSE, "the shadow's")
			require.ErrorIs(t, m.s.JoinGroup(groupNumber(50), "v0", netip.Addr{}), unix.EADDRINUSE, "a holder's")

			// Somebody else's group, which only IP_MULTICAST_ALL lets in.
			stranger := m.shared.open(m.shared.sets[0], "0.0.0.0:7009")
			foreign := groupNumber(1000)
			require.NoError(t, stranger.JoinGroup(foreign, "v0", netip.Addr{}))

			m.poll()
			m.until("the claims are made", func() bool { m.poll(); return m.s.Path().Tier == "bypass" })
			require.Zero(t, m.receives("by the link", groupsOf(every)...))
			require.Zero(t, m.receives("unicast by the link", m.shared.Local()))

			narrow := func() { // a group of a holder, to a source that sends nothing, and back
				for _, i := range []int{3, 50} {
					require.NoError(t, m.s.JoinGroup(groupNumber(i), "v0", netip.MustParseAddr("10.0.0.99")))
					m.receivesNone("narrowed", groupNumber(i))
					require.NoError(t, m.s.LeaveGroup(groupNumber(i), "v0", netip.Addr{}))
					require.False(t, member(t, groupNumber(i)))
					m.join(i)
				}
			}
			narrow()
			end := m.byShadow()
			narrow()
			require.Equal(t, manyGroups, m.receives("by the shadow", groupsOf(every)...))
			require.Equal(t, 1, m.receives("unicast by the shadow", m.shared.Local()))
			if all {
				m.receives("a stranger's group", foreign)
			} else {
				m.receivesNone("a stranger's group", foreign)
				require.NotZero(t, counter(m.s.Ring(), "offload.os_unheard"))
			}
			for _, i := range []int{2, 33, manyGroups - 1} {
				require.True(t, member(t, groupNumber(i)))
				require.NoError(t, m.s.LeaveGroup(groupNumber(i), "v0", netip.Addr{}))
				require.False(t, member(t, groupNumber(i)), "the host is no member any more")
				require.ErrorIs(t, m.s.LeaveGroup(groupNumber(i), "v0", netip.Addr{}), unix.EADDRNOTAVAIL)
			}
			m.receivesNone("left", groupNumber(2), groupNumber(33), groupNumber(manyGroups-1))
			m.join(33)
			m.receives("joined again", groupNumber(33), groupNumber(34))
			end()
			m.until("back", func() bool { return m.s.Path().Tier == "bypass" })
			m.receives("by the link again", groupNumber(0), groupNumber(33), groupNumber(60))
			m.receivesNone("left, by the link", groupNumber(2))

			require.NoError(t, m.s.Close())
			for i := 0; i < 100 && descriptors(t) > before; i++ {
				m.poll()
			}
			require.Less(t, descriptors(t), before+2, "the holders are closed")
			for _, i := range every {
				require.False(t, member(t, groupNumber(i)), "group %d", i)
			}
		})
	}
}

// The last holder goes with the last group that it has, and IP_MULTICAST_ALL is again what the application said.
func TestHoldersGo(t *testing.T) {
	const ipMulticastAll = 49 // linux/in.h
	m := newMany(t)
	require.NoError(t, m.s.SetMulticastAll(false))
	kernel := func() int {
		v, err := unix.GetsockoptInt(kernel.FD(m.s), unix.IPPROTO_IP, ipMulticastAll)
		require.NoError(t, err)
		return v
	}
	m.join(0) // the search for other members has descriptors too
	before := descriptors(t)
	m.join(numbers(1, 41)...)
	require.Equal(t, before+2, descriptors(t))
	require.Equal(t, 1, kernel())
	for i := 20; i < 41; i++ {
		require.NoError(t, m.s.LeaveGroup(groupNumber(i), "", netip.Addr{}), "the routing table's interface")
	}
	require.Equal(t, before, descriptors(t))
	require.Equal(t, 0, kernel())
	m.join(20)
	require.Equal(t, 1, kernel())
}

// More sources of one group than net.ipv4.igmp_max_msf, and one source each of more groups than a descriptor has.
func TestMoreSourcesThanADescriptorHas(t *testing.T) {
	m := newMany(t)
	source := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(2 + i)}) }
	m.shared.InPeer(func() {
		for i := 1; i < 32; i++ {
			m.shared.address("p0", source(i).String()+"/24")
		}
	})
	group := groupNumber(1)
	const sources = 25
	for i := range sources {
		require.NoError(t, m.s.JoinGroup(group, "v0", source(i)), "source %d", i)
	}
	require.ErrorIs(t, m.s.JoinGroup(group, "v0", source(3)), unix.EADDRNOTAVAIL)
	require.ErrorIs(t, m.s.JoinGroup(group, "v0", source(24)), unix.EADDRNOTAVAIL)
	for i := 2; i < 40; i++ {
		require.NoError(t, m.s.JoinGroup(groupNumber(i), "v0", source(0)))
	}
	// Another socket lets every source in at the host's filter.
	stranger := m.shared.open(m.shared.sets[0], "0.0.0.0:7009")
	require.NoError(t, stranger.JoinGroup(group, "v0", netip.Addr{}))
	from := func(what string, heard bool, list ...int) {
		t.Helper()
		first := m.next
		for _, i := range list {
			m.shared.sendFrom(source(i), netip.AddrPortFrom(group, 7000), m.next)
			m.next++
		}
		m.receives(what, groupNumber(39))
		m.until(what, func() bool {
			for i := range list {
				if m.seen[first+uint64(i)] != heard {
					return false
				}
			}
			return true
		})
	}
	for _, way := range []string{"by the link", "by the shadow"} {
		from(way, true, numbers(0, sources)...)
		from(way+", not joined", false, 25, 30)
		if way == "by the link" {
			defer m.byShadow()()
		}
	}
	require.NoError(t, m.s.LeaveGroup(group, "v0", source(12)))
	require.ErrorIs(t, m.s.LeaveGroup(group, "v0", source(12)), unix.EADDRNOTAVAIL)
	from("left", false, 12)
	from("the others", true, 0, 11, 13, 24)
	require.NoError(t, m.s.JoinGroup(group, "v0", source(12)))
	from("joined again", true, 12, 0)
}

// Without a descriptor to be had the join fails with the group's name, and all is as it was.
func TestNoDescriptorForMoreGroups(t *testing.T) {
	m := newMany(t)
	m.join(numbers(0, 20)...)
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	highest := 0
	for _, e := range list {
		n, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		highest = max(highest, n)
	}
	var spare []int // the holes below the highest are filled: then the limit is where the next one would be
	for {
		fd, err := unix.Dup(0)
		require.NoError(t, err)
		spare = append(spare, fd)
		if fd > highest {
			break
		}
	}
	now := was
	now.Cur = uint64(spare[len(spare)-1]) + 1
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &now))
	err = m.s.JoinGroup(groupNumber(20), "", netip.Addr{}) // finding an interface by name takes a descriptor too
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	for _, fd := range spare {
		require.NoError(t, unix.Close(fd))
	}
	require.ErrorIs(t, err, unix.EMFILE)
	require.ErrorContains(t, err, groupNumber(20).String())
	require.False(t, member(t, groupNumber(20)))
	require.Len(t, ring.OptionsOf(m.s).Groups, 20)
	m.receives("as before", groupsOf(numbers(0, 20))...)
	m.join(20)
	m.receives("now", groupNumber(20))
}

// An interface that was deleted and made again has the holders' memberships too.
func TestHoldersOfAnInterfaceMadeAgain(t *testing.T) {
	m := newMany(t)
	every := numbers(0, 45)
	m.join(every...)
	m.shared.unplug()
	m.until("gone", func() bool { return strings.Contains(m.s.Path().Explain(), "link.gone") })
	m.shared.Again(0)
	m.until("back", func() bool { return m.s.Path().Tier == "bypass" })
	require.NotContains(t, m.s.Path().Explain(), "link.not_joined")
	for _, i := range every {
		require.True(t, member(t, groupNumber(i)), "group %d", i)
	}
	m.receives("all", groupsOf(every)...)
	require.NoError(t, m.s.LeaveGroup(groupNumber(40), "v0", netip.Addr{}))
	require.False(t, member(t, groupNumber(40)))
	m.receivesNone("left", groupNumber(40))
}

// occupy puts another program on the interface, as another process could: ours cannot come back before its end.
func (s *shared) occupy() (end func()) {
	other, err := xdp.Open(xdp.Config{Interface: "v0"})
	require.NoError(s.t, err)
	return func() { require.NoError(s.t, other.Close()) }
}

// unplug deletes the cable.
func (c *cable) unplug() {
	l, err := netlink.LinkByName("v0")
	require.NoError(c.t, err)
	require.NoError(c.t, netlink.LinkDel(l))
}

// address gives an interface of the thread's present namespace one more address.
func (c *cable) address(name, prefix string) {
	l, err := netlink.LinkByName(name)
	require.NoError(c.t, err)
	a, err := netlink.ParseAddr(prefix)
	require.NoError(c.t, err)
	require.NoError(c.t, netlink.AddrAdd(l, a))
}

// sendFrom has the peer send a number from one of its addresses.
func (c *cable) sendFrom(from netip.Addr, to netip.AddrPort, number uint64) {
	c.InPeer(func() {
		p, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(to))
		require.NoError(c.t, err)
		_, err = p.Write(binary.LittleEndian.AppendUint64(nil, number))
		require.NoError(c.t, err)
		require.NoError(c.t, p.Close())
	})
}

// The kernel's side has room for what comes while its owner is kept from polling, but no more than the application asked for.
func TestShadowHasRoom(t *testing.T) {
	s := newShared(t, 1)
	set, _ := s.set(nil)
	room := func(u *ring.Socket) int {
		n, err := unix.GetsockoptInt(u.ID(), unix.SOL_SOCKET, unix.SO_RCVBUF)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 8<<20, room(s.open(set, "10.0.0.1:7000")))
	u, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
	require.NoError(t, err)
	require.NoError(t, u.SetReceiveBuffer(64<<10))
	require.NoError(t, u.Bind(netip.MustParseAddrPort("10.0.0.1:7001")))
	require.Equal(t, 128<<10, room(u))
}
