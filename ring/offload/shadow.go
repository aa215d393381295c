package offload

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
)

// shadow reads the kernel's side of the sockets: an epoll list of them, level-triggered, so that what one turn leaves is reported by the
// next.
type shadow struct {
	list    sys.Epoll
	in      *direct.Receiver
	batch   []sys.EpollEvent
	address sys.Sockaddr // for sends
	open    bool         // there are kernel sockets: false in a namespace
	watched int
	now     bool // look in the next turn, whatever the ratio says
	first   int  // turns in which the links wait until a look finds nothing more: a flow was just claimed
}

const (
	// claimTurns bounds how long the links wait after a claim for what the kernel has of the flow: 16 datagrams a turn, as many as its receive
	// buffer holds by default. What it gets for the socket afterwards (fragments) must not hold them up.
	claimTurns  = 32
	shadowBurst = 16 // datagrams of one socket in a turn
	// idleEvery is how often the kernel's side is looked at while no frames come: an epoll_wait costs some 250 ns, which would be the most
	// of a spinning turn.
	idleEvery = 16
)

func (d *driver) openShadow() (err error) {
	h := &d.shadow
	if h.list, err = sys.NewEpoll(); err != nil {
		return err
	}
	h.in, h.batch, h.open = direct.New(d.pool), make([]sys.EpollEvent, 64), true
	h.in.OS = true
	return nil
}

func (h *shadow) close() {
	if h.open {
		h.in.Close()
		_ = h.list.Close() // an epoll descriptor has nothing to lose
		h.open = false
	}
}

// due tells whether it is time to look.
func (h *shadow) due(d *driver) bool {
	if h.watched == 0 {
		return false
	}
	return h.now || h.first > 0 || d.turn%uint64(d.config.ShadowEvery) == 0 || d.idle >= idleEvery && d.turn%idleEvery == 0
}

// watch makes the list what the entry wants.
func (d *driver) watch(e *entry) error {
	h := &d.shadow
	if !h.open {
		return nil
	}
	var want uint32
	if e.on {
		want = unix.EPOLLIN
	}
	if e.shadow && want == e.watched {
		return nil
	}
	op := unix.EPOLL_CTL_MOD
	if !e.shadow {
		op = unix.EPOLL_CTL_ADD
	}
	events := want
	if want == 0 {
		events = unix.EPOLLET // errors cannot be masked: they are reported once
	}
	if errno := h.list.Control(op, e.s.Handle().FD, events, e.slot, e.gen); errno != 0 {
		return fmt.Errorf("offload: watch descriptor %d: %w", e.s.Handle().FD, errno)
	}
	if !e.shadow {
		e.shadow = true
		h.watched++
	}
	e.watched = want
	h.now = true // what is there already is older than any frame to come
	return nil
}

func (d *driver) unwatchShadow(e *entry) {
	if !e.shadow {
		return
	}
	// An error means that the entry is gone already.
	_ = d.shadow.list.Control(unix.EPOLL_CTL_DEL, e.s.Handle().FD, 0, 0, 0)
	e.shadow = false
	d.shadow.watched--
}

// readShadows delivers what the kernel has.
func (d *driver) readShadows(k *ring.Sink) {
	h := &d.shadow
	room := min(k.Room(), len(h.batch))
	if room == 0 {
		return
	}
	h.now = false
	d.stats.ShadowReads++
	n, errno := h.list.Poll(h.batch[:room])
	if errno != 0 {
		return // EINTR: the next look finds it
	}
	for i := range h.batch[:n] {
		ev := &h.batch[i]
		if e := d.table.find(ev.Key()); e != nil {
			h.now = d.readShadow(k, e, ev.Events) || h.now
		}
	}
	h.now = h.now || n == room
	if h.first--; !h.now {
		h.first = 0
	}
}

// readShadow reads one socket and tells whether there may be more.
func (d *driver) readShadow(k *ring.Sink, e *entry, events uint32) (more bool) {
	s := e.s
	if events&unix.EPOLLERR != 0 {
		if errno := sys.SocketError(s.Handle().FD); errno != 0 {
			k.Failed(s, errno)
			if e.s != s {
				return false
			}
		}
	}
	for range shadowBurst {
		if !e.on || e.s != s || e.own && d.stack.Kept(e.id) > 0 { // what was kept is older
			return false
		}
		if k.Room() == 0 {
			return true
		}
		if d.shadow.in.Datagram(k, s) != direct.Took {
			return false
		}
		d.stats.ShadowPackets++
	}
	return true
}
