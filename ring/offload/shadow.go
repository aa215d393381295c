package offload

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// shadowReader reads the kernel's side of the sockets: an epoll list of them, level-triggered, so that what one turn leaves is reported by the
// next.
type shadowReader struct {
	list    sys.Epoll
	in      *direct.Receiver
	batch   []sys.EpollEvent
	address sys.Sockaddr // for sends
	open    bool         // there are kernel sockets: false in a namespace
	watched int
	now     bool   // look in the next turn, whatever the ratio says
	reading udp.ID // of the socket that is being read, see unheard
	ratio   int    // turns with frames until the next look
	empty   int    // looks in a row that found nothing
	looked  clock.Time
	first   int       // turns in which the links wait until a look finds nothing more: a flow was just claimed
	lazy    []slotGen // sockets that do not read and whose entries may still ask
}

// slotGen names a socket.
type slotGen struct{ slot, gen uint32 }

const (
	// claimTurns bounds how long the links wait after a claim for what the kernel has of the flow: 64 datagrams a turn, where the
	// application has room for them, as many short ones as shadowBuffer holds. What it gets for the socket afterwards (fragments) must not hold
	// the links up.
	claimTurns = 171
	// shadowBurst is how many datagrams of one socket a turn reads while frames come. When none do, or the links wait, the ready sockets
	// share all the room there is: their shadows may be the only way.
	shadowBurst = 16
	// idleEvery is on which turn without a frame the kernel's side may be looked at: an epoll_wait costs some 250 ns, which would be the most
	// of a spinning turn. On the same turns the clock is read. When turns take long it is looked at as soon as the clock is read.
	idleEvery = clockMask + 1
	// Between two frames of a quick exchange even that is a look for each of them, and delays it. So while frames come (some came in the last
	// restTurns), and emptyLooks looks in a row found nothing, it is lookEvery that must have passed.
	restTurns  = 16384
	emptyLooks = 64
	lookEvery  = clock.Time(50 * time.Microsecond)
	lazyMost   = 4096
)

func (d *driver) openShadow() (err error) {
	h := &d.shadow
	if h.list, err = sys.NewEpoll(); err != nil {
		return err
	}
	h.in, h.batch, h.open = direct.New(d.pool), make([]sys.EpollEvent, 64), true
	h.in.OS = true
	d.refuse = d.unheard // made once: a method value is an allocation
	return nil
}

func (h *shadowReader) close() {
	if h.open {
		h.in.Close()
		_ = h.list.Close() // an epoll descriptor has nothing to lose
		h.open = false
	}
}

// due tells whether it is time to look: on every ShadowEvery-th turn of those that frames came in, and in the turns between as the
// constants above say.
func (h *shadowReader) due(d *driver) bool {
	if h.watched == 0 {
		return false
	}
	if h.now || h.waits() {
		return true
	}
	if d.idle == 0 {
		h.ratio--
		return h.ratio < 0
	}
	if !d.long && (d.idle < idleEvery || d.turn%idleEvery != 0) {
		return false
	}
	return h.empty < emptyLooks || d.idle >= restTurns || d.now-h.looked >= lookEvery
}

// seen notes a look that found n sockets ready.
func (h *shadowReader) seen(d *driver, n int) {
	h.ratio, h.looked = d.config.ShadowEvery-1, d.now
	if h.empty++; n > 0 {
		h.empty = 0
	}
}

// waits tells whether the links are to wait for what the kernel has of flows that were just claimed. Without a kernel socket it has nothing,
// and nobody would look: they do not wait.
func (h *shadowReader) waits() bool { return h.first > 0 && h.watched > 0 }

// watch makes the list what the entry wants. A socket that stops reading mostly goes on soon, so its entry is left asking until that shows, see
// readShadow, or the ring sleeps, see settleShadows: stopping costs nothing then, nor does going on.
func (d *driver) watch(e *entry) error {
	h := &d.shadow
	switch {
	case !h.open:
		return nil
	case e.shadow && !e.on && e.watched != 0:
		var err error
		if len(h.lazy) >= lazyMost { // of sockets that are gone, most of them
			err = d.settleShadows()
		}
		if !e.lazy {
			e.lazy = true
			h.lazy = append(h.lazy, slotGen{e.slot, e.gen})
		}
		return err
	}
	return d.rewatch(e)
}

