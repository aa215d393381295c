package reactor

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// externalFDs is the descriptors that no ring of the poller serves: pipes, timers, sockets of other libraries. They share
// one epoll set, which a spinning loop looks at on every OSRatio-th turn (VMA: the OS descriptors of its select and
// epoll_wait) and a sleeping one sleeps on beside its rings.
type externalFDs struct {
	fd      int // of the epoll set; -1 before the first Watch
	watches []watch
	byFD    map[int]int32 // slot of each descriptor watched
	free    []int32
	events  [16]unix.EpollEvent
	due     int // turns until the next look
}

type watch struct {
	fd  int
	gen int32 // of the slot: an event for an older one is stale
	f   func(xtreme.Event)
}

func (w *externalFDs) count() int { return len(w.byFD) }

// Watch calls f on the loop while fd is readable (xtreme.EventIn) or writable (xtreme.EventOut): level-triggered, so f must read,
// write or Unwatch. The events given to f may include EventErr and EventHup, which are always watched for. fd stays the caller's;
// Unwatch it before closing it. Loop only.
//
// Errors: EINVAL for events other than EventIn and EventOut, a nil f, or a loop that never sleeps and whose OSRatio says to look
// only after a sleep; EEXIST for a descriptor that is watched already; what the kernel says of the descriptor (EBADF;
// EPERM for a file).
func (l *Loop) Watch(fd int, events xtreme.Event, f func(events xtreme.Event)) error {
	if err := l.watch(fd, events, f); err != nil {
		return l.fail(fmt.Errorf("watch descriptor %d: %w", fd, err))
	}
	return nil
}

// Unwatch ends Watch; f is not called any more, even if its event was seen. Loop only. A descriptor that is not watched
// is ENOENT.
func (l *Loop) Unwatch(fd int) error {
	if err := l.unwatch(fd); err != nil {
		return l.fail(fmt.Errorf("unwatch descriptor %d: %w", fd, err))
	}
	return nil
}

func (l *Loop) watch(fd int, events xtreme.Event, f func(xtreme.Event)) error {
	if err := l.onLoop(); err != nil {
		return err
	}
	switch {
	case events == 0 || events&^(xtreme.EventIn|xtreme.EventOut) != 0:
		return fmt.Errorf("events %v: want IN, OUT or both: %w", events, unix.EINVAL)
	case f == nil:
		return fmt.Errorf("function nil: %w", unix.EINVAL)
	case l.config.OSRatio == 0 && l.config.neverSleeps():
		return fmt.Errorf("rest policy %v and OSRatio 0: it would never be looked at: %w", l.config.Rest, unix.EINVAL)
	}
	w := &l.external
	if _, ok := w.byFD[fd]; ok {
		return unix.EEXIST
	}
	if w.fd < 0 {
		set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return fmt.Errorf("epoll_create: %w", err)
		}
		w.fd, w.byFD = set, map[int]int32{}
	}
	slot := w.slot()
	at := &w.watches[slot]
	event := unix.EpollEvent{Events: uint32(events), Fd: slot, Pad: at.gen}
	if err := unix.EpollCtl(w.fd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		w.free = append(w.free, slot)
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	at.fd, at.f = fd, f
	w.byFD[fd] = slot
	return nil
}

func (w *externalFDs) slot() int32 {
	if n := len(w.free); n > 0 {
		slot := w.free[n-1]
		w.free = w.free[:n-1]
		return slot
	}
	w.watches = append(w.watches, watch{fd: -1})
	return int32(len(w.watches) - 1)
}

func (l *Loop) unwatch(fd int) error {
	if err := l.onLoop(); err != nil {
		return err
	}
	w := &l.external
	slot, ok := w.byFD[fd]
	if !ok {
		return unix.ENOENT
	}
	delete(w.byFD, fd)
	w.watches[slot] = watch{fd: -1, gen: w.watches[slot].gen + 1}
	w.free = append(w.free, slot)
	if err := unix.EpollCtl(w.fd, unix.EPOLL_CTL_DEL, fd, nil); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err) // closed before it was unwatched
	}
	return nil
}

// pollExternal is the turn's share for external descriptors: nothing on most turns.
func (l *Loop) pollExternal() error {
	w := &l.external
	if w.due > 0 {
		w.due--
		return nil
	}
	if w.due = l.config.OSRatio - 1; w.due < 0 {
		w.due = int(^uint(0) >> 1) // only a sleep makes it due again
	}
	n, err := unix.EpollWait(w.fd, w.events[:], 0)
	if err != nil {
		if errors.Is(err, unix.EINTR) {
			w.due = 0
			return nil
		}
		return fmt.Errorf("external descriptors: epoll_wait: %w", err)
	}
	if n == 0 {
		return nil
	}
	l.busy, l.busyIO = true, true
	l.doing = inExternal
	for i := range n {
		e := &w.events[i]
		at := &w.watches[e.Fd]
		if at.gen != e.Pad || at.f == nil {
			continue // unwatched by a function that ran just before
		}
		l.stats.ExternalEvents++
		at.f(xtreme.Event(e.Events)) // if it panics, the rest is reported again
	}
	l.doing = inRing
	return nil
}

func (w *externalFDs) close() error {
	if w.fd < 0 {
		return nil
	}
	fd := w.fd
	*w = externalFDs{fd: -1}
	return unix.Close(fd)
}
