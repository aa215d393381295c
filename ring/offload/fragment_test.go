package offload_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
)

// joined reads fragments off the wire, in the order in which they were sent, and returns the datagram's payload, proven.
func joined(t *testing.T, l link.Link, mtu int) []byte {
	frames := make([]link.Frame, 64)
	var datagram []byte
	var first wire.IPv4
	for n, more := 0, true; more; n++ {
		require.Equal(t, 1, l.Receive(frames[:1]), "after %d bytes", len(datagram))
		p := frames[0].Packet
		b := make([]byte, p.Len())
		p.CopyTo(b)
		require.NoError(t, p.Release())
		require.LessOrEqual(t, len(b), 14+mtu)
		ip, _, payload, drop := wire.ParseIPv4(b[14:])
		require.Equal(t, wire.Accept, drop)
		require.Equal(t, len(datagram), ip.Offset())
		require.False(t, ip.DontFragment())
		if n == 0 {
			first = *ip
		}
		require.Equal(t, first.ID(), ip.ID())
		if more = ip.MoreFragments(); more {
			require.Zero(t, len(payload)%8)
		}
		datagram = append(datagram, payload...)
	}
	require.Zero(t, l.Receive(frames))
	h, payload, drop := wire.ParseUDP(datagram)
	require.Equal(t, wire.Accept, drop)
	require.Equal(t, wire.SumGood, wire.CheckUDP(&first, h, payload))
	return payload
}

// On a link without a kernel the stack cuts what is longer than the MTU, if that was asked for.
func TestFragments(t *testing.T) {
	for _, mtu := range []int{576, 1500, 1501} {
		pool := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 256, LargeSize: 65536, LargeCount: 8, Headroom: 192})
		others := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 256, Headroom: 192})
		ours, theirs, err := memory.Pair(pool, others, memory.Config{Addrs: macs, MTU: mtu, Slots: 256})
		require.NoError(t, err)
		ns, err := offload.NewMemoryHost(facts(0, mtu), rand.Uint64)
		require.NoError(t, err)
		oc := overLink(t, ns, ours)
		oc.Fragment = true
		set, err := ring.NewSet(ring.SetConfig{Pool: pool, Kind: "offload", Transport: ns, OneRing: offload.OneRing, Driver: offload.New(oc)})
		require.NoError(t, err)
		s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		require.NoError(t, s.Bind(netip.MustParseAddrPort("10.9.0.1:7000")))
		to := netip.MustParseAddrPort("10.9.0.2:9")
		dst := make([]ring.Completion, 8)
		for _, n := range []int{mtu - 27, 2*mtu - 40, 5000, 65507} {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(rand.Uint32())
			}
			sent, err := s.SendTo(b, to)
			require.NoError(t, err)
			require.Equal(t, n, sent)
			require.NoError(t, s.Ring().Flush())
			require.Equal(t, b, joined(t, theirs, mtu))
			// From memory of the application's.
			p, err := pool.Alloc(n)
			require.NoError(t, err)
			copy(p.Room(), b)
			require.NoError(t, s.SendPacket(p, to, 7))
			require.NoError(t, s.Ring().Flush())
			require.Equal(t, b, joined(t, theirs, mtu))
			k, err := s.Ring().Poll(dst)
			require.NoError(t, err)
			require.Equal(t, 1, k)
			require.Equal(t, ring.EventSent, dst[0].Events)
			require.NoError(t, dst[0].Err)
		}
		require.Equal(t, uint64(8), counter(s.Ring(), "stack.fragmented"))
		_, err = s.SendTo(make([]byte, 65508), to)
		require.ErrorIs(t, err, unix.EMSGSIZE)

		// All parts or none.
		var taken []buffers.Packet
		for range 250 {
			p, err := pool.Alloc(100)
			require.NoError(t, err)
			taken = append(taken, p)
		}
		var large []buffers.Packet
		for len(large) < 7 {
			p, err := pool.Alloc(60000)
			require.NoError(t, err)
			large = append(large, p)
		}
		_, err = s.SendTo(make([]byte, 60000), to)
		require.NoError(t, err, "a copy was taken")
		require.NoError(t, s.Ring().Flush())
		require.Zero(t, theirs.Receive(make([]link.Frame, 8)))
		for _, p := range append(taken, large...) {
			require.NoError(t, p.Release())
		}
		require.NoError(t, s.Ring().Flush())
		require.Equal(t, make([]byte, 60000), joined(t, theirs, mtu), "it has waited for buffers")
		require.Zero(t, counter(s.Ring(), "offload.lost_sends"))
		require.NoError(t, set.Close())
		require.NoError(t, theirs.Close())
	}
}
