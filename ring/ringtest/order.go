package ringtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// sliceOfOne is the case "a slice of length 1 loses nothing".
func sliceOfOne(t *testing.T, b Backend) {
	w := newWorld(t, b)
	w.room = 1
	if !b.Streams {
		u := w.udp(w.local)
		up := w.udpPeer(u.LocalAddr())
		const n = 100
		for i := range n {
			w.write(up, binary.LittleEndian.AppendUint32(nil, uint32(i)))
		}
		for i := range n {
			c := w.event(u, ring.EventPacket, nil)
			w.Equal(uint32(i), binary.LittleEndian.Uint32(c.Packet.Bytes()))
			w.NoError(c.Packet.Release())
		}
	}
	if b.Datagrams {
		return
	}
	s, peer := w.pair()
	w.write(peer, []byte("abc"))
	w.NoError(peer.CloseWrite())
	w.Equal("abc", string(w.read(s, 3)))
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.closeAndWait(s)
}

// userDataLatch is the case "user data is latched when the event is raised".
func userDataLatch(t *testing.T, b Backend) {
	w := newWorld(t, b)
	if !b.Datagrams {
		s, peer := w.pair()
		s.SetUserData(1)
		w.write(peer, []byte("x"))
		c := w.event(s, ring.EventPacket, nil)
		w.Equal(uint64(1), c.UserData)
		w.NoError(c.Packet.Release())
	}
	if b.Streams {
		return
	}

	// The deadlines of three sockets pass before one Poll, which has room for one completion: the other two are raised as well, with the user
	// data of that time.
	u := w.socket(ring.KindDatagram, w.local)
	w.NoError(u.Bind(w.local))
	up := w.udpPeer(u.LocalAddr())
	sockets := []*ring.Socket{u}
	for range 2 {
		x := w.socket(ring.KindDatagram, w.local)
		w.NoError(x.Bind(w.local))
		sockets = append(sockets, x)
	}
	w.poll()
	for _, x := range sockets {
		w.NoError(x.SetUserData(7))
		w.NoError(x.SetReadDeadline(time.Now().Add(time.Millisecond)))
	}
	time.Sleep(20 * time.Millisecond)
	w.room = 1
	for len(w.kept) == 0 {
		w.poll()
	}
	for _, x := range sockets {
		w.NoError(x.SetUserData(8))
	}
	for _, x := range sockets {
		c := w.completionOf(x)
		w.ErrorIs(c.Err, os.ErrDeadlineExceeded)
		w.Equal(uint64(7), c.UserData)
		w.NoError(x.SetReadDeadline(time.Time{}))
	}
	w.room = 64
	w.write(up, []byte("y"))
	c := w.event(u, ring.EventPacket, nil)
	w.Equal(uint64(8), c.UserData)
	w.NoError(c.Packet.Release())
	for _, x := range sockets[1:] {
		w.closeAndWait(x)
	}
}

// userDataOnNewConnection is the case "user data set on a new connection is on all that follows".
func userDataOnNewConnection(t *testing.T, b Backend) {
	w := newWorld(t, b)
	l := w.listen()
	for i := range 50 {
		peer := w.dial(l)
		c := w.accept(l)
		w.Equal(uint64(c.Socket.ID()), c.UserData)
		w.write(peer, []byte("x"))
		w.NoError(peer.CloseWrite())
		c.Socket.SetUserData(uint64(1000 + i))
		w.release(c)
		for ended := false; !ended; {
			d := w.completionOf(c.Socket)
			w.Equal(uint64(1000+i), d.UserData)
			w.release(d)
			ended = d.Events.Has(ring.EventRdHup)
		}
		w.closeAndWait(c.Socket)
	}
}

// packetsQueue is the case "packets queue and keep their order".
func packetsQueue(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	peer := w.udpPeer(u.LocalAddr())
	const n = 200
	for round := range 5 {
		w.room = []int{1, 2, 3, 7, 64}[round]
		for i := range n {
			w.write(peer, fmt.Appendf(nil, "%d/%d", round, i))
		}
		for i := range n {
			c := w.event(u, ring.EventPacket, nil)
			w.Equal(fmt.Sprintf("%d/%d", round, i), string(c.Packet.Bytes()))
			w.NoError(c.Packet.Release())
		}
	}
	// Two of one socket in one batch: two completions, two packets.
	w.room = 64
	w.write(peer, []byte("one"))
	w.write(peer, []byte("two"))
	time.Sleep(time.Millisecond)
	one, two := w.event(u, ring.EventPacket, nil), w.event(u, ring.EventPacket, nil)
	w.Equal("one", string(one.Packet.Bytes()))
	w.Equal("two", string(two.Packet.Bytes()))
	w.NoError(one.Packet.Release())
	w.NoError(two.Packet.Release())
}

