package reactor

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// externalFDs has the descriptors that the program gave to Watch: pipes, timers, sockets of other libraries. They are in one epoll set. A
// spinning loop polls the set on every OSRatio-th turn, as VMA does with descriptors of the OS in select and epoll_wait; a sleeping loop
// sleeps on it and on its rings.
type externalFDs struct {
	fd      int           // of the epoll set; -1 before the first Watch
	watches []watch       // by slot
	byFD    map[int]int32 // the slot of each watched descriptor
	free    []int32       // slots that are not in use
	events  [16]unix.EpollEvent
	due     int // turns until the set is polled again
}

// watch is one slot: a descriptor and the function for its events.
type watch struct {
	fd  int
	gen int32 // grows when the slot is freed: an event with an older number is for a descriptor that is not watched any more
	f   func(xtreme.Event)
}

// count returns how many descriptors are watched.
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

// watch is Watch without the loop's name in its errors.
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
	slot := w.allocSlot()
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

// allocSlot returns a slot that is not in use.
func (w *externalFDs) allocSlot() int32 {
	if n := len(w.free); n > 0 {
		slot := w.free[n-1]
		w.free = w.free[:n-1]
		return slot
	}
	w.watches = append(w.watches, watch{fd: -1})
	return int32(len(w.watches) - 1)
}

// unwatch is Unwatch without the loop's name in its errors. The new generation of the slot drops events that are in the current batch.
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
		return fmt.Errorf("epoll_ctl: %w", err) // the descriptor was closed before
	}
	return nil
}

// pollExternal polls the external descriptors and calls their functions, if this turn is the OSRatio-th one or follows a sleep; else it does
// nothing.
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
			w.due = 0 // the next turn looks
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
			continue // a function that was called just before has unwatched it
		}
		l.stats.ExternalEvents++
		at.f(xtreme.Event(e.Events)) // if it panics, epoll reports the remaining events again
	}
	l.doing = inRing
	return nil
}

// close closes the epoll set when the loop ends. The descriptors in it are the program's and stay open.
func (w *externalFDs) close() error {
	if w.fd < 0 {
		return nil
	}
	fd := w.fd
	*w = externalFDs{fd: -1}
	return unix.Close(fd)
}
