package sys

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxCPUs bounds the affinity masks; Linux can be built for 8,192 CPUs.
const maxCPUs = 1 << 16

// Gettid returns the kernel's id of the calling thread. Without runtime.LockOSThread the goroutine may be on another
// thread by the time it returns. Any goroutine.
func Gettid() int { return unix.Gettid() }

// PinThread binds the calling thread to one CPU (sched_setaffinity). The goroutine must have called
// runtime.LockOSThread: otherwise some thread of the runtime stays bound and the goroutine moves on. Threads that this
// one creates inherit the binding. The error names the CPU and keeps errno: EINVAL for a CPU that does not exist, is
// offline, or is outside the process's cpuset.
func PinThread(cpu int) error {
	if cpu < 0 || cpu >= maxCPUs {
		return fmt.Errorf("sys: pin thread to cpu %d: %w", cpu, unix.EINVAL)
	}
	set := unix.NewCPUSet(cpu + 1)
	set.Set(cpu)
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return fmt.Errorf("sys: pin thread to cpu %d: %w", cpu, err)
	}
	return nil
}

// AffinityMask returns the CPUs that the calling thread may run on, in ascending order (sched_getaffinity), or nil when
// a seccomp filter forbids the question. Any goroutine, with Gettid's reservation.
func AffinityMask() []int {
	for n := 1024; n <= maxCPUs; n *= 2 {
		set := unix.NewCPUSet(n)
		err := unix.SchedGetaffinityDynamic(0, set)
		if errors.Is(err, unix.EINVAL) {
			continue // this kernel's masks are longer
		}
		if err != nil {
			return nil
		}
		cpus := make([]int, 0, set.Count())
		for cpu := range n {
			if set.IsSet(cpu) {
				cpus = append(cpus, cpu)
			}
		}
		return cpus
	}
	return nil
}

// CPU returns the CPU that the calling thread runs on at this moment (getcpu), or -1 when a seccomp filter forbids the
// question. It is a system call; a thread that is pinned knows the answer. Any goroutine.
func CPU() int {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return -1
	}
	return int(cpu)
}

// SetAffinity lets the calling thread run on these processors only. The error names them and keeps errno: EINVAL where none of them exists, or
// one is no number of a processor.
func SetAffinity(cpus []int) error {
	err := error(unix.EINVAL)
	if len(cpus) > 0 && slices.Min(cpus) >= 0 && slices.Max(cpus) < maxCPUs {
		err = unix.SchedSetaffinityDynamic(0, cpuSet(cpus))
	}
	if err != nil {
		return fmt.Errorf("sys: set affinity to processors %v: %w", cpus, err)
	}
	return nil
}

// cpuSet is a mask with room for the highest of these processors. unix.CPUSet has room for 1,024.
func cpuSet(cpus []int) unix.CPUSetDynamic {
	set := unix.NewCPUSet(slices.Max(cpus) + 1)
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return set
}