// zeroLength is the case "a zero-length datagram, then a normal one".
func zeroLength(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	peer := w.udpPeer(u.LocalAddr())
	for range 20 {
		w.write(peer, nil)
		w.write(peer, []byte("normal"))
		c := w.event(u, ring.EventPacket, nil)
		w.Equal(0, c.Packet.Len())
		w.Equal(peer.LocalAddr().(*net.UDPAddr).AddrPort(), c.Source)
		w.NoError(c.Packet.Release())
		c = w.event(u, ring.EventPacket, nil)
		w.Equal("normal", string(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
	}
	n, err := u.SendTo(nil, peer.LocalAddr().(*net.UDPAddr).AddrPort())
	w.NoError(err)
	w.Zero(n)
	w.flush()
	n, err = peer.Read(make([]byte, 4))
	w.NoError(err)
	w.Zero(n)
}

// largestDatagram is the case "65,507 bytes".
func largestDatagram(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	peer := w.udpPeer(u.LocalAddr())
	w.NoError(peer.SetReadBuffer(1 << 20))
	big := make([]byte, 65507)
	for i := range big {
		big[i] = byte(i * 7)
	}
	w.write(peer, big)
	c := w.event(u, ring.EventPacket, nil)
	w.Equal(65507, c.Packet.Len())
	w.True(bytes.Equal(big, c.Packet.Bytes()))
	w.NoError(c.Packet.Release())

	n, err := u.SendTo(big, c.Source)
	w.NoError(err)
	w.Equal(65507, n)
	w.flush()
	got := make([]byte, 1<<16)
	n, err = peer.Read(got)
	w.NoError(err)
	w.True(bytes.Equal(big, got[:n]))
	_, err = u.SendTo(make([]byte, 65508), c.Source)
	w.ErrorIs(err, unix.EMSGSIZE)
}

// truncated is the case "a datagram is never cut silently".
func truncated(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local, ring.Config{LargestDatagram: 1000}) // small buffers
	peer := w.udpPeer(u.LocalAddr())
	w.write(peer, make([]byte, 2048))
	c := w.event(u, ring.EventPacket, nil)
	w.Equal(2048, c.Packet.Len()) // more than was asked for is no reason to cut
	w.NoError(c.Packet.Release())
	w.write(peer, make([]byte, 9000))
	if b.Whole {
		c = w.event(u, ring.EventPacket, nil)
		w.Equal(9000, c.Packet.Len())
		w.NoError(c.Packet.Release())
		return
	}
	c = w.event(u, ring.EventPacket, ring.ErrTruncated)
	w.GreaterOrEqual(c.Packet.Len(), 2048)
	w.NoError(c.Packet.Release())
	w.write(peer, []byte("next"))
	w.Equal("next", string(w.read(u, 4)))
	w.Equal(uint64(1), u.Ring().Stats().Truncated)
}

// group is one of the groups set aside for documentation and tests (RFC 6676).
func group(n byte) netip.Addr { return netip.AddrFrom4([4]byte{233, 252, 0, n}) }

// groupMember opens a socket that is bound to a group and joins it on loopback; the case is skipped if loopback has no multicast.
func (w *world) groupMember(g netip.AddrPort, source netip.Addr) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindDatagram, g)
	w.NoError(s.SetReuseAddr(true))
	w.NoError(s.SetMulticastAll(false))
	if err := s.JoinGroup(g.Addr(), w.lo, source); err != nil {
		w.NoError(s.Abort())
		testnet.Missing(w.t, "multicast", err)
	}
	w.NoError(s.Bind(g))
	return s
}

// groupSender opens a socket that sends to groups on loopback.
func (w *world) groupSender() *ring.Socket {
	w.t.Helper()
	s := w.udp(w.local)
	w.NoError(s.SetMulticastInterface(w.lo))
	w.NoError(s.SetMulticastLoop(true))
	w.NoError(s.SetMulticastTTL(0))
	return s
}

