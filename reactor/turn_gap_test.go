package reactor

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// After a long gap the Polls that show that no older data is left must be empty one after the other: a Poll with data between them begins anew.
func TestEmptyPollsAfterAGapAreInARow(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin})
	s, err := l.Poller().OpenUDP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.UDPConfig{})
	require.NoError(t, err)
	peer := dialUDP(t, s.LocalAddr())
	_, err = l.reap()
	require.NoError(t, err)
	l.behind = emptyPolls
	n, err := l.reap()
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, emptyPolls-1, l.behind)
	_, err = peer.Write([]byte("late"))
	require.NoError(t, err)
	for end := time.Now().Add(patience); n == 0; {
		require.True(t, time.Now().Before(end), "the datagram did not arrive")
		l.behind = emptyPolls - 1 // as after the first empty Poll
		n, err = l.reap()
		require.NoError(t, err)
	}
	require.Equal(t, emptyPolls, l.behind)
	l.run()
}
