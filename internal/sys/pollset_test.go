package sys

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A wait of no time does not sleep, a short one is not rounded up to a millisecond. Which it is, the thread's own count of voluntary
// context switches and the shortest of many waits say: load makes waits longer, never shorter.
func TestPollSetShortWaits(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := NewPollSet()
	require.NoError(t, err)
	defer p.Close()
	bell, err := NewEventFD()
	require.NoError(t, err)
	defer bell.Close()
	require.NoError(t, p.Add(bell.FD()))

	const waits = 200
	before := sleepsOfThread(t)
	for range waits {
		require.NoError(t, p.Wait(0))
	}
	require.Less(t, sleepsOfThread(t)-before, int64(waits/2), "sleeps in %d waits of no time", waits)

	shortest := time.Hour
	for range waits {
		begin := time.Now()
		require.NoError(t, p.Wait(50*time.Microsecond))
		took := time.Since(begin)
		require.GreaterOrEqual(t, took, 50*time.Microsecond, "it must not end early")
		shortest = min(shortest, took)
	}
	require.Less(t, shortest, time.Millisecond, "the shortest of %d waits of 50 µs", waits)

	bell.Signal()
	for _, d := range []time.Duration{0, time.Millisecond, time.Hour, -1} {
		require.NoError(t, p.Wait(d)) // for ever, if it did not see the bell
	}
	bell.Drain()
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = p.Wait(0); _ = p.Wait(1) }))
}

func sleepsOfThread(t *testing.T) int64 {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return u.Nvcsw
}
