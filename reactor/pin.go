package reactor

import (
	"fmt"
	"runtime"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// pin locks the goroutine to its thread and binds the thread to the processor in cpu, a list of at most one; unpin undoes both. With an empty
// list both do nothing.
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
		if sys.SetAffinity(before) == nil { // without a mask, because sched_getaffinity was refused, an error
			runtime.UnlockOSThread()
		} // else the goroutine keeps the thread, which ends with it: another goroutine must not run on a bound thread
	}, nil
}
