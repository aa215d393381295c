package offload_test

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// A callback ends its goroutine in the middle of a burst. What the goroutine defers can close the ring, and every buffer is back in the
// pool: that of the callback's datagram, of those before it, which no Poll has told of, and of those behind it, which nobody has got.
func TestCallbackThatEndsItsGoroutineInABurst(t *testing.T) {
	for at := range 4 {
		layout := buffers.Layout{SmallSize: 2048, SmallCount: 512, Headroom: 192}
		pool, others := newPool(t, layout), newPool(t, layout)
		ours, theirs, err := memory.Pair(pool, others, memory.Config{Names: [2]string{"mem0", "mem1"}, Addrs: macs})
		require.NoError(t, err)
		c := ring.SetConfig{Transport: kernel.New(), Pool: pool}
		side(t, 0, ours, 1500, &c)
		m := newMachine(t, theirs, others, 1500)
		set, err := ring.NewSet(c)
		require.NoError(t, err)
		to := netip.AddrPortFrom(m.Local(), 7000)
		plain, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		require.NoError(t, plain.Bind(to))
		hooked, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		require.NoError(t, hooked.Bind(netip.AddrPortFrom(m.Local(), 7001)))
		calls, returned, failed := 0, false, make(chan error, 1)
		require.NoError(t, hooked.SetReceiveMode(ring.Completions, func(*ring.Socket, *ring.Completion) ring.Verdict {
			if calls++; calls > at {
				runtime.Goexit()
			}
			return ring.Keep
		}))
		toPlain, toHooked := m.Dial(to), m.Dial(hooked.LocalAddr())
		for range 10 { // one burst: nobody polls
			for _, p := range []interface{ Write([]byte) (int, error) }{toPlain, toHooked} {
				_, err := p.Write([]byte("x"))
				require.NoError(t, err)
			}
		}
		go func() {
			defer func() { failed <- set.Close() }()
			_, _ = plain.Ring().Poll(make([]ring.Completion, 64))
			returned = true
		}()
		if err := <-failed; err != nil { // closing drains by Poll, which tells
			require.ErrorContains(t, err, "Goexit")
		}
		require.False(t, returned)
		require.Equal(t, at+1, calls)
		ledger := pool.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, "%d before: %v", at, ledger)
		require.NoError(t, toPlain.Close())
		require.NoError(t, toHooked.Close())
	}
}
