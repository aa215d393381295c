package memory

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

var _ ring.ProtocolDriver = (*driver)(nil)

// driver is the ring.Driver of a host, and of the spare host that its connections can move to (Config.Spare).
type driver struct {
	hosts []*Host
	timer *time.Timer // signals the eventfd at the deadline of an Arm
	poll  [1]unix.PollFd

	wakeMu  sync.Mutex // guards the eventfd against its closing
	eventfd sys.EventFD
	closed  bool
}

// Driver makes the driver of the host's ring; it is the Driver of a ring.SetConfig. A host has one at a time (OneRing): EBUSY.
func (h *Host) Driver(c ring.DriverConfig) (ring.Driver, error) {
	switch {
	case c.Pool == nil:
		return nil, fmt.Errorf("memory: new driver: pool is nil: %w", syscall.EINVAL)
	case h.driver != nil:
		return nil, fmt.Errorf("memory: new driver: the host has a ring: %w", syscall.EBUSY)
	}
	eventfd, err := sys.NewEventFD()
	if err != nil {
		return nil, fmt.Errorf("memory: new driver: %w", err)
	}
	d := &driver{hosts: []*Host{h}, eventfd: eventfd}
	if h.config.Spare != nil {
		d.hosts = append(d.hosts, h.config.Spare)
	}
	d.timer = time.AfterFunc(time.Hour, d.Wake)
	d.timer.Stop()
	for _, h := range d.hosts {
		h.driver, h.pool = d, c.Pool
		h.link.SetWake(d.Wake)
	}
	return d, nil
}

// hostOf is the host that the socket is on: the driver's first one, or its spare.
func hostOf(s *ring.Socket) *Host { return ring.TransportOf(s).(*Host) }

// deadline is the earliest one of the hosts'; clock.Never: none.
func (d *driver) deadline() clock.Time {
	at := clock.Never
	for _, h := range d.hosts {
		at = min(at, h.deadline())
	}
	return at
}

// hasWork reports whether a host has something to do or to report at once, so that the ring must not sleep.
func (d *driver) hasWork() bool {
	for _, h := range d.hosts {
		if h.hasWork() {
			return true
		}
	}
	return false
}

func (d *driver) armLinks() {
	for _, h := range d.hosts {
		h.link.Arm()
	}
}

func (d *driver) disarmLinks() {
	for _, h := range d.hosts {
		h.link.Disarm()
	}
}

// Kind is "memory".
func (d *driver) Kind() string { return "memory" }

// Path says that no kernel socket is involved.
func (d *driver) Path(*ring.Socket) ring.Path {
	return ring.Path{Tier: ring.TierBypass, Kind: d.Kind()}
}

// Caps: the window opens at release, acknowledgements are reported, and packets are sent from where they lie.
func (d *driver) Caps() ring.Caps {
	caps := ring.CapWindowAtRelease | ring.CapOutPerAck | ring.CapZeroCopySend
	if len(d.hosts) > 1 {
		caps |= ring.CapPathChanges
	}
	return caps
}

// Why explains each capability that is missing.
func (d *driver) Why(c ring.Caps) ring.Reason {
	text := map[ring.Caps]string{
		ring.CapThreadBound:        "a memory ring belongs to a goroutine, which may change its thread",
		ring.CapSharedMulticast:    "the memory transport carries streams",
		ring.CapBackgroundProgress: "the memory transport makes progress when its ring is polled",
		ring.CapTxTimestamps:       "the memory transport has no datagrams to stamp",
		ring.CapLaunchTime:         "the memory transport has no queue with times",
		ring.CapPathChanges:        "the host has no spare that its connections could move to",
	}[c]
	return ring.Reason{Code: "memory." + c.String(), Text: text}
}

// HasBackground reports whether there is something to do without a socket: connections whose socket is closed, frames to send or received.
func (d *driver) HasBackground() bool {
	for _, h := range d.hosts {
		if h.table.Len() > 0 {
			return true
		}
	}
	return d.deadline() != clock.Never || d.hasWork()
}

// FD is the eventfd. Any goroutine.
func (d *driver) FD() int { return d.eventfd.FD() }

// Bind has nothing to do: the driver is bound to no thread.
func (d *driver) Bind() error { return nil }

// Reap takes what has arrived, does what is due, moves connections after MoveTo, and reports what happened to the sink.
func (d *driver) Reap(k *ring.Sink) error {
	for _, h := range d.hosts {
		h.advance()
	}
	if h := d.hosts[0]; h.leaving {
		h.moveConnections(k)
	}
	for _, h := range d.hosts {
		h.report(k)
	}
	return nil
}

// Flush puts frames on the wire whose time has come, and sends the acknowledgements that no data has carried.
func (d *driver) Flush() error {
	for _, h := range d.hosts {
		h.now = h.clock()
		h.link.Advance(h.now)
		h.complete()
		h.table.Flush(h.now)
	}
	return nil
}

