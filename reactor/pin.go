package reactor

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// pin binds the goroutine to its thread and the thread to a processor; unpin undoes both. Without a processor both do
// nothing.
func pin(cpu []int) (unpin func(), err error) {
	if len(cpu) == 0 {
		return func() {}, nil
	}
	runtime.LockOSThread()
	before := sys.AffinityMask()
	if err := sys.PinThread(cpu[0]); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("Config.Pin: %w", err)
	}
	return func() {
		if restore(before) == nil {
			runtime.UnlockOSThread()
		} // otherwise the thread stays with this goroutine and ends with it: no other may inherit the binding
	}, nil
}

func restore(cpus []int) error {
	if len(cpus) == 0 {
		return unix.EPERM // sched_getaffinity was refused
	}
	set := unix.NewCPUSet(cpus[len(cpus)-1] + 1)
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return unix.SchedSetaffinityDynamic(0, set)
}
