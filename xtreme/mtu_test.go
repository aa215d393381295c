package xtreme_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// tap sees what comes to the peer's end of a pair, before its stack.
func tap(t *testing.T, n *testnet.Net) (next func() []byte) {
	fd := -1
	n.InPeer(func() {
		var err error
		const ipv4 = 0x0800
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(ipv4&0xff<<8|ipv4>>8))
		require.NoError(t, err)
	})
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	limit := unix.NsecToTimeval(int64(5 * time.Second))
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	return func() []byte {
		b := make([]byte, 65536)
		for {
			k, from, err := unix.Recvfrom(fd, b, 0)
			require.NoError(t, err)
			if from.(*unix.SockaddrLinklayer).Pkttype != unix.PACKET_OUTGOING && b[23] == unix.IPPROTO_UDP {
				return b[:k]
			}
		}
	}
}

// VMA_MTU bounds the IP packets of what an offloaded ring sends, whatever the interface allows: no packet on the wire is longer, and the
// peer puts together what was cut. What the kernel sends follows the interface.
func TestDatagramsAreCutByTheSettings(t *testing.T) {
	for _, c := range []struct{ mtu, most int }{{0, 1500}, {148, 148}, {577, 577}, {1400, 1400}, {9000, 1500}} {
		w := newCabled(t)
		w.engine = w.newEngine(func(s *conf.Settings) { s.MTU = c.mtu })
		w.poller = w.newPoller("mtu")
		next := tap(t, w.net)
		to := netip.AddrPortFrom(w.net.Peer(0), 9200)
		peer := w.net.Listen(to)
		s := w.udp(netip.AddrPortFrom(w.at(0).Addr(), 7200))
		frames := func() uint64 { return counter(s.Ring(), w.net.Device(0)+".tx_frames") }
		w.sendTo(s, "first", to) // finds the neighbour
		w.NoError(w.poller.Flush())
		w.Len(next()[14:], 20+8+5)
		got := make([]byte, 65536)
		_, err := peer.Read(got)
		w.NoError(err)

		for _, n := range []int{c.most - 28, c.most - 27, 3000} {
			payload := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
			before := frames()
			k, err := s.SendTo(payload, to)
			w.NoError(err)
			w.Equal(n, k)
			w.NoError(w.poller.Flush())
			seen, packets := 0, 0
			for more := true; more; packets++ {
				ip := next()[14:]
				size := int(binary.BigEndian.Uint16(ip[2:]))
				w.LessOrEqual(size, c.most)
				w.LessOrEqual(size, len(ip))
				more = binary.BigEndian.Uint16(ip[6:])&0x2000 != 0
				seen += size - 20
			}
			w.Equal(n+8, seen, "UDP header and payload")
			w.Equal(1, boolean(n <= c.most-28)+boolean(packets > 1), "%d packets for %d bytes", packets, n)
			k, err = peer.Read(got)
			w.NoError(err)
			w.Equal(payload, got[:k])
			if packets > 1 && c.most == 1500 {
				w.Equal(before, frames(), "the kernel cuts at the interface's own MTU")
			} else {
				w.Equal(before+uint64(packets), frames())
			}
		}
		w.close(s)

		// The kernel's sockets know the interface's only.
		k := w.besides()
		long := k.udp(netip.AddrPortFrom(w.at(0).Addr(), 7201))
		payload := make([]byte, 1472)
		_, err = long.SendTo(payload, to)
		w.NoError(err)
		w.Len(next()[14:], 1500)
		k.close(long)
	}
}

// A datagram of more fragments than there are buffers for is refused. Datagrams for which there are too few at the moment leave later.
func TestDatagramsOfManyFragments(t *testing.T) {
	for _, pacing := range []xtreme.PacingRate{{}, {Rate: 1 << 30}} {
		w := newCabled(t) // of whose 1,024 small buffers three fifths lie ready for receiving
		w.engine = w.newEngine(func(s *conf.Settings) { s.MTU = 148 })
		x := w.other(w.newPoller("fragments"))
		s := x.udp(w.at(0), xtreme.UDPConfig{IPConfig: xtreme.IPConfig{Pacing: pacing}})
		w.Equal("bypass", s.Path().Tier)
		peer := w.net.Listen(netip.AddrPortFrom(w.net.Peer(0), 0))
		testnet.ReadBuffer(t, peer, 4<<20)
		to := addr(peer.LocalAddr())

		_, err := s.SendTo(make([]byte, 65507), to) // 512 fragments
		w.ErrorIs(err, unix.EMSGSIZE)
		w.EqualValues(1, s.Stats().SendErrors)
		p, err := x.poller.Pool().Alloc(65507)
		w.NoError(err)
		w.NoError(s.SendPacket(p, to, 7))
		w.ErrorIs(x.event(s, xtreme.EventSent).Err, unix.EMSGSIZE)

		const n = 40_000 // 313 fragments
		for range 4 {
			_, err = s.SendTo(make([]byte, n), to)
			w.NoError(err)
		}
		p, err = x.poller.Pool().Alloc(n)
		w.NoError(err)
		w.NoError(s.SendPacket(p, to, 8))
		w.NoError(x.event(s, xtreme.EventSent).Err)
		b := make([]byte, 1<<16)
		for range 5 {
			k, err := peer.Read(b)
			w.NoError(err)
			w.Equal(n, k)
		}
		x.close(s)
		w.Zero(counter(s.Ring(), "offload.lost_sends"))
		w.Zero(counter(s.Ring(), "stack.no_buffer"))
	}
}

