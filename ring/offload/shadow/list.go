package shadow

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// List is the shadows of one ring's sockets: an epoll list of them, level-triggered, so that what one turn leaves is reported by the next, and
// the schedule of when it is looked at. It belongs to the ring's goroutine. Until Open there is no shadow, and nothing is ever due.
type List struct {
	ready   ReadyList
	receive Receiver
	batch   []sys.EpollEvent
	find    func(slot, gen uint32) *Watch
	isOpen  bool
	watched int // sockets in the list
	pending []socketRef

	lookEvery      int  // of the turns with frames, on which the list is looked at
	soon           bool // look in the next turn, whatever the schedule says
	turnsToLook    int  // with frames until the next look
	emptyInARow    int  // looks in a row that found nothing
	lookedAt       clock.Time
	linksWaitTurns int // turns in which the links wait until a look finds nothing more: a flow was just claimed
}

// Watch is one socket's place in the list.
type Watch struct {
	On      bool // reading is wanted
	fd      int
	ref     socketRef
	listed  bool
	events  uint32 // asked for there
	pending bool   // in List.lazy
}

// socketRef names a socket.
type socketRef struct{ slot, gen uint32 }

const (
	// claimTurns bounds how long the links wait after a claim for what the kernel has of the flow: 64 datagrams a turn, where the
	// application has room for them, as many short ones as a shadow's receive buffer holds. What it gets for the socket afterwards
	// (fragments) must not hold the links up.
	claimTurns = 171
	// burst is how many datagrams of one socket a turn reads while frames come. When none do, or the links wait, the ready sockets
	// share all the room there is: their shadows may be the only way.
	burst = 16
	// idleEvery is on which turn without a frame the list may be looked at: an epoll_wait costs some 250 ns, which would be the most
	// of a spinning turn. On the same turns the ring reads the clock. When turns take long it is looked at as soon as the clock is read.
	idleEvery = 16
	// Between two frames of a quick exchange even that is a look for each of them, and delays it. So while frames come (some came in the last
	// quietTurns), and emptyLooks looks in a row found nothing, it is lookGap that must have passed.
	quietTurns = 16384
	emptyLooks = 64
	lookGap    = clock.Time(50_000)
	pendingMax = 4096
)

// Open makes the list of descriptors of a kernel. every is on which of the turns with frames it is looked at; find finds a socket's place,
// nil when it is gone.
func (l *List) Open(k Kernel, pool *buffers.DriverPool, every int, find func(slot, gen uint32) *Watch) (err error) {
	if l.ready, err = k.NewReadyList(); err != nil {
		return err
	}
	l.receive, l.batch, l.find, l.lookEvery, l.isOpen = k.NewReceiver(pool), make([]sys.EpollEvent, 64), find, every, true
	return nil
}

// Close closes the list.
func (l *List) Close() {
	if l.isOpen {
		l.receive.Close()
		_ = l.ready.Close() // an epoll descriptor has nothing to lose
		l.isOpen = false
	}
}

// FD is readable while a shadow has something.
func (l *List) FD() int { return l.ready.FD() }

// Receiver is what reads the shadows' datagrams into the ring's pool.
func (l *List) Receiver() Receiver { return l.receive }

// ReturnSpare returns the buffers that reading keeps ready.
func (l *List) ReturnSpare() {
	if l.isOpen {
		l.receive.ReturnSpare()
	}
}

// LookSoon has the next turn look, whatever the schedule says.
func (l *List) LookSoon() { l.soon = true }

// HoldLinks has the links wait for some turns, in which the shadows are read: a flow was just claimed, and what the kernel has of it is older
// than any frame to come.
func (l *List) HoldLinks() { l.linksWaitTurns = claimTurns }

// LinksWait reports whether the links are to wait for what the kernel has of flows that were just claimed. Without a socket in the list it
// has nothing, and nothing would look: they do not wait.
func (l *List) LinksWait() bool { return l.linksWaitTurns > 0 && l.watched > 0 }

// IsDue reports whether it is time to look: on every so-many-th turn of those that frames came in, and in the turns between as the
// constants above say. idle is how many turns in a row had no frame; long: the turns take long.
func (l *List) IsDue(turn uint64, idle int, long bool, now clock.Time) bool {
	if l.watched == 0 {
		return false
	}
	if l.soon || l.LinksWait() {
		return true
	}
	if idle == 0 {
		l.turnsToLook--
		return l.turnsToLook < 0
	}
	if !long && (idle < idleEvery || turn%idleEvery != 0) {
		return false
	}
	return l.emptyInARow < emptyLooks || idle >= quietTurns || now-l.lookedAt >= lookGap
}

