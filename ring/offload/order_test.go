package offload_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
)

// What a ring found to be sent when it was about to sleep is reported before what is sent after it.
func TestSentInOrderAroundARest(t *testing.T) {
	e := newEnds(t, memory.Config{})
	a, _ := e.connect(ring.Config{LargestDatagram: 2048})
	e.poll(0)
	_, err := a.Send([]byte("the neighbour is known after this"))
	require.NoError(t, err)
	drop := func(i int) {
		for _, c := range e.poll(i) {
			require.NoError(t, c.Packet.Release())
		}
	}
	for range 3 {
		drop(0)
		drop(1)
	}
	send := func(token uint64) {
		p, err := e.pools[0].Alloc(1)
		require.NoError(t, err)
		require.NoError(t, p.SetLen(copy(p.Room(), "x")))
		require.NoError(t, a.SendPacket(p, netip.AddrPort{}, token))
	}
	send(1)
	require.NoError(t, a.Ring().Flush())
	pending, err := a.Ring().Arm()
	require.NoError(t, err)
	require.True(t, pending, "SENT is there")
	send(2)
	var tokens []uint64
	for range 3 {
		for _, c := range e.poll(0) {
			if c.Events.Has(ring.EventSent) {
				tokens = append(tokens, c.Token)
			}
		}
	}
	require.Equal(t, []uint64{1, 2}, tokens)
	drop(1)
}
