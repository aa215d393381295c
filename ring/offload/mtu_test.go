package offload_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
)

// Config.MTU bounds what is sent, with and without fragments, and is no larger than the link's.
func TestConfiguredMTU(t *testing.T) {
	for _, c := range []struct{ mtu, most int }{{0, 1500}, {68, 68}, {600, 600}, {4000, 1500}} {
		for _, cut := range []bool{true, false} {
			pool := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 256, LargeSize: 65536, LargeCount: 8, Headroom: 192})
			others := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 256, Headroom: 192})
			ours, theirs, err := memory.Pair(pool, others, memory.Config{Addrs: macs, MTU: 1500, Slots: 256})
			require.NoError(t, err)
			ns, err := offload.NewMemoryHost(facts(0, 1500), rand.Uint64)
			require.NoError(t, err)
			oc := overLink(t, ns, ours)
			oc.Fragment, oc.MTU = cut, c.mtu
			set, err := ring.NewSet(ring.SetConfig{Pool: pool, Kind: "offload", Transport: ns, OneRing: offload.OneRing, Driver: offload.New(oc)})
			require.NoError(t, err)
			s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
			require.NoError(t, err)
			require.NoError(t, s.Bind(netip.MustParseAddrPort("10.9.0.1:7000")))
			to := netip.MustParseAddrPort("10.9.0.2:9")
			b := make([]byte, c.most-27)
			_, err = s.SendTo(b[1:], to)
			require.NoError(t, err)
			require.NoError(t, s.Ring().Flush())
			require.Zero(t, counter(s.Ring(), "stack.fragmented"))
			dropFrames(t, theirs, 1)
			_, err = s.SendTo(b, to)
			if !cut {
				require.ErrorIs(t, err, unix.EMSGSIZE)
			} else {
				require.NoError(t, err)
				require.NoError(t, s.Ring().Flush())
				require.Equal(t, b, joined(t, theirs, c.most))
			}
			require.NoError(t, set.Close())
			require.NoError(t, theirs.Close())
		}
	}
}

func TestBadMTU(t *testing.T) {
	pool := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 64, Headroom: 192})
	ours, theirs, err := memory.Pair(pool, pool, memory.Config{Addrs: macs, MTU: 1500})
	require.NoError(t, err)
	ns, err := offload.NewMemoryHost(facts(0, 1500), rand.Uint64)
	require.NoError(t, err)
	c := overLink(t, ns, ours)
	bad := c
	bad.MTU = 67
	_, err = offload.New(bad)(ring.DriverConfig{Pool: pool})
	require.ErrorContains(t, err, "MTU 67")
	bad = c
	bad.Sender = func(*ring.Socket, netip.AddrPort) (ring.Reason, bool) { return ring.Reason{}, true }
	_, err = offload.New(bad)(ring.DriverConfig{Pool: pool})
	require.ErrorContains(t, err, "Sender")
	require.NoError(t, ours.Close())
	require.NoError(t, theirs.Close())
}

// dropFrames takes n frames off a link.
func dropFrames(t *testing.T, l link.Link, n int) {
	frames := make([]link.Frame, 64)
	k := l.Receive(frames)
	for i := range k {
		require.NoError(t, frames[i].Packet.Release())
	}
	require.Equal(t, n, k)
}
