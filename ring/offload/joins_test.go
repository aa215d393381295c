package offload_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// joinCount is how many groups TestJoinsAreLinear joins.
const joinCount = 1000

// A socket joins 1,000 groups. What a join allocates does not grow with the groups that were joined before: the second 500 joins allocate at
// most twice what the first 500 do (copies of all that is there would make it three times as much or more). The kernel's sockets, which join
// the same groups in the same run, are the measure of time.
func TestJoinsAreLinear(t *testing.T) {
	for _, rings := range []int{1, 2} {
		t.Run(fmt.Sprintf("rings %d", rings), func(t *testing.T) {
			s := newShared(t, rings)
			set, _ := s.set([]int{0})
			if rings == 2 {
				other, _ := s.set([]int{1})
				s.open(other, "10.0.0.1:7001")
			}
			u := s.open(set, "0.0.0.0:7000")
			began := time.Now()
			first := allocatedBy(func() { joinEach(t, u, 0, joinCount/2) })
			second := allocatedBy(func() { joinEach(t, u, joinCount/2, joinCount) })
			took := time.Since(began)
			require.LessOrEqual(t, second, 2*first, "bytes allocated by joins 501 to 1,000, and by joins 1 to 500")
			twin := kernelJoins(t, joinCount)
			t.Logf("%d joins: %v, the kernel's alone %v; %d and %d bytes", joinCount, took, twin, first, second)
			require.Less(t, took, max(time.Second, 10*twin))
		})
	}
}

func joinEach(t *testing.T, u *ring.Socket, from, to int) {
	for i := from; i < to; i++ {
		require.NoError(t, u.JoinGroup(groupNumber(i), "v0", netip.Addr{}))
	}
}

// allocatedBy is how many bytes the process allocates while f runs.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// kernelJoins joins n groups with the kernel's sockets alone, as many descriptors as their limit wants.
func kernelJoins(t *testing.T, n int) time.Duration {
	index, err := sys.InterfaceIndex("v0")
	require.NoError(t, err)
	const each = 20 // net.ipv4.igmp_max_memberships
	began, fd := time.Now(), -1
	for i := range n {
		if i%each == 0 {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			socket := fd
			t.Cleanup(func() { require.NoError(t, unix.Close(socket)) })
		}
		require.NoError(t, sys.GroupMembership(fd, groupNumber(i), index, netip.Addr{}, true))
	}
	return time.Since(began)
}
