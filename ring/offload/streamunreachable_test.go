package offload_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// failure is the error with which a connection that is opened ends, and after what time.
func failure(t *testing.T, set *ring.Set, to string) (took time.Duration, err error) {
	s, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	begun := time.Now()
	if err := s.Connect(netip.MustParseAddrPort(to)); err != nil {
		return time.Since(begun), err
	}
	dst := make([]ring.Completion, 8)
	for {
		n, err := s.Ring().Poll(dst)
		require.NoError(t, err)
		for i := range dst[:n] {
			if dst[i].Events.Has(ring.EventHup) {
				took, err := time.Since(begun), dst[i].Err
				require.NoError(t, s.Close())
				return took, err
			}
			require.False(t, dst[i].Events.Has(ring.EventOut), "it is connected")
		}
		require.Less(t, time.Since(begun), 2*patience)
	}
}

// A connection to an address for which no neighbour answers ends with EHOSTUNREACH, when the kernel has given up asking, as its own do.
func TestNobodyAnswersARP(t *testing.T) {
	set := newMovable(t, func(o *streams.Options) { o.Settings.RTOInitial, o.Settings.SynRetries = time.Second, 6 }).set
	took, err := failure(t, set, "10.0.0.55:80")
	require.ErrorIs(t, err, unix.EHOSTUNREACH)
	t.Log(took)
}

// Port 0 and 0.0.0.0 are the kernel's, as every program knows them: the one is refused by its host, the other is this host.
func TestConnectToNothing(t *testing.T) {
	_, set := streamRing(t)
	_, err := failure(t, set, "10.0.0.2:0")
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	_, err = failure(t, set, "0.0.0.0:81")
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	l, err := net.Listen("tcp4", "127.0.0.1:80")
	require.NoError(t, err)
	defer l.Close()
	s, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Connect(netip.MustParseAddrPort("0.0.0.0:80")))
	dst := make([]ring.Completion, 8)
	for end, open := time.Now().Add(patience), false; !open; {
		require.True(t, time.Now().Before(end))
		n, err := s.Ring().Poll(dst)
		require.NoError(t, err)
		for i := range dst[:n] {
			require.False(t, dst[i].Events.Has(ring.EventHup), "%v", dst[i].Err)
			open = open || dst[i].Events.Has(ring.EventOut)
		}
	}
	require.Equal(t, "tcp.same_host", s.Path().Lost)
	require.NoError(t, s.Close())
}
