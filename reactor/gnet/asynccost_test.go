package gnet_test

import (
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

// An answer by AsyncWrite, from a goroutine for each message, takes less than twice as long on an io_uring ring as on an epoll ring: it was
// three times as long. Both serve at once and are measured in turns; of each the best round counts, because other programs spoil some. Where the
// threads run moves the quotient between 1 and 2, so it is judged with SOCKETXTREME_LONG alone, on a machine that does nothing else.
// TestAsyncWriteNeedsNoSleep judges the cause by counts, always; BenchmarkAsyncWrite has gnet beside them.
func TestAsyncWriteCostsOnUringWhatItCostsOnEpoll(t *testing.T) {
	if raceDetector {
		t.Skip("times of the race detector say nothing")
	}
	if os.Getenv("SOCKETXTREME_LONG") == "" {
		t.Skip("a quotient of times, on a machine that does nothing else: SOCKETXTREME_LONG=1m")
	}
	testnet.SkipIfSlow(t)
	if err := uring.Probe(); err != nil {
		testnet.Missing(t, "uring", err)
	}
	kinds := []conf.RingKind{conf.RingUring, conf.RingEpoll}
	var ends []net.Conn
	for _, kind := range kinds {
		c := world{ring: kind}.benchServer(t, handler{traffic: func(c gnet.Conn) gnet.Action {
			b := make([]byte, c.InboundBuffered())
			_, _ = c.Read(b)
			go func() { _ = c.AsyncWrite(b, nil) }()
			return gnet.None
		}})
		require.NoError(t, c.SetDeadline(time.Now().Add(testnet.Slow(time.Minute))))
		ends = append(ends, c)
	}
	message := make([]byte, 64)
	median := func(c net.Conn) time.Duration {
		trips := make([]time.Duration, 300)
		for i := range trips {
			begun := time.Now()
			_, err := c.Write(message)
			require.NoError(t, err)
			_, err = io.ReadFull(c, message)
			require.NoError(t, err)
			trips[i] = time.Since(begun)
		}
		slices.Sort(trips)
		return trips[len(trips)/2]
	}
	best := make([]time.Duration, len(ends))
	for round := range 20 {
		for i, c := range ends {
			if d := median(c); round == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	t.Logf("%v %v, %v %v", kinds[0], best[0], kinds[1], best[1])
	require.Less(t, best[0], 2*best[1])
}
