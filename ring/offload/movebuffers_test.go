package offload_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
)

// A connection whose queues find no buffers in the ring stays in the kernel and is tried again: it returns when there are some.
func TestMoveWaitsForBuffers(t *testing.T) {
	m := newMovable(t)
	l := listenTCP(t, m.set, "10.0.0.1:7000")
	s, peer := m.accepted(t, l)
	defer peer.Close()
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !holds(); m.poll(t) {
			require.True(t, time.Now().Before(end), "%s; %s %v", what, s.Path().Explain(), s.Ring().Stats().Driver)
		}
	}
	for range 200 { // the peer reads nothing: what has no room there stays queued
		_, err := s.Send(make([]byte, 64<<10))
		if err != nil {
			require.ErrorIs(t, err, ring.ErrWouldBlock)
		}
		m.poll(t)
	}
	require.NoError(t, offload.MoveToKernel(m.driver, s))
	until("to the kernel", func() bool { return s.Path().Lost == "tcp.moved" })
	var taken []buffers.Packet
	for {
		p, err := m.pool.Alloc(1)
		if err != nil {
			break
		}
		taken = append(taken, p)
	}
	require.NoError(t, offload.MoveToStack(m.driver, s))
	for range 20 {
		m.poll(t)
		time.Sleep(time.Millisecond)
	}
	require.Zero(t, counter(s.Ring(), "tcp.not_moved"), s.Path().Explain())
	require.Equal(t, "tcp.moved", s.Path().Lost, s.Path().Explain())
	for _, p := range taken {
		require.NoError(t, p.Release())
	}
	until("back", func() bool { return s.Path().Tier == "bypass" && s.Path().Lost == "" })
	require.Zero(t, counter(s.Ring(), "tcp.not_moved"))
	require.NoError(t, s.Close())
}
