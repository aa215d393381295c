package offload

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// sleeper is what a driver sleeps on, and how other goroutines wake it.
type sleeper struct {
	linksArmed  bool // the links are in the list
	isVirtual   bool // Config.Sleep was given: nobody waits on descriptors
	isTimed     bool // the timer runs
	usesPpoll   bool
	framesAwake int       // frames since the ring slept last
	list        sys.Epoll // what FD waits on
	batch       []sys.EpollEvent
	timer       sys.TimerFD
	eventfd     sys.EventFD
	announced   atomic.Bool                   // the ring sleeps, or is about to
	neighbours  atomic.Pointer[[]host.Target] // those that datagrams of a ring that sleeps wait for; nil for none
	woken       func()                        // Config.Woken
	mu          sync.Mutex                    // wake may meet Close
	isClosed    bool
}

// Keys of the list's entries. Nothing reads them: whatever has woken the ring, the next turn looks at everything.
const (
	eventfdKey = iota
	timerKey
	shadowKey
	linkKey
)

// open makes the descriptors; on an error none is left open.
func (s *sleeper) open() (err error) {
	if s.list, err = sys.NewEpoll(); err != nil {
		return err
	}
	if s.eventfd, err = sys.NewEventFD(); err != nil {
		_ = s.list.Close()
		return err
	}
	if s.timer, err = sys.NewTimerFD(); err != nil {
		_ = s.eventfd.Close()
		_ = s.list.Close()
		return err
	}
	if err = s.add(s.eventfd.FD(), eventfdKey); err == nil {
		err = s.add(s.timer.FD(), timerKey)
	}
	if err != nil {
		_ = s.close()
		return err
	}
	s.batch = make([]sys.EpollEvent, 64)
	// ENOSYS before Linux 5.11; EPERM from seccomp filters older than the call. Either way there is the older one.
	_, e := s.list.Wait(s.batch, 0)
	s.usesPpoll = e == unix.ENOSYS || e == unix.EPERM
	return nil
}

// close closes what open has made.
func (s *sleeper) close() (err error) {
	for _, e := range []error{s.timer.Close(), s.eventfd.Close(), s.list.Close()} {
		if err == nil {
			err = e
		}
	}
	return err
}

// add puts a descriptor into the list.
func (s *sleeper) add(fd int, key uint32) error {
	if e := s.list.Control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, key, 0); e != 0 {
		return fmt.Errorf("epoll_ctl: %w", e)
	}
	return nil
}

// addLink puts the descriptor of the link at a place into the list. A VLAN's link on another's device has none; without linksArmed see armLinks.
func (s *sleeper) addLink(place int, l link.Link) error {
	fd := l.FD()
	if fd < 0 || !s.linksArmed {
		return nil
	}
	return s.add(fd, linkKey+uint32(place))
}

// removeLink takes a link's descriptor out of the list.
func (s *sleeper) removeLink(l link.Link) {
	if fd := l.FD(); fd >= 0 {
		_ = s.list.Control(unix.EPOLL_CTL_DEL, fd, 0, 0, 0) // refused for one that is not there
	}
}

// startTimer makes the list readable after some time.
func (s *sleeper) startTimer(after time.Duration) error {
	if e := s.timer.Start(max(after, 1)); e != 0 { // 0 would stop the timer
		return fmt.Errorf("offload: set deadline: %w", e)
	}
	s.isTimed = true
	return nil
}

// stopTimer undoes startTimer.
func (s *sleeper) stopTimer() {
	if s.isTimed {
		s.isTimed = false
		_ = s.timer.Stop() // cannot fail: the descriptor is ours and the time is zero
	}
}

// wait sleeps in epoll, at most for limit; a negative one is none.
func (s *sleeper) wait(limit time.Duration) error {
	wait := sys.Epoll.Wait
	if s.usesPpoll {
		wait = sys.Epoll.WaitPpoll
	}
	if _, e := wait(s.list, s.batch, limit); e != 0 && e != unix.EINTR {
		return fmt.Errorf("offload: wait: %w", e)
	}
	return nil
}

// cancel ends what announced began: the list is not readable any more.
func (s *sleeper) cancel() {
	s.announced.Store(false)
	s.framesAwake = 0
	if !s.isVirtual {
		s.eventfd.Drain()
	}
	s.stopTimer()
}

// wake ends a sleep, or makes the list readable. Any goroutine.
func (s *sleeper) wake() {
	s.mu.Lock()
	if !s.isClosed {
		s.eventfd.Signal()
	}
	s.mu.Unlock()
	if s.woken != nil {
		s.woken()
	}
}

// wakeOwner wakes the driver if it sleeps: another ring or a job has something for it. Any goroutine.
func (s *sleeper) wakeOwner() {
	if s.announced.Load() && s.announced.CompareAndSwap(true, false) { // the swap: one of several wakers makes the system call
		s.wake()
	}
}

// awaitNeighbours publishes which neighbours datagrams wait for: the mirror's goroutine wakes the sleeping ring for those alone.
func (s *sleeper) awaitNeighbours(t []host.Target) {
	var list *[]host.Target
	if t != nil {
		list = &t
	}
	s.neighbours.Store(list)
}

// awaitsNeighbours reports whether datagrams wait for any neighbour.
func (s *sleeper) awaitsNeighbours() bool { return s.neighbours.Load() != nil }

// awaits reports whether datagrams wait for one of the neighbours. Any goroutine.
func (s *sleeper) awaits(changed []host.Target) bool {
	list := s.neighbours.Load()
	return list != nil && slices.ContainsFunc(changed, func(t host.Target) bool { return slices.Contains(*list, t) })
}