// multicast is the case "multicast reaches every member".
func multicast(t *testing.T, b Backend) {
	w := newWorld(t, b)
	first := w.groupMember(netip.AddrPortFrom(group(1), freePort(t).Port()), netip.Addr{})
	g := first.LocalAddr()
	members := []*ring.Socket{first, w.groupMember(g, netip.Addr{}), w.groupMember(g, netip.Addr{})}
	from := w.groupSender()
	_, err := from.SendTo([]byte("to all"), g)
	w.NoError(err)
	for _, m := range members {
		c := w.event(m, ring.EventPacket, nil)
		w.Equal("to all", string(c.Packet.Bytes()))
		w.Equal(g, c.Destination)
		w.Equal(from.LocalAddr(), c.Source)
		w.NotZero(c.IfIndex)
		w.NoError(c.Packet.Release())
	}
	// One that leaves receives no more; the others do.
	w.NoError(members[0].LeaveGroup(g.Addr(), w.lo, netip.Addr{}))
	_, err = from.SendTo([]byte("again"), g)
	w.NoError(err)
	w.Equal("again", string(w.read(members[1], 5)))
	w.Equal("again", string(w.read(members[2], 5)))
	w.silent(10 * time.Millisecond)
}

// sourceSpecific is the case "source-specific multicast".
func sourceSpecific(t *testing.T, b Backend) {
	w := newWorld(t, b)
	g := netip.AddrPortFrom(group(2), freePort(t).Port())
	mine := w.groupMember(g, w.local.Addr())
	other := w.groupMember(g, w.peers.Other()) // it gets nothing from mine's source: what is silent below
	from := w.groupSender()
	_, err := from.SendTo([]byte("x"), g)
	w.NoError(err)
	w.Equal("x", string(w.read(mine, 1)))
	w.silent(10 * time.Millisecond)
	w.Zero(other.Stats().Packets)
}

// changeFilters is the case "memberships of all sources and of some": as Linux has it (net/ipv4/igmp.c), joining a source narrows a membership
// of all sources, which cannot be joined beside one of some, and leaving without a source ends it whatever its sources are.
func changeFilters(t *testing.T, b Backend) {
	w := newWorld(t, b)
	all, mine, other := netip.Addr{}, w.local.Addr(), w.peers.Other()
	from := w.groupSender()
	s := w.groupMember(netip.AddrPortFrom(group(4), freePort(t).Port()), all)
	g := s.LocalAddr()
	join := func(source netip.Addr) error { return s.JoinGroup(g.Addr(), w.lo, source) }
	leave := func(source netip.Addr) error { return s.LeaveGroup(g.Addr(), w.lo, source) }
	hears := func(want bool, what string) {
		t.Helper()
		_, err := from.SendTo([]byte(what), g)
		w.NoError(err)
		if want {
			w.Equal(what, string(w.read(s, len(what))))
		}
		w.silent(5 * time.Millisecond)
	}
	for range 2 {
		hears(true, "joined")
		w.NoError(join(other))
		hears(false, "narrowed to another source")
		w.NoError(join(mine))
		hears(true, "a second source")
		w.ErrorIs(join(mine), unix.EADDRNOTAVAIL)
		w.ErrorIs(join(all), unix.EADDRINUSE)
		hears(true, "nothing has changed")
		w.NoError(leave(mine))
		hears(false, "one source left")
		w.NoError(join(mine))
		w.NoError(leave(all))
		hears(false, "all left")
		w.ErrorIs(leave(all), unix.EADDRNOTAVAIL)
		w.NoError(join(mine))
		hears(true, "a source after all were left")
		w.NoError(leave(mine))
		hears(false, "the last source left")
		w.NoError(join(all))
	}
	u := w.socket(ring.KindDatagram, g)
	w.NoError(u.SetReuseAddr(true))
	w.NoError(u.SetMulticastAll(false))
	for _, source := range []netip.Addr{all, other} { // before it is bound
		w.NoError(u.JoinGroup(g.Addr(), w.lo, source))
	}
	w.NoError(u.Bind(g))
	hears(true, "the other socket alone")
	w.Zero(u.Stats().Packets)
}

// timestamps is the case "timestamps when asked for".
func timestamps(t *testing.T, b Backend) {
	w := newWorld(t, b)
	source := b.Stamp
	if source == ring.StampNone {
		source = ring.StampSoftware
	}
	for _, c := range []ring.Config{{Timestamps: true}, {Timestamps: true, PacketInfo: true}} {
		u := w.udp(w.local, c)
		before := time.Now()
		w.write(w.udpPeer(u.LocalAddr()), []byte("x"))
		d := w.event(u, ring.EventPacket, nil)
		w.Equal(source, d.Time.Source)
		w.WithinRange(d.Time.Time(), before.Add(-time.Millisecond), time.Now().Add(time.Millisecond))
		w.NoError(d.Packet.Release())
	}
}
