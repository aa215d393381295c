package memory_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory"
)

// A deadline is not early where the owner loses the processor while it sets it, here when it has read the clock.
func TestDeadlineThatIsSetSlowlyIsNotEarly(t *testing.T) {
	link, err := memory.NewNetwork(1).NewLink(memory.LinkConfig{Addrs: ringAddrs})
	require.NoError(t, err)
	host, err := memory.New(memory.Config{Link: link, Seed: 1})
	require.NoError(t, err)
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 64, LargeSize: 65536, LargeCount: 8, Headroom: 192}
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	require.NoError(t, err)
	pause := time.Duration(0)
	set, err := ring.NewSet(ring.SetConfig{Kind: "memory", Pool: pool, Transport: host, Driver: host.Driver, OneRing: memory.OneRing,
		Clock: func() clock.Time {
			now := clock.Now()
			time.Sleep(pause)
			return now
		}})
	require.NoError(t, err)
	s, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Bind(netip.AddrPortFrom(ringAddrs[0], 80)))
	require.NoError(t, s.Listen(1))
	const in = 40 * time.Millisecond
	pause = in / 2
	begin := time.Now()
	require.NoError(t, s.SetReadDeadline(begin.Add(in)))
	pause = 0
	var dst [4]ring.Completion
	for n := 0; n == 0; {
		n, err = s.Ring().Poll(dst[:])
		require.NoError(t, err)
	}
	require.ErrorIs(t, dst[0].Err, ring.ErrDeadline)
	require.GreaterOrEqual(t, time.Since(begin), in)
	require.NoError(t, set.Close())
}
