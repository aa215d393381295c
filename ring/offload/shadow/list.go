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
	lazy    []socketRef

	every  int  // of the turns with frames, on which the list is looked at
	soon   bool // look in the next turn, whatever the schedule says
	turns  int  // with frames until the next look
	empty  int  // looks in a row that found nothing
	looked clock.Time
	first  int // turns in which the links wait until a look finds nothing more: a flow was just claimed
}

// Watch is one socket's place in the list.
type Watch struct {
	On     bool // reading is wanted
	fd     int
	ref    socketRef
	listed bool
	events uint32 // asked for there
	lazy   bool   // in List.lazy
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
	lazyMost   = 4096
)

// Open makes the list of descriptors of a kernel. every is on which of the turns with frames it is looked at; find finds a socket's place,
// nil when it is gone.
func (l *List) Open(k Kernel, pool *buffers.DriverPool, every int, find func(slot, gen uint32) *Watch) (err error) {
	if l.ready, err = k.NewReadyList(); err != nil {
		return err
	}
	l.receive, l.batch, l.find, l.every, l.isOpen = k.NewReceiver(pool), make([]sys.EpollEvent, 64), find, every, true
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

// Receiver reads the shadows.
func (l *List) Receiver() Receiver { return l.receive }

// ReturnSpare returns the buffers that reading keeps ready.
func (l *List) ReturnSpare() {
	if l.isOpen {
		l.receive.ReturnSpare()
	}
}

// LookSoon has the next turn look, whatever the schedule says.
func (l *List) LookSoon() { l.soon = true }

// Claimed: a flow was just claimed. What the kernel has of it is older than any frame to come, so the links wait for it.
func (l *List) Claimed() { l.first = claimTurns }

// LinksWait reports whether the links are to wait for what the kernel has of flows that were just claimed. Without a socket in the list it
// has nothing, and nothing would look: they do not wait.
func (l *List) LinksWait() bool { return l.first > 0 && l.watched > 0 }

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
		l.turns--
		return l.turns < 0
	}
	if !long && (idle < idleEvery || turn%idleEvery != 0) {
		return false
	}
	return l.empty < emptyLooks || idle >= quietTurns || now-l.looked >= lookGap
}

// hasLooked notes a look that found n sockets ready.
func (l *List) hasLooked(n int, now clock.Time) {
	l.turns, l.looked = l.every-1, now
	if l.empty++; n > 0 {
		l.empty = 0
	}
}

// Look lists sockets that are ready, room of them at most, and how many datagrams of each are to be read. After it comes Looked, unless it has
// failed: nil.
func (l *List) Look(room, idle int, now clock.Time) (ready []sys.EpollEvent, each int) {
	l.soon = false
	most := min(room, len(l.batch))
	n, errno := l.ready.Poll(l.batch[:most])
	if errno != 0 {
		return nil, 0 // EINTR: the next look finds it
	}
	l.hasLooked(n, now)
	l.soon = n == most
	if each = burst; n > 0 && (idle > 0 || l.LinksWait()) {
		each = max(each, room/n)
	}
	return l.batch[:n], each
}

// Looked ends a look: more reports whether some of what was ready was left.
func (l *List) Looked(more bool) {
	l.soon = l.soon || more
	if l.first--; !l.soon {
		l.first = 0
	}
}

// Set makes the list what the socket wants. A socket that stops reading mostly goes on soon, so its entry is left asking until that shows, see
// NotWanted, or the ring sleeps, see SyncPending: stopping costs nothing then, nor does going on.
func (l *List) Set(w *Watch, fd int, slot, gen uint32, on bool) error {
	w.On = on
	switch {
	case !l.isOpen:
		return nil
	case w.listed && !on && w.events != 0:
		var err error
		if len(l.lazy) >= lazyMost { // of sockets that are gone, most of them
			err = l.SyncPending()
		}
		if !w.lazy {
			w.lazy = true
			l.lazy = append(l.lazy, w.ref)
		}
		return err
	}
	w.fd, w.ref = fd, socketRef{slot, gen}
	return l.update(w)
}

// NotWanted: a socket that does not read was reported. It is asked for no more.
func (l *List) NotWanted(w *Watch) {
	if !w.On && w.events != 0 {
		_ = l.update(w) // of a descriptor that is there
	}
}

// SyncPending sets right what was left, before a sleep.
func (l *List) SyncPending() (err error) {
	for _, x := range l.lazy {
		if w := l.find(x.slot, x.gen); w != nil && w.lazy {
			w.lazy = false
			err = errors.Join(err, l.update(w))
		}
	}
	l.lazy = l.lazy[:0]
	return err
}

// update is Set at once.
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
