package xtreme

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// A Poll by another goroutine changes nothing of the poller, also when a ring has been added since the owner has polled.
func TestRefusedPollChangesNothing(t *testing.T) {
	t.Attr("ring", "epoll")
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingEpoll, 256, 16
	e, err := New(s)
	require.NoError(t, err)
	logic := ring.PerSocket
	p, err := e.NewPoller("late", PollerConfig{RingLogic: &logic})
	require.NoError(t, err)
	at := netip.MustParseAddrPort("127.0.0.1:0")
	dst := make([]Completion, 8)
	for i := range 2 {
		_, err = p.OpenUDP(at, UDPConfig{})
		require.NoError(t, err)
		if i == 0 {
			_, err = p.Poll(dst)
			require.NoError(t, err)
		}
	}
	require.Len(t, p.Rings(), 2)
	refused := make(chan error)
	go func() {
		_, err := p.Poll(make([]Completion, 8))
		refused <- err
	}()
	require.ErrorIs(t, <-refused, ring.ErrOwner)
	require.Zero(t, p.next)
	_, err = p.Poll(dst)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, e.Close())
}
