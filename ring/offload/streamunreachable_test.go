package offload_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// failure is the error with which a connection that is opened ends, and after what time.
func failure(t *testing.T, set *ring.Set, to string) (err error, took time.Duration) {
	s, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	begun := time.Now()
	if err := s.Connect(netip.MustParseAddrPort(to)); err != nil {
		return err, time.Since(begun)
	}
	dst := make([]ring.Completion, 8)
	for {
		n, err := s.Ring().Poll(dst)
		require.NoError(t, err)
		for i := range dst[:n] {
			if dst[i].Events.Has(ring.EventHup) {
				err, took := dst[i].Err, time.Since(begun)
				require.NoError(t, s.Close())
				return err, took
			}
			require.False(t, dst[i].Events.Has(ring.EventOut), "it is connected")
		}
		require.Less(t, time.Since(begun), 2*patience)
	}
}

// A connection to an address for which no neighbour answers ends with EHOSTUNREACH, when the kernel has given up asking, as its own do.
func TestNobodyAnswersARP(t *testing.T) {
	set := newMovable(t, func(o *streams.Options) { o.Settings.RTOInitial, o.Settings.SynRetries = time.Second, 6 }).set
	err, took := failure(t, set, "10.0.0.55:80")
	require.ErrorIs(t, err, unix.EHOSTUNREACH)
	t.Log(took)
}
