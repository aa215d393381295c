package reactor

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A turn whose packets all go to a receive callback is none in which nothing happened.
func TestCallbacksMakeATurnBusy(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		l := turnByHand(t, kind, nothing, Config{Rest: Spin})
		taken := 0
		s, err := l.poller.OpenUDP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveMode: ring.Callback,
			ReceiveCallback: func(*ring.Socket, *xtreme.Completion) ring.Verdict { taken++; return ring.Drop }}})
		require.NoError(t, err)
		peer, err := net.Dial("udp", s.LocalAddr().String())
		require.NoError(t, err)
		l.turns(t, 3, time.Microsecond)
		require.Positive(t, l.idle)
		for i := range 3 {
			_, err = peer.Write([]byte("x"))
			require.NoError(t, err)
			for end := time.Now().Add(5 * time.Second); taken == i && time.Now().Before(end); {
				l.turns(t, 1, time.Microsecond)
			}
			require.Equal(t, i+1, taken)
			require.True(t, l.busyIO)
			require.Zero(t, l.idle)
			l.turns(t, 1, time.Microsecond)
			require.EqualValues(t, 1, l.idle, "nothing came")
		}
		require.NoError(t, peer.Close())
	}
}
