package xtreme_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Rings are polled in turns, also when the poller was polled once with its first ring alone, which has nothing since.
func TestRingsThatComeLaterArePolledInTurns(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		p, err := e.NewPoller("fair", xtreme.PollerConfig{})
		require.NoError(t, err)
		one := make([]xtreme.Completion, 1)
		_, err = p.Poll(one)
		require.NoError(t, err)
		const datagrams = 40
		sockets, got := [2]*xtreme.Socket{}, [2]int{}
		for i := range sockets {
			sockets[i], err = p.OpenUDP(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RingLogic: xtreme.Ptr(xtreme.PerSocket)}})
			require.NoError(t, err)
			peer, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(sockets[i].LocalAddr()))
			require.NoError(t, err)
			t.Cleanup(func() { _ = peer.Close() })
			for range datagrams {
				_, err = peer.Write([]byte("x"))
				require.NoError(t, err)
			}
		}
		for range datagrams {
			n, err := p.Poll(one)
			require.NoError(t, err)
			for i := range sockets {
				if n > 0 && one[0].Socket == sockets[i] {
					got[i]++
				}
			}
			if n > 0 {
				require.NoError(t, one[0].Packet.Release())
			}
		}
		require.Positive(t, got[0])
		require.Positive(t, got[1])
		require.NoError(t, p.Close())
	})
}
