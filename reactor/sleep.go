package reactor

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// Rest is what a loop does after a turn in which nothing happened.
//
//	          processor when idle   answer after a pause
//	Spin      all of one            the next turn sees it: an empty one takes 70 ns on uring, 270 ns on epoll
//	Adaptive  none, once asleep     as Spin within the pause it spins for, then as Wait
//	Wait      none                  a wake-up
//
// docs/performance.md has measurements: what a wake-up costs beside that of a goroutine blocked in package net, and what spinning saves.
//
// A spinning loop wants a processor of its own: with more runnable goroutines than processors the runtime takes it away
// for time slices of 10 ms and more.
type Rest uint8

// The rest policies. Their names, for flags and ParseRest, are adaptive, spin and wait.
const (
	// Adaptive spins for RxPoll empty turns, at most for SelectPoll, and then sleeps until a completion, a timer,
	// posted work or an external descriptor. Timers wake it without making it spin again.
	Adaptive Rest = iota
	// Spin never sleeps.
	Spin
	// Wait sleeps whenever a turn was empty.
	Wait
)

var restNames = [...]string{Adaptive: "adaptive", Spin: "spin", Wait: "wait"}

// ParseRest reads a policy by its name.
func ParseRest(s string) (Rest, error) {
	for i, name := range restNames {
		if s == name {
			return Rest(i), nil
		}
	}
	return 0, fmt.Errorf("reactor: rest policy %q: want spin, adaptive or wait: %w", s, unix.EINVAL)
}

// String is the value in words.
func (r Rest) String() string {
	if int(r) < len(restNames) {
		return restNames[r]
	}
	return fmt.Sprintf("Rest(%d)", uint8(r))
}

// MarshalText and UnmarshalText let flag.TextVar and configuration files name a policy.
func (r Rest) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a Rest, as MarshalText writes it.
func (r *Rest) UnmarshalText(text []byte) error {
	v, err := ParseRest(string(text))
	if err == nil {
		*r = v
	}
	return err
}

// yieldEvery is after how many empty turns, by default, a spinning loop that is not locked to a thread lets other goroutines run
// (runtime.Gosched). A locked loop does not: changing threads costs 3.5 µs to 9 µs, and the runtime preempts it anyway. An Adaptive loop does so
// in its first empty turn too (0.15 µs), so that goroutines which its handlers have just started run before the loop has spun to its end.
const yieldEvery = 1024

// yieldsAfterPost is how many times after a Post of another goroutine the loop lets goroutines run in its first empty turn, also if it is locked
// to a thread, unless it never sleeps. A goroutine that a handler has made runnable is next on the loop's own processor. If the loop spins or
// sleeps there instead, another thread has to wake up for the goroutine, and its Post has to wake the loop: two wake-ups, about 100 µs on a
// virtual machine, where one switch of goroutines would do.
const yieldsAfterPost = 64

// sleepIfIdle is the end of a turn: if the turn did nothing, and the loop has spun as long as its configuration says, it sleeps until a
// completion, a timer, a post or an external descriptor.
func (l *Loop) sleepIfIdle() error {
	if l.busyIO {
		l.idle, l.lastIO = 0, l.now
		return nil
	}
	l.idle++
	if l.busy || l.posts.hasTaken() {
		return nil // timers have run: the next turn reads the clock before the loop decides how long to sleep. Or posted functions are left
	}
	yielded := l.yielded
	l.yielded = false
	if l.idle == 1 && l.yields > 0 && !l.config.neverSleeps() { // see yieldsAfterPost
		l.yields--
		if !yielded { // else a handler has called Yield already
			runtime.Gosched()
		}
		return nil
	}
	if l.spins() { // for the Gosched see yieldEvery
		if !l.locked && (l.idle%l.config.yield == 0 || l.idle == 1 && l.config.Rest == Adaptive) {
			runtime.Gosched()
		}
		return nil
	}
	if l.longestSleep < 0 && l.posts.stopping() {
		return nil // Shutdown was called during this turn, whose Poll may have consumed its wake-up
	}
	d := l.longestSleep
	if next, ok := l.wheel.Next(); ok {
		left := next.Sub(l.now)
		if left <= 0 {
			return nil // the timer is due: the next turn runs it
		}
		if d < 0 || left < d {
			d = left
		}
	}
	return l.sleep(d)
}

// Yield lets other goroutines run (runtime.Gosched): one that a handler has just made runnable runs now, on this processor. Loop only.
func (l *Loop) Yield() {
	l.yielded = true
	runtime.Gosched()
}

// spins reports whether the loop takes another turn at once after an empty one, instead of sleeping.
func (l *Loop) spins() bool {
	switch l.config.Rest {
	case Spin:
		return true
	case Adaptive:
		return l.config.neverSleeps() ||
			l.idle <= uint64(l.config.RxPoll) && l.now.Sub(l.lastIO) < l.config.SelectPoll
	}
	return false
}

// sleep blocks until a ring or an external descriptor has something, at most for d; a negative d is no limit. With a single ring and nothing
// else the ring's own way of waiting is cheaper.
func (l *Loop) sleep(d time.Duration) error {
	l.slept = true
	l.stats.Sleeps++
	rings := l.poller.Rings()
	if len(rings) == 1 && l.external.count() == 0 {
		return l.poller.WaitFor(d)
	}
	l.external.due = 0
	return l.waitAll(rings, d)
}

// waitAll arms every ring and sleeps in ppoll on their descriptors and on the epoll set of the external ones. ppoll takes nanoseconds, which
// epoll_wait does not, and the descriptors are few.
func (l *Loop) waitAll(rings []*ring.Ring, d time.Duration) error {
	l.waits = l.waits[:0]
	if pending, err := l.poller.ArmRings(); err != nil || pending {
		return err
	}
	for _, r := range rings {
		l.waits = append(l.waits, unix.PollFd{Fd: int32(r.FD()), Events: unix.POLLIN})
	}
	if l.external.count() > 0 {
		l.waits = append(l.waits, unix.PollFd{Fd: int32(l.external.fd), Events: unix.POLLIN})
	}
	var limit *unix.Timespec
	if d >= 0 {
		l.limit = unix.NsecToTimespec(int64(d))
		limit = &l.limit
	}
	if _, err := unix.Ppoll(l.waits, limit, nil); err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for %d rings and %d external descriptors: ppoll: %w", len(rings), l.external.count(), err)
	}
	return nil
}
