package sys

import (
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPinThread(t *testing.T) {
	// The goroutine ends locked, so the runtime ends the thread: no bound thread is left to the tests after this one.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		cpus := AffinityMask()
		if !(len(cpus) > 0 && slices.IsSorted(cpus) && slices.Contains(cpus, CPU())) {
			t.Errorf("mask %v, now on cpu %d", cpus, CPU())
		}
		tid := Gettid()
		for _, cpu := range cpus {
			if err := PinThread(cpu); err != nil {
				t.Error(err)
			}
			if mask := AffinityMask(); !slices.Equal(mask, []int{cpu}) || CPU() != cpu {
				t.Errorf("pinned to %d: mask %v, on cpu %d", cpu, mask, CPU())
			}
		}
		if Gettid() != tid {
			t.Errorf("locked, but the thread changed from %d to %d", tid, Gettid())
		}
	}()
	<-done
}

func TestPinThreadRefusesWrongCPUs(t *testing.T) {
	before := AffinityMask()
	for _, test := range []struct {
		cpu  int
		says string
	}{
		{-1, "cpu -1"}, {maxCPUs, "cpu 65536"}, {maxCPUs - 1, "cpu 65535"}, {5000, "cpu 5000"},
	} {
		err := PinThread(test.cpu)
		require.ErrorIs(t, err, unix.EINVAL)
		require.ErrorContains(t, err, test.says)
	}
	require.Equal(t, before, AffinityMask())
}

func TestGettidIsAThreadOfOurs(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.DirExists(t, "/proc/self/task/"+strconv.Itoa(Gettid()))
}

// A mask has room for every processor that is named, and the kernel takes it.
func TestAffinityBeyond1024Processors(t *testing.T) {
	set := cpuSet([]int{0, 1023, 1024, 5000})
	for cpu := range 6000 {
		require.Equal(t, cpu == 0 || cpu == 1023 || cpu == 1024 || cpu == 5000, set.IsSet(cpu), "%d", cpu)
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine's test
	before := AffinityMask()
	require.NoError(t, SetAffinity(append(slices.Clone(before), 5000)), "processors that do not exist are left out")
	require.Equal(t, before, AffinityMask())
	require.ErrorIs(t, SetAffinity([]int{5000}), unix.EINVAL)
	require.ErrorIs(t, SetAffinity([]int{-1}), unix.EINVAL)
	require.ErrorIs(t, SetAffinity(nil), unix.EINVAL)
	runtime.UnlockOSThread()
}