// SENT of a datagram that the stack cuts says whether it has left, as that of a short one does: a neighbour that does not exist is its error.
// So it is with packets that are copied first, because they have no room for headers.
func TestEndsOfDatagramsThatAreCut(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) { s.MTU = 1000 })
	x := w.other(w.newPoller("ends"))
	s := x.udp(w.at(0))
	w.Equal("bypass", s.Path().Tier)
	peer := w.net.Listen(netip.AddrPortFrom(w.net.Peer(0), 0))
	testnet.ReadBuffer(t, peer, 1<<20)
	send := func(n int, copied bool, to netip.AddrPort) {
		p, err := x.poller.Pool().Alloc(n)
		w.NoError(err)
		if copied {
			_, err = p.Push(p.Headroom())
			w.NoError(err)
		}
		w.NoError(s.SendPacket(p, to, uint64(n)))
	}
	sizes := []int{100, 5000}
	for _, n := range sizes {
		for _, copied := range []bool{false, true} {
			send(n, copied, netip.AddrPortFrom(w.net.Peer(0).Next(), 9200))
		}
	}
	const sends = 4
	for range sends {
		c := x.event(s, xtreme.EventSent)
		w.ErrorIs(c.Err, unix.EHOSTUNREACH, "%d bytes", c.Token)
	}
	w.EqualValues(sends, s.Stats().SendErrors)
	sent := s.Stats().SentBytes
	b := make([]byte, 1<<16)
	for _, n := range sizes {
		for _, copied := range []bool{false, true} {
			send(n, copied, addr(peer.LocalAddr()))
			w.NoError(x.event(s, xtreme.EventSent).Err)
			k, err := peer.Read(b)
			w.NoError(err)
			w.Equal(copied, k > n, "%d bytes", k)
			sent += uint64(k)
			w.Equal(sent, s.Stats().SentBytes)
		}
	}
	w.EqualValues(sends, s.Stats().SendErrors)
	x.close(s)
}

// Datagrams that are cut into more fragments than frames can wait for a neighbour arrive whole, and in order, though the pool has not enough
// buffers for the fragments of all.
func TestCutDatagramsAwaitTheirNeighbour(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) { s.MTU = 148 })
	x := w.other(w.newPoller("fragments"))
	arp := func(set func(netlink.Link) error) {
		w.net.InPeer(func() {
			p0, err := netlink.LinkByName("p0")
			w.NoError(err)
			w.NoError(set(p0))
		})
	}
	arp(netlink.LinkSetARPOff)
	v0, err := netlink.LinkByName(w.net.Device(0))
	w.NoError(err)
	list, err := netlink.NeighList(v0.Attrs().Index, netlink.FAMILY_V4)
	w.NoError(err)
	for i := range list {
		w.NoError(netlink.NeighDel(&list[i]))
	}
	s := x.udp(w.at(0))
	peer := w.net.Listen(netip.AddrPortFrom(w.net.Peer(0), 0))
	testnet.ReadBuffer(t, peer, 4<<20)
	to := addr(peer.LocalAddr())
	sizes := []int{17_000, 40_000, 39_000, 38_000, 100} // 133 to 313 fragments
	for i, n := range sizes {
		if i%2 > 0 {
			_, err := s.SendTo(make([]byte, n), to)
			w.NoError(err)
			continue
		}
		p, err := x.poller.Pool().Alloc(n)
		w.NoError(err)
		w.NoError(s.SendPacket(p, to, uint64(n)))
	}
	x.until("all wait", func() bool { return counter(s.Ring(), "stack.waited_for_neighbour") >= uint64(len(sizes)) })
	arp(netlink.LinkSetARPOn)
	for range 3 {
		w.NoError(x.event(s, xtreme.EventSent).Err)
	}
	b := make([]byte, 1<<16)
	for _, n := range sizes {
		w.NoError(peer.SetReadDeadline(time.Now().Add(5 * time.Second)))
		k, err := peer.Read(b)
		w.NoError(err, "%d bytes", n)
		w.Equal(n, k)
	}
	w.Zero(counter(s.Ring(), "stack.lost"))
	x.close(s)
}

// besides is a world of a kernel ring beside the offloaded poller, by the same settings.
func (w *cabled) besides() *world {
	p, err := w.engine.NewPoller("kernel", xtreme.PollerConfig{RingKind: conf.RingEpoll})
	w.NoError(err)
	w.t.Cleanup(func() { require.NoError(w.t, p.Close()) })
	return w.other(p)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
