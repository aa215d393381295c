package xtreme_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A poller whose ring cannot be made, here for want of descriptors, leaves no memory behind.
func TestAPollerThatCannotBeMadeLeavesNothing(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	require.NoError(t, e.Start())
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	kept := int64(math.MaxInt64)
	for range 5 { // what other tests have left running takes and frees memory, too
		before := heap()
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}))
		var err error
		for range 40 {
			if _, err = e.NewPoller("no", xtreme.PollerConfig{MemoryOnDemand: true}); err == nil {
				break
			}
		}
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		require.ErrorIs(t, err, unix.EMFILE)
		kept = min(kept, heap()-before)
	}
	require.Less(t, kept, int64(1<<20))
}
