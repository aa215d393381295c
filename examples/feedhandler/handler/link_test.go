package handler

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// wired is one end of a memory link with a ring on it.
func wired(t *testing.T, pool *buffers.DriverPool, end *memory.End, addr string, mac [6]byte) *ring.Set {
	l := host.Link{Index: 1, Name: "mem0", Type: unix.ARPHRD_ETHER, MAC: mac, MTU: 1500,
		Flags: unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_BROADCAST | unix.IFF_MULTICAST}
	ns, err := offload.NewMemoryHost(offload.Facts(l, netip.MustParsePrefix(addr)), func() uint64 { return 4 })
	require.NoError(t, err)
	x, err := offload.NewExchange(offload.ExchangeConfig{MemoryHost: ns, Open: nic.OpenLinks(ns, map[string]link.Staged{"mem0": end})})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	set, err := ring.NewSet(ring.SetConfig{Pool: pool, Kind: "offload", Transport: ns, OneRing: offload.OneRing,
		Driver: offload.New(offload.Config{Exchange: x, Interfaces: []nic.Interface{{Name: "mem0"}}})})
	require.NoError(t, err)
	return set
}

// Nothing is allocated for a packet all the way: a frame of a group on a link, the stack, the ring's completion, arbitration of two lines,
// the message, the book, and the buffer back to the link.
func TestNothingAllocatesFromLinkToBook(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself; the build without it asserts this")
	}
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 256, LargeSize: 65536, LargeCount: 2, Headroom: 192}
	var pools [2]*buffers.DriverPool
	for i := range pools {
		region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes()})
		require.NoError(t, err)
		pools[i], err = buffers.New(region.Bytes(), layout)
		require.NoError(t, err)
		t.Cleanup(func() {
			ledger := pools[i].Ledger()
			require.Equal(t, ledger.Total, ledger.Free, "%v", ledger)
			require.NoError(t, region.Close())
		})
	}
	macs := [2][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}
	a, b, err := memory.Pair(pools[0], pools[1], memory.Config{Addrs: macs, Names: [2]string{"mem0", "mem0"}})
	require.NoError(t, err)
	sender, receiver := wired(t, pools[0], a, "10.0.0.1/24", macs[0]), wired(t, pools[1], b, "10.0.0.2/24", macs[1])
	t.Cleanup(func() {
		require.NoError(t, sender.Close())
		require.NoError(t, receiver.Close())
	})
	socket := func(set *ring.Set, at netip.AddrPort) *ring.Socket {
		s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
		require.NoError(t, err)
		require.NoError(t, s.Bind(at))
		return s
	}
	from := socket(sender, netip.MustParseAddrPort("10.0.0.1:5000"))
	require.NoError(t, from.SetMulticastLoop(false))
	var lines [2]netip.AddrPort
	for i := range lines {
		lines[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{233, 252, 0, byte(1 + i)}), 10000)
		s := socket(receiver, lines[i])
		s.SetUserData(uint64(i))
		require.NoError(t, s.JoinGroup(lines[i].Addr(), "mem0", netip.Addr{}))
	}
	ch, err := NewChannel(Config{Proto: DEEP, Lines: lines[:], Feed: feed.Config{CopyBytes: 2048}})
	require.NoError(t, err)

	const runs, warm = 300, 100
	var packets [][]byte
	for seq := range uint64(runs + warm + 10) {
		packets = append(packets, levelPacket(seq+1, 1))
	}
	dst, next, got := make([]ring.Completion, 16), 0, 0
	one := func() {
		for i := range lines {
			if _, err := from.SendTo(packets[next], lines[i]); err != nil {
				t.Fatal(err)
			}
		}
		next++
		for range 2 {
			if _, err := sender.Rings()[0].Poll(dst); err != nil {
				t.Fatal(err)
			}
			n, err := receiver.Rings()[0].Poll(dst)
			if err != nil {
				t.Fatal(err)
			}
			for i := range dst[:n] {
				c := &dst[i]
				ch.Input(uint8(c.UserData), c.Packet.Bytes(), int64(next), Ref{})
				_ = c.Packet.Release()
				got++
			}
		}
	}
	for range warm {
		one()
	}
	require.Zero(t, testing.AllocsPerRun(runs, one))
	require.Equal(t, 2*next, got, "both lines, every packet")
	s := Summarize([]*Channel{ch}, Clock{Source: "test"})
	require.EqualValues(t, next, s.Channels[0].Messages)
	require.Equal(t, "SYNC", s.Channels[0].State)
	require.NotEmpty(t, Tops(ch))
}
