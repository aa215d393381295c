package hoststat

import (
	"errors"
	"os"
	"runtime/metrics"
	"strconv"

	"golang.org/x/sys/unix"
)

// process adds what the process has had of its processors: of all threads that run now, and, as they were read last, of those that have ended
// since the first call, so that no total falls.
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
	r.looks++
	for _, name := range names {
		s, err := ThreadSchedule(name)
		was, ok := r.threads[name]
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil { // no descriptor, say: it has what it had
			s = was.Schedule
		}
		if ok && s.Ran < was.Ran { // another thread, with the number of one that has ended
			r.ended.add(was.Schedule)
		}
		r.threads[name] = threadTimes{s, r.looks}
	}
	total := r.ended
	for name, x := range r.threads {
		total.add(x.Schedule)
		if x.look != r.looks {
			r.ended.add(x.Schedule)
			delete(r.threads, name)
		}
	}
	r.add("process.cpu_time", total.Ran)
	r.add("process.run_delay", total.Delayed)
}

// Schedule is what the scheduler counts of a thread, in nanoseconds.
type Schedule struct {
	Ran     uint64 // time on a processor
	Delayed uint64 // time in which it could have run and another one did
}

// add adds the times of another thread.
func (s *Schedule) add(x Schedule) { s.Ran, s.Delayed = s.Ran+x.Ran, s.Delayed+x.Delayed }

// threadTimes is what a thread had at a look.
type threadTimes struct {
	Schedule
	look uint64
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
