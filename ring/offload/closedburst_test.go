package offload_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// A callback that closes its socket at the first datagram of a burst: the others of the burst are counted as ClosedDrops and their buffers are
// free again.
func TestCallbackThatClosesItsSocketInABurst(t *testing.T) {
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 512, Headroom: 192}
	pool, others := newPool(t, layout), newPool(t, layout)
	ours, theirs, err := memory.Pair(pool, others, memory.Config{Names: [2]string{"mem0", "mem1"}, Addrs: macs})
	require.NoError(t, err)
	c := ring.SetConfig{Transport: kernel.New(), Pool: pool}
	side(t, 0, ours, 1500, &c)
	m := newMachine(t, theirs, others, 1500)
	set, err := ring.NewSet(c)
	require.NoError(t, err)
	s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Bind(netip.AddrPortFrom(m.Local(), 7000)))
	calls := 0
	require.NoError(t, s.SetReceiveMode(ring.Completions, func(s *ring.Socket, _ *ring.Completion) ring.Verdict {
		calls++
		require.NoError(t, s.Close())
		return ring.Drop
	}))
	r, peer := s.Ring(), m.Dial(s.LocalAddr())
	for range 10 { // one burst: nobody polls
		_, err := peer.Write([]byte("x"))
		require.NoError(t, err)
	}
	for range 4 {
		_, err := r.Poll(make([]ring.Completion, 64))
		require.NoError(t, err)
	}
	require.Equal(t, 1, calls)
	require.EqualValues(t, 9, r.Stats().ClosedDrops, "%v", r.Stats())
	require.NoError(t, set.Close())
	ledger := pool.Ledger()
	require.Equal(t, ledger.Total, ledger.Free)
	require.NoError(t, peer.Close())
}
