//go:build !amd64 && !arm64

package sys

import (
	"fmt"
	"runtime"
)

// goroutine reads the number in "goroutine 17 [running]:", the first line of a stack trace: slow, but right wherever Go
// runs. The numbers are never used again, which is more than Goroutine guarantees.
func goroutine() uintptr {
	var line [64]byte
	trace := line[:runtime.Stack(line[:], false)]
	var id uintptr
	for i := len("goroutine "); i < len(trace) && '0' <= trace[i] && trace[i] <= '9'; i++ {
		id = id*10 + uintptr(trace[i]-'0')
	}
	if id == 0 {
		panic(fmt.Sprintf("sys: no goroutine number in the stack trace %q", trace))
	}
	return id
}