// ReturnSpare has nothing to return: the driver takes no buffers ahead.
func (d *driver) ReturnSpare() {}

// Arm makes the eventfd readable with the next frame and at the earliest deadline, the protocol's included. pending: there is work now.
func (d *driver) Arm(deadline, _ clock.Time) (pending bool, err error) {
	_ = d.Flush()
	now := d.hosts[0].now // the network's clock
	d.armLinks()
	if deadline = min(deadline, d.deadline()); deadline <= now || d.hasWork() {
		d.disarmLinks()
		return true, nil
	}
	if deadline != clock.Never {
		d.timer.Reset(deadline.Sub(now))
	}
	return false, nil
}

// Disarm ends what Arm began.
func (d *driver) Disarm() {
	d.disarmLinks()
	d.timer.Stop()
	d.eventfd.Drain()
}

// Wait sleeps on the eventfd for at most limit, below 0 without a limit, or until the protocol's earliest deadline.
func (d *driver) Wait(limit time.Duration) error {
	_ = d.Flush()
	d.armLinks()
	defer d.disarmLinks()
	next, now := d.deadline(), d.hosts[0].now
	if next <= now || d.hasWork() {
		return nil
	}
	var until *unix.Timespec
	if next != clock.Never {
		if left := next.Sub(now); limit < 0 || left < limit {
			limit = left
		}
	}
	if limit >= 0 {
		t := unix.NsecToTimespec(int64(limit))
		until = &t
	}
	d.poll[0] = unix.PollFd{Fd: int32(d.eventfd.FD()), Events: unix.POLLIN}
	_, err := unix.Ppoll(d.poll[:], until, nil)
	d.eventfd.Drain()
	if err != nil && err != unix.EINTR {
		return err
	}
	return nil
}

// Wake wakes the owner. Any goroutine, at any time.
func (d *driver) Wake() {
	d.wakeMu.Lock()
	defer d.wakeMu.Unlock()
	if !d.closed {
		d.eventfd.Signal()
	}
}

// Attach lets facts of the socket be reported; an outgoing connection begins here.
func (d *driver) Attach(s *ring.Socket) error {
	h := hostOf(s)
	i := index(s)
	r := &h.records[i]
	r.socket = ring.RefOf(s)
	r.flags |= isOpen
	h.markReady(i)
	if r.remote.Port != 0 && r.id == protocol.NoID {
		return h.startConnect(s)
	}
	return nil
}

// SetReceiving starts or stops reporting of data, or of connections.
func (d *driver) SetReceiving(s *ring.Socket, on bool) error {
	h := hostOf(s)
	i := index(s)
	r := &h.records[i]
	if !on {
		r.flags &^= isReading
		return nil
	}
	r.flags |= isReading
	h.markReady(i)
	return nil
}

// NotifyWritable asks for one Writable.
func (d *driver) NotifyWritable(s *ring.Socket) error {
	h := hostOf(s)
	i := index(s)
	h.records[i].flags |= wantsRoom
	h.markReady(i)
	return nil
}

// Transmit queues what the socket has for sending.
func (d *driver) Transmit(s *ring.Socket) error {
	h := hostOf(s)
	h.now = h.clock()
	h.transmit(s)
	return nil
}

// Detach ends the reporting of facts of the socket. Close follows. It always returns true: nothing is left to wait for.
func (d *driver) Detach(s *ring.Socket) bool {
	h := hostOf(s)
	h.records[index(s)].flags &^= isOpen | isReading | wantsRoom
	return true
}

// Close forgets the records that outlived their sockets: their peers are sent a reset, and their buffers are back in the pool.
func (d *driver) Close() error {
	d.timer.Stop()
	for _, h := range d.hosts {
		h.close()
	}
	d.wakeMu.Lock()
	defer d.wakeMu.Unlock()
	if d.closed {
		return fmt.Errorf("memory: close driver: %w", ring.ErrClosed)
	}
	d.closed = true
	if err := d.eventfd.Close(); err != nil {
		return fmt.Errorf("memory: close driver: %w", err)
	}
	return nil
}

// close aborts every connection of the host, gives all buffers back, and takes the host off its driver. Driver.Close calls it.
func (h *Host) close() {
	if h.pool == nil {
		return
	}
	h.now = h.clock()
	h.table.AbortAll(h.now)
	h.link.Advance(clock.Never)
	h.complete()
	for _, x := range h.completions { // left only if the ring gave up waiting for its sockets
		h.pool.Complete(x.sent.Packet)
		_ = x.sent.Packet.Release()
	}
	h.completions, h.ready = nil, h.ready[:0]
	h.link.SetWake(nil)
	h.driver, h.pool = nil, nil
}
