package offload_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// hesitant is a link that takes frames at its third Flush only, as a kernel whose interface is stopped (EBUSY).
type hesitant struct {
	link.Staged
	flushes int
}

func (h *hesitant) Flush() error {
	if h.flushes++; h.flushes < 3 {
		return nil
	}
	return h.Staged.Flush()
}

// Complete is an interface's that sends what it was notified of.
func (h *hesitant) Complete(dst []link.Done) int {
	if h.flushes < 3 {
		return 0
	}
	return h.Staged.Complete(dst)
}

// What a Flush left over is flushed by polling alone, and once all is sent nobody asks any more.
func TestTailIsFlushed(t *testing.T) {
	pools := [2]*buffers.DriverPool{newPool(t, layout), newPool(t, layout)}
	ours, theirs, err := memory.Pair(pools[0], pools[1], memory.Config{Addrs: macs, Names: [2]string{"mem0", "mem0"}, MTU: 1500})
	require.NoError(t, err)
	h := &hesitant{Staged: ours, flushes: 3}
	var rings [2]*ring.Ring
	var sockets [2]*ring.Socket
	for i, l := range []link.Staged{h, theirs} {
		sc := ring.SetConfig{Transport: kernel.New(), Pool: pools[i]}
		side(t, i, l, 1500, &sc)
		set, err := ring.NewSet(sc)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, set.Close()) })
		rings[i], err = set.NewRing()
		require.NoError(t, err)
		sockets[i], err = set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		require.NoError(t, sockets[i].Bind(netip.AddrPortFrom(subnets[i][0].Addr(), 7000)))
	}
	dst := make([]ring.Completion, 8)
	poll := func(i, times int) (got int) {
		for range times {
			n, err := rings[i].Poll(dst)
			require.NoError(t, err)
			for _, c := range dst[:n] {
				require.NoError(t, c.Packet.Release())
			}
			got += n
		}
		return got
	}
	for got, tries := 0, 0; got == 0; tries++ { // the neighbour is asked for
		require.Less(t, tries, 100)
		_, err = sockets[0].SendTo([]byte("x"), sockets[1].LocalAddr())
		require.NoError(t, err)
		poll(0, 10)
		got = poll(1, 10)
	}
	poll(0, 10)
	poll(1, 10)
	h.flushes = 0
	_, err = sockets[0].SendTo([]byte("x"), sockets[1].LocalAddr())
	require.NoError(t, err)
	require.NoError(t, rings[0].Flush())
	require.Zero(t, poll(1, 10), "the link hesitates")
	poll(0, 10)
	require.Equal(t, 1, poll(1, 10))
	flushes := h.flushes
	poll(0, 100)
	require.Equal(t, flushes, h.flushes)
}
