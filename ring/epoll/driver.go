package epoll

import (
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
)

// driver is the ring.Driver of this package.
type driver struct {
	epoll    sys.Epoll
	pool     *buffers.DriverPool
	receiver *direct.Receiver
	table    table

	batch       []sys.EpollEvent // what epoll reported last
	next        int              // first event of the batch not handled; equals count when all are
	count       int
	batchNumber uint64 // of the batch of events that was fetched last
	skip        int    // turns until epoll is asked again, while hot sockets are read directly

	hot         [maxHot]hotSocket
	numHot      int
	directPause int // batches until sockets may become hot again

	deferred []uint32 // slots whose entry in the epoll list asks for more than is wanted
	sent     []result // transmissions to be given back in Reap
	out      outgoing
	failure  error // of an epoll_ctl inside Reap

	timer     sys.TimerFD
	timed     bool // the timer was started and not stopped since
	usesPpoll bool // no epoll_pwait2

	wake    sync.Mutex // Wake may meet Close: the descriptor must not be written to once its number belongs to another file
	eventfd sys.EventFD
	closed  bool
}

// Keys of the list's own entries; sockets have small slots.
const (
	eventfdSlot = 1<<32 - 1
	timerSlot   = 1<<32 - 2
)

// The number of events fetched at once: by default, and the bounds of what DriverConfig.Entries may ask for. With 256, a hundred busy
// connections are read as one batch before the first is answered, and the slowest of them take twice as long (p99 0.94 ms; with 32:
// 0.57 ms, at the same rate).
const (
	defaultBatch = 32
	minBatch     = 16
	maxBatch     = 4096
)

// New makes a driver; it is the Driver of a ring.SetConfig. Errors: a missing pool or negative Entries (EINVAL), and what the
// kernel says when it refuses descriptors (a *ring.FeatureError that keeps errno: EMFILE, ENFILE, ENOMEM, EPERM, ENOSYS).
func New(c ring.DriverConfig) (ring.Driver, error) {
	switch {
	case c.Pool == nil:
		return nil, fmt.Errorf("epoll: new driver: pool is nil: %w", unix.EINVAL)
	case c.Entries < 0:
		return nil, fmt.Errorf("epoll: new driver: entries %d: %w", c.Entries, unix.EINVAL)
	case c.Entries == 0:
		c.Entries = defaultBatch
	}
	d := &driver{pool: c.Pool, receiver: direct.New(c.Pool), batch: make([]sys.EpollEvent, min(max(c.Entries, minBatch), maxBatch))}
	if err := d.open(); err != nil {
		return nil, featureError(err)
	}
	return d, nil
}

// open makes the descriptors; on an error none is left.
func (d *driver) open() (err error) {
	if d.epoll, err = sys.NewEpoll(); err != nil {
		return err
	}
	if d.eventfd, err = sys.NewEventFD(); err != nil {
		_ = d.epoll.Close()
		return err
	}
	if d.timer, err = sys.NewTimerFD(); err != nil {
		_ = d.eventfd.Close()
		_ = d.epoll.Close()
		return err
	}
	for _, own := range []struct {
		fd   int
		slot uint32
	}{{d.eventfd.FD(), eventfdSlot}, {d.timer.FD(), timerSlot}} {
		if e := d.epoll.Control(unix.EPOLL_CTL_ADD, own.fd, unix.EPOLLIN, own.slot, 0); e != 0 {
			_ = d.closeAll()
			return fmt.Errorf("epoll_ctl: %w", e)
		}
	}
	// ENOSYS before Linux 5.11; EPERM from seccomp filters older than the call. Either way there is the older one.
	_, e := d.epoll.Wait(d.batch, 0)
	d.usesPpoll = e == unix.ENOSYS || e == unix.EPERM
	return nil
}

// Kind is "epoll".
func (d *driver) Kind() string { return "epoll" }

// Caps: beyond the common contract the kernel's transmit stamps only.
func (d *driver) Caps() ring.Caps { return ring.CapTxTimestamps }

// Why explains each capability.
func (d *driver) Why(c ring.Caps) ring.Reason {
	switch c {
	case ring.CapZeroCopySend:
		return ring.Reason{Code: "epoll.copies_sends",
			Text: "sendmsg copies into the socket's queue; sending without a copy needs io_uring"}
	case ring.CapThreadBound:
		return ring.Reason{Code: "epoll.any_thread", Text: "an epoll ring belongs to a goroutine, which may change its thread"}
	}
	return direct.Why(c)
}

// FD is the epoll descriptor. Any goroutine.
func (d *driver) FD() int { return d.epoll.FD() }

// Bind: any thread will do.
func (d *driver) Bind() error { return nil }

// Flush: sends go out in Transmit, receives need no starting.
func (d *driver) Flush() error { return nil }

// Attach makes room for the socket; it is added to epoll when there is something to wait for.
func (d *driver) Attach(s *ring.Socket) error {
	d.table.add(s)
	return nil
}

// Detach takes the socket out of the list. Nothing of the kernel refers to its descriptor then.
func (d *driver) Detach(s *ring.Socket) bool {
	r := d.table.of(s)
	if r == nil {
		return true
	}
	if r.interest != 0 {
		// Not left to close(2): a descriptor that was duplicated, or is in a child between fork and exec, would keep the entry
		// alive and ready. An error means that the entry is gone already.
		_ = d.epoll.Control(unix.EPOLL_CTL_DEL, int(r.fd), 0, 0, 0)
	}
	if r.sending {
		d.sent = append(d.sent, result{s, r.current, unix.ECANCELED})
	}
	r.clear()
	return true
}

// Close frees the packets of sends that were not completed, and closes the descriptors. It takes the lock of Wake, which any goroutine calls.
func (d *driver) Close() error {
	d.receiver.Close()
	for _, x := range d.sent { // left only if the ring gave up waiting for its sockets
		d.pool.Complete(x.t.Packet)
		_ = x.t.Packet.Release()
	}
	d.sent = nil
	d.wake.Lock()
	defer d.wake.Unlock()
	if d.closed {
		return fmt.Errorf("epoll: close driver: %w", ring.ErrClosed)
	}
	d.closed = true
	if err := d.closeAll(); err != nil {
		return fmt.Errorf("epoll: close driver: %w", err)
	}
	return nil
}

// closeAll closes the descriptors and returns the first error.
func (d *driver) closeAll() (err error) {
	for _, e := range []error{d.timer.Close(), d.eventfd.Close(), d.epoll.Close()} {
		if err == nil {
			err = e
		}
	}
	return err
}

// wrap says what was being done to which socket; nil for 0.
func wrap(doing string, r *record, e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return fmt.Errorf("epoll: %s descriptor %d: %w", doing, r.fd, e)
}
