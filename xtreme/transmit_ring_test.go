package xtreme_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The kernel reports how large the mapping of an AF_XDP socket's transmit ring is: 16 bytes an entry, a power of two, and a header.
func TestTransmitRingOfLinksByTheSettings(t *testing.T) {
	const ownDefault = 2048
	for setting, want := range map[int]int{0: ownDefault, 8: 8, 100: 128, 256: 256, 4096: 4096} {
		t.Run(fmt.Sprintf("offload/%d", setting), func(t *testing.T) {
			w := newCabled(t)
			w.engine = w.newEngine(func(s *conf.Settings) { s.RingEntries = setting })
			x := w.other(w.newPoller("transmits"))
			before := transmitRings(t)
			s := x.udp(w.at(0))
			w.Equal("bypass", s.Path().Tier)
			var added []int
			for at, size := range transmitRings(t) {
				if before[at] != size {
					added = append(added, size)
				}
			}
			const page, header = 4096, 320 // of linux/net/xdp/xsk_queue.h, at the most
			w.Len(added, 1)
			w.GreaterOrEqual(added[0], want*16, "VMA_TX_WRE=%d", setting)
			w.Less(added[0], want*16+header+page, "VMA_TX_WRE=%d", setting)
			peer := w.net.Dial(s.LocalAddr())
			for range 3 * min(want, 512) { // more than fit: all leave
				x.until("there is room", func() bool {
					_, err := s.SendTo([]byte("x"), peer.LocalAddr().(*net.UDPAddr).AddrPort())
					return err == nil
				})
			}
			x.close(s)
		})
	}
}

// A long frame takes several places of the transmit ring, and the kernel takes at most seventeen for one: a datagram that needs more than there
// are leaves through the kernel, with Send and with SendPacket.
func TestDatagramsThatAreTooLongForTheTransmitRing(t *testing.T) {
	for _, entries := range []int{8, 16, 0} {
		for _, mtu := range []int{20_000, 30_000, 60_000} {
			w := newCabled(t)
			w.setMTU(0, mtu)
			w.engine = w.newEngine(func(s *conf.Settings) { s.RingEntries = entries })
			x := w.other(w.newPoller("transmits"))
			s := x.udp(w.at(0))
			w.Equal("bypass", s.Path().Tier)
			peer := w.net.Listen(netip.AddrPortFrom(w.net.Peer(0), 0))
			to := addr(peer.LocalAddr())
			got := make([]byte, 1<<16)
			for _, n := range []int{100, 17_000, 18_000, mtu / 2, mtu - 28} {
				k, err := s.SendTo(make([]byte, n), to)
				w.NoError(err)
				w.Equal(n, k)
				w.NoError(x.poller.Flush())
				k, err = peer.Read(got)
				w.NoError(err, "%d bytes by an interface of %d, VMA_TX_WRE=%d", n, mtu, entries)
				w.Equal(n, k)
				p, err := x.poller.Pool().Alloc(n)
				w.NoError(err)
				w.NoError(s.SendPacket(p, to, 7))
				w.NoError(x.event(s, xtreme.EventSent).Err)
				k, err = peer.Read(got)
				w.NoError(err)
				w.Equal(n, k)
			}
			x.close(s)
		}
	}
}

// setMTU sets the MTU of both ends of a pair.
func (w *cabled) setMTU(pair, mtu int) {
	set := func(name string) {
		l, err := netlink.LinkByName(name)
		w.NoError(err)
		w.NoError(netlink.LinkSetMTU(l, mtu))
	}
	set(w.net.Device(pair))
	w.net.InPeer(func() { set(fmt.Sprintf("p%d", pair)) })
}

// transmitRings are the sizes of the mappings of transmit rings (XDP_PGOFF_TX_RING) by their addresses.
func transmitRings(t *testing.T) map[uint64]int {
	t.Helper()
	sizes := map[uint64]int{}
	text, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 6 || f[2] != "80000000" || !strings.HasPrefix(f[5], "socket:") {
			continue
		}
		low, high, _ := strings.Cut(f[0], "-")
		a, e1 := strconv.ParseUint(low, 16, 64)
		b, e2 := strconv.ParseUint(high, 16, 64)
		require.NoError(t, e1)
		require.NoError(t, e2)
		sizes[a] = int(b - a)
	}
	return sizes
}

// An epoll ring has no ring to send by: the setting does not change how many events it fetches at once.
func TestTransmitRingIsNotABatchOfEpoll(t *testing.T) {
	const sockets = 48
	came := map[int][]int{} // with each Poll
	for _, setting := range []int{0, 16, 4096} {
		w := worldWith(t, func(s *conf.Settings) { s.RingEntries = setting })
		var list []*xtreme.Socket
		for range sockets {
			list = append(list, w.udp(loopback, xtreme.UDPConfig{LargestDatagram: 1000}))
		}
		for _, s := range list {
			peer, err := net.Dial("udp", s.LocalAddr().String())
			w.NoError(err)
			_, err = peer.Write([]byte("ready"))
			w.NoError(err)
			w.NoError(peer.Close())
		}
		dst := make([]xtreme.Completion, 256)
		for all := 0; all < sockets; {
			n, err := w.poller.Poll(dst)
			w.NoError(err)
			w.NotZero(n)
			came[setting] = append(came[setting], n)
			all += n
			for i := range dst[:n] {
				w.NoError(dst[i].Packet.Release())
			}
		}
	}
	require.Equal(t, came[0], came[16], "%v", came)
	require.Equal(t, came[0], came[4096], "%v", came)
}