// noteLook counts a look, at which n sockets were ready, for the schedule.
func (l *List) noteLook(n int, now clock.Time) {
	l.turnsToLook, l.lookedAt = l.lookEvery-1, now
	if l.emptyInARow++; n > 0 {
		l.emptyInARow = 0
	}
}

// Look lists sockets that are ready, at most room of them, and how many datagrams of each are to be read. EndLook follows, unless the result
// is nil: then the call was interrupted.
func (l *List) Look(room, idle int, now clock.Time) (ready []sys.EpollEvent, perSocket int) {
	l.soon = false
	most := min(room, len(l.batch))
	n, errno := l.ready.Poll(l.batch[:most])
	if errno != 0 {
		return nil, 0 // EINTR: the next look finds it
	}
	l.noteLook(n, now)
	l.soon = n == most // more may be ready
	perSocket = burst
	if n > 0 && (idle > 0 || l.LinksWait()) { // no frame of the links needs the room
		perSocket = max(perSocket, room/n)
	}
	return l.batch[:n], perSocket
}

// EndLook ends what Look began; more: datagrams of ready sockets were left, so the next turn looks again.
func (l *List) EndLook(more bool) {
	l.soon = l.soon || more
	if l.linksWaitTurns--; !l.soon {
		l.linksWaitTurns = 0
	}
}

// StartWatching is SetWatched for a descriptor that is watched from the start until Remove.
func (l *List) StartWatching(w *Watch, fd int, slot, gen uint32) error {
	const on = true
	return l.SetWatched(w, fd, slot, gen, on)
}

// SetWatched starts or stops watching a socket's shadow. A socket that stops reading mostly goes on soon, so its entry stays until it is
// reported, see StopWatching, or the ring sleeps, see SyncPending: stopping then needs no system call, nor does going on.
func (l *List) SetWatched(w *Watch, fd int, slot, gen uint32, on bool) error {
	w.On = on
	switch {
	case !l.isOpen:
		return nil
	case w.listed && !on && w.events != 0:
		var err error
		if len(l.pending) >= pendingMax { // of sockets that are gone, most of them
			err = l.SyncPending()
		}
		if !w.pending {
			w.pending = true
			l.pending = append(l.pending, w.ref)
		}
		return err
	}
	w.fd, w.ref = fd, socketRef{slot, gen}
	return l.update(w)
}

// StopWatching is called when a socket that does not read was reported as ready: the list stops asking for it.
func (l *List) StopWatching(w *Watch) {
	if !w.On && w.events != 0 {
		_ = l.update(w) // of a descriptor that is there
	}
}

// SyncPending makes the changes of the list that SetWatched has put off; called before a sleep, so that a socket which does not read cannot wake
// the ring.
func (l *List) SyncPending() (err error) {
	for _, x := range l.pending {
		if w := l.find(x.slot, x.gen); w != nil && w.pending {
			w.pending = false
			err = errors.Join(err, l.update(w))
		}
	}
	l.pending = l.pending[:0]
	return err
}

// update makes the epoll entry of a socket what Watch.On says.
func (l *List) update(w *Watch) error {
	var want uint32
	if w.On {
		want = unix.EPOLLIN
	}
	if w.listed && want == w.events {
		return nil
	}
	op := unix.EPOLL_CTL_MOD
	if !w.listed {
		op = unix.EPOLL_CTL_ADD
	}
	events := want
	if want == 0 {
		events = unix.EPOLLET // errors cannot be masked: they are reported once
	}
	if errno := l.ready.Control(op, w.fd, events, w.ref.slot, w.ref.gen); errno != 0 {
		return fmt.Errorf("offload: watch descriptor %d: %w", w.fd, errno)
	}
	if !w.listed {
		w.listed = true
		l.watched++
	}
	w.events = want
	l.soon = l.soon || w.On // what is there already is older than any frame to come
	return nil
}

// Remove takes a socket out of the list.
func (l *List) Remove(w *Watch) {
	if w.On = false; !w.listed {
		return
	}
	// An error means that the entry is gone already.
	_ = l.ready.Control(unix.EPOLL_CTL_DEL, w.fd, 0, 0, 0)
	w.listed = false
	l.watched--
}