// settleShadows sets right what was left, before a sleep.
func (d *driver) settleShadows() (err error) {
	h := &d.shadow
	for _, x := range h.lazy {
		if e := d.table.find(x.slot, x.gen); e != nil && e.lazy {
			e.lazy = false
			err = errors.Join(err, d.rewatch(e))
		}
	}
	h.lazy = h.lazy[:0]
	return err
}

// rewatch is watch at once.
func (d *driver) rewatch(e *entry) error {
	h := &d.shadow
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
	if errno := h.list.Control(op, kernel.FD(e.s), events, e.slot, e.gen); errno != 0 {
		return fmt.Errorf("offload: watch descriptor %d: %w", kernel.FD(e.s), errno)
	}
	if !e.shadow {
		e.shadow = true
		h.watched++
	}
	e.watched = want
	h.now = h.now || e.on // what is there already is older than any frame to come
	return nil
}

func (d *driver) unwatchShadow(e *entry) {
	if !e.shadow {
		return
	}
	// An error means that the entry is gone already.
	_ = d.shadow.list.Control(unix.EPOLL_CTL_DEL, kernel.FD(e.s), 0, 0, 0)
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
	h.seen(d, n)
	burst := shadowBurst
	if n > 0 && (d.idle > 0 || h.waits()) {
		burst = max(burst, k.Room()/n)
	}
	for i := range h.batch[:n] {
		ev := &h.batch[i]
		if e := d.table.find(ev.Key()); e != nil {
			h.now = d.readShadow(k, e, ev.Events, burst) || h.now
		}
	}
	h.now = h.now || n == room
	if h.first--; !h.now {
		h.first = 0
	}
}

// readShadow reads one socket and tells whether there may be more.
func (d *driver) readShadow(k *ring.Sink, e *entry, events uint32, burst int) (more bool) {
	s := e.s
	if !e.on && e.watched != 0 { // it shows: the list would tell of it at each look
		_ = d.rewatch(e) // of a descriptor that is there
	}
	if e.groups.NeedsFilter() {
		d.shadow.reading, d.shadow.in.Refuse = e.id, d.refuse
		defer func() { d.shadow.in.Refuse = nil }()
	}
	if events&unix.EPOLLERR != 0 {
		if errno := sys.SocketError(kernel.FD(s)); errno != 0 {
			k.Failed(s, errno)
			if e.s != s {
				return false
			}
		}
	}
	for range burst {
		if !e.on || e.s != s || e.own && d.udp.Backlogged(e.id) > 0 { // what was kept is older
			return false
		}
		if k.Room() == 0 {
			return true
		}
		switch d.shadow.in.Datagram(k, s) {
		case direct.Took:
			d.stats.ShadowPackets++
		case direct.Refused:
		default:
			return false
		}
	}
	return true
}

// shadowBuffer is what the kernel's side of a socket may hold (SO_RCVBUF: the kernel doubles it), unless the application has set a size.
// The default, 212,992 bytes, is some 280 short datagrams: 3 ms at 100,000 a second.
const shadowBuffer = 4 << 20

// widen gives the shadow room for what comes while its owner does not poll: beyond net.core.rmem_max where the
// process may (CAP_NET_ADMIN), else up to it, and then the path says so.
func (d *driver) widen(e *entry) error {
	if d.config.Namespace != nil || e.s.Settings().ReceiveBuffer != 0 {
		return nil
	}
	fd := kernel.FD(e.s)
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, shadowBuffer) == nil {
		return nil
	}
	err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, shadowBuffer)
	has := 0
	if err == nil {
		has, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	}
	if err != nil {
		return fmt.Errorf("offload: receive buffer of descriptor %d: %w", fd, err)
	}
	if has < 2*shadowBuffer {
		e.reasons = append(e.reasons, ring.Reason{Code: "offload.small_shadow", Text: fmt.Sprintf("the kernel's side of the socket holds %d "+
			"bytes (net.core.rmem_max; %d with CAP_NET_ADMIN): more is lost there while the ring is not polled", has, 2*shadowBuffer)})
	}
	return nil
}

// unheard tells whether a datagram at the shadow of the socket that is being read is of a group that the socket has not joined: of those that its
// membership sockets hold for other sources, or for other sockets.
func (d *driver) unheard(m *ring.Meta) bool {
	if !m.Destination.IsMulticast() {
		return false
	}
	target, _ := wire.AddrFrom(m.Destination)
	source, _ := wire.AddrFrom(m.Source.Addr())
	if d.udp.ReceivesGroup(d.shadow.reading, target, source, m.IfIndex) {
		return false
	}
	d.stats.ShadowUnheard++
	return true
}
