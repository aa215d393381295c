package hoststat

import (
	"os"
	"runtime/metrics"
	"strconv"

	"golang.org/x/sys/unix"
)

// process adds what the process has had of its processors: of all threads that run now.
func (r *Reader) process() {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		r.add("process.page_faults", uint64(usage.Minflt))
		r.add("process.major_faults", uint64(usage.Majflt))
		r.add("process.preempted", uint64(usage.Nivcsw))
	}
	metrics.Read(r.samples)
	if r.samples[0].Value.Kind() == metrics.KindUint64 {
		r.add("process.gc_cycles", r.samples[0].Value.Uint64())
	}
	if r.tasks == nil {
		return
	}
	if _, err := r.tasks.Seek(0, 0); err != nil {
		return
	}
	names, err := r.tasks.Readdirnames(-1)
	if err != nil {
		return
	}
	var ran, delayed uint64
	for _, name := range names {
		s, err := ThreadSchedule(name)
		if err == nil { // else the thread has ended
			ran, delayed = ran+s.Ran, delayed+s.Delayed
		}
	}
	r.add("process.cpu_time", ran)
	r.add("process.run_delay", delayed)
}

// Schedule is what the scheduler counts of a thread, in nanoseconds.
type Schedule struct {
	Ran     uint64 // time on a processor
	Delayed uint64 // time in which it could have run and another one did
}

// ThreadSchedule reads the counts of a thread of this process by its number, in decimal.
func ThreadSchedule(thread string) (Schedule, error) {
	f, err := OpenSchedule(thread)
	if err != nil {
		return Schedule{}, err
	}
	defer f.Close()
	return ReadSchedule(f)
}

// OpenSchedule opens the counts of a thread of this process, for ReadSchedule.
func OpenSchedule(thread string) (*os.File, error) {
	return os.Open("/proc/self/task/" + thread + "/schedstat")
}

// ReadSchedule reads the counts of a thread anew, with one system call and without an allocation. Any thread.
func ReadSchedule(f *os.File) (Schedule, error) {
	var text [96]byte
	n, err := unix.Pread(int(f.Fd()), text[:], 0)
	if err != nil {
		return Schedule{}, err
	}
	ran, rest := nextField(text[:n])
	delayed, _ := nextField(rest)
	return Schedule{number(ran), number(delayed)}, nil
}

// Thread is the calling thread's number, in decimal.
func Thread() string { return strconv.Itoa(unix.Gettid()) }

// Collections counts garbage collections of this process. One goroutine at a time; the zero value is ready.
type Collections struct{ samples []metrics.Sample }

// Read returns how often collections have stopped all goroutines so far, which is twice for each, and how many have ended.
func (c *Collections) Read() (pauses, cycles uint64) {
	if c.samples == nil {
		c.samples = []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}, {Name: "/gc/cycles/total:gc-cycles"}}
	}
	metrics.Read(c.samples)
	if c.samples[0].Value.Kind() == metrics.KindFloat64Histogram {
		for _, n := range c.samples[0].Value.Float64Histogram().Counts {
			pauses += n
		}
	}
	if c.samples[1].Value.Kind() == metrics.KindUint64 {
		cycles = c.samples[1].Value.Uint64()
	}
	return pauses, cycles
}
