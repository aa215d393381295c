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
