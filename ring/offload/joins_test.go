package offload_test

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// joinCount is how many groups TestJoinsAreLinear joins.
const joinCount = 1000

// A socket joins 1,000 groups. What a join allocates does not grow with the groups that were joined before: the second 500 joins allocate at
// most a quarter more than the first 500 (copies of all that is there would make it three times as much or more).
//
// All of them take less than a second of processor time, which other programs' load does not change, and at most 40 times what the kernel's
// sockets take, which join the same groups in the same run: 15 times as a rule. On a small virtual machine that is some 60 ms beside 4 ms. With
// SOCKETXTREME_LONG, on a machine that does nothing else, the clock is judged too: less than a second.
func TestJoinsAreLinear(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector slows ours, not the kernel's")
	}
	for _, rings := range []int{1, 2} {
		t.Run(fmt.Sprintf("rings %d bytes", rings), func(t *testing.T) {
			u := joiner(t, rings)
			defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
			runtime.MemProfileRate = 1 // every allocation is in the profile, which takes its time
			none := joinsAllocate()
			joinEach(t, u, 0, joinCount/2)
			first := joinsAllocate() - none
			joinEach(t, u, joinCount/2, joinCount)
			second := joinsAllocate() - none - first
			t.Logf("%d joins: %d and %d bytes", joinCount, first, second)
			require.NotZero(t, first)
			require.LessOrEqual(t, second, first+first/4, "bytes allocated by joins 501 to 1,000, and by joins 1 to 500")
		})
		t.Run(fmt.Sprintf("rings %d time", rings), func(t *testing.T) {
			testnet.SkipIfSlow(t) // an emulated processor runs ours and the kernel's at other ratios
			u := joiner(t, rings)
			runtime.LockOSThread() // processor time of this thread: other programs' load is not counted
			defer runtime.UnlockOSThread()
			began, clock := threadTime(t), time.Now()
			joinEach(t, u, 0, joinCount)
			took, passed := threadTime(t)-began, time.Since(clock)
			twin := kernelJoins(t, joinCount)
			t.Logf("%d joins: %v, %v of processor time, the kernel's alone %v", joinCount, passed, took, twin)
			require.Less(t, took, 40*twin)
			require.Less(t, took, time.Second)
			if os.Getenv("SOCKETXTREME_LONG") != "" {
				require.Less(t, passed, time.Second)
			}
		})
	}
}

// joiner is a socket of a ring that shares v0 with others.
func joiner(t *testing.T, rings int) *ring.Socket {
	s := newShared(t, rings)
	set, _ := s.set([]int{0})
	if rings == 2 {
		other, _ := s.set([]int{1})
		s.open(other, "10.0.0.1:7001")
	}
	return s.open(set, "0.0.0.0:7000")
}

func joinEach(t *testing.T, u *ring.Socket, from, to int) {
	for i := from; i < to; i++ {
		require.NoError(t, u.JoinGroup(groupNumber(i), "v0", netip.Addr{}))
	}
}

// joinsAllocate is how many bytes JoinGroup has allocated in this process: others, such as who looks for foreign members, allocate meanwhile.
func joinsAllocate() (n int64) {
	runtime.GC()
	runtime.GC() // the profile is that of the last but one
	records := make([]runtime.MemProfileRecord, 1<<14)
	for {
		k, ok := runtime.MemProfile(records, true)
		if ok {
			records = records[:k]
			break
		}
		records = make([]runtime.MemProfileRecord, 2*k)
	}
	for i := range records {
		for frames, more := runtime.CallersFrames(records[i].Stack()), true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); strings.HasSuffix(f.Function, ".JoinGroup") {
				n += records[i].AllocBytes
				break
			}
		}
	}
	return n
}

// kernelJoins joins n groups with the kernel's sockets alone, as many descriptors as their limit wants.
func kernelJoins(t *testing.T, n int) time.Duration {
	index, err := sys.InterfaceIndex("v0")
	require.NoError(t, err)
	const each = 20 // net.ipv4.igmp_max_memberships
	began, fd := threadTime(t), -1
	for i := range n {
		if i%each == 0 {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			socket := fd
			t.Cleanup(func() { require.NoError(t, unix.Close(socket)) })
		}
		require.NoError(t, sys.GroupMembership(fd, groupNumber(i), index, netip.Addr{}, true))
	}
	return threadTime(t) - began
}

// threadTime is the processor time that the calling thread has used.
func threadTime(t *testing.T) time.Duration {
	var at unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at))
	return time.Duration(at.Nano())
}
