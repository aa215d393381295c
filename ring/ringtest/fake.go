package ringtest

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// Fake is a driver as simple as one can be: each Reap asks every socket what it has. It is slow and right, which is what a
// model is for. Besides, a test can script facts: what is put into Script runs in the next Reap, before anything else.
type Fake struct {
	Script []func(k *ring.Sink)
	// Fail, if not nil, may refuse a call of the core: "receive", "stop", "notify" or "transmit".
	Fail func(call string, s *ring.Socket) error

	results []fakeResult
	receive *direct.Receiver
	sockets []*fakeSocket // by slot
	set     *sys.PollSet

	wake    sync.Mutex // guards the eventfd against its closing
	eventfd sys.EventFD
	closed  bool
}

// fakeResult is the outcome of a send, to be reported by the next Reap.
type fakeResult struct {
	socket *ring.Socket
	sent   ring.Transmission
	errno  syscall.Errno
}

type fakeSocket struct {
	socket   *ring.Socket
	reading  bool
	writable bool // a Writable fact was asked for
	failed   bool
	current  ring.Transmission
	sending  bool
}

// NewFake is the Driver of a Backend.
func NewFake(c ring.DriverConfig) (ring.Driver, error) {
	eventfd, err := sys.NewEventFD()
	if err != nil {
		return nil, err
	}
	set, err := sys.NewPollSet()
	if err != nil {
		return nil, errors.Join(err, eventfd.Close())
	}
	if err := set.Add(eventfd.FD()); err != nil {
		return nil, errors.Join(err, set.Close(), eventfd.Close())
	}
	return &Fake{receive: direct.New(c.Pool), eventfd: eventfd, set: set}, nil
}

// Kind is "fake".
func (f *Fake) Kind() string { return "fake" }

// Caps is none.
func (f *Fake) Caps() ring.Caps { return 0 }

// Why is always the same.
func (f *Fake) Why(c ring.Caps) ring.Reason {
	return ring.Reason{Code: "fake." + c.String(), Text: "a fake ring has no " + c.String()}
}

// FD is readable after Wake. A fake ring does not notice packets while it sleeps, so Arm always returns pending.
func (f *Fake) FD() int { return f.set.FD() }

// Bind needs nothing.
func (f *Fake) Bind() error { return nil }

// Reap runs the script, then asks every socket.
func (f *Fake) Reap(k *ring.Sink) error {
	for len(f.Script) > 0 && k.Room() > 0 {
		fact := f.Script[0]
		f.Script = f.Script[1:]
		fact(k)
	}
	for i := 0; i < len(f.results); i++ { // telling of one may add another
		r := f.results[i]
		k.Sent(r.socket, r.sent, r.errno)
	}
	f.results = f.results[:0]
	for slot := 0; slot < len(f.sockets); slot++ {
		if s := f.sockets[slot]; s != nil && k.Room() > 0 {
			f.checkSocket(k, slot, s)
		}
	}
	return nil
}

// isAttached reports whether s is still the socket of the slot: a call of the sink may have closed it.
func (f *Fake) isAttached(slot int, s *fakeSocket) bool { return f.sockets[slot] == s }

// checkSocket polls one socket and reports to the sink what it has: room to send, data, connections, an error.
func (f *Fake) checkSocket(k *ring.Sink, slot int, s *fakeSocket) {
	h := ring.HandleOf(s.socket)
	poll := []unix.PollFd{{Fd: int32(h.Conn), Events: unix.POLLIN | unix.POLLOUT}}
	if n, err := unix.Poll(poll, 0); err != nil || n == 0 {
		return
	}
	is := poll[0].Revents
	if s.writable && is&(unix.POLLOUT|unix.POLLERR|unix.POLLHUP) != 0 {
		s.writable = false
		kernel.Writable(k, s.socket)
	}
	if f.isAttached(slot, s) {
		f.send(slot, s)
	}
	for i := 0; i < 4 && f.isAttached(slot, s) && s.reading && k.Room() > 0; i++ {
		switch h.Kind {
		case ring.KindListener:
			f.accept(k, s)
		case ring.KindDatagram:
			if f.receive.Datagram(k, s.socket) != direct.Received {
				return
			}
		case ring.KindStream:
			switch o := f.receive.Stream(k, s.socket); o {
			case direct.Ended:
				return
			case direct.Received, direct.Last:
			default:
				return
			}
		}
	}
	if f.isAttached(slot, s) && !s.reading && !s.failed && h.Kind == ring.KindStream && is&unix.POLLERR != 0 {
		if e := sys.SocketError(int(h.Conn)); e != 0 {
			s.failed = true
			k.Failed(s.socket, e)
		}
	}
}

// accept accepts one connection and reports it, or why it cannot.
func (f *Fake) accept(k *ring.Sink, s *fakeSocket) {
	fd, peer, e := sys.Accept(kernel.FD(s.socket))
	switch e {
	case 0:
		kernel.Accepted(k, s.socket, fd, peer)
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		k.AcceptFailed(s.socket)
	}
}

// send sends what the socket has queued until the kernel takes no more, and reports each end.
func (f *Fake) send(slot int, s *fakeSocket) {
	for f.isAttached(slot, s) {
		if !s.sending {
			if s.current, s.sending = ring.TakeTransmission(s.socket); !s.sending {
				return
			}
		}
		t := &s.current
		var n int
		var e syscall.Errno
		if t.To.IsValid() {
			var a sys.Sockaddr
			if a.Set(t.To, sys.Family(t.To.Addr())) != nil {
				e = unix.EAFNOSUPPORT
			} else {
				n, e = sys.SendTo(kernel.FD(s.socket), t.Packet.Bytes(), &a)
			}
		} else {
			n, e = sys.Send(kernel.FD(s.socket), t.Packet.Bytes(), 0)
		}
		if e == unix.EAGAIN {
			return
		}
		if e == 0 && n < t.Packet.Len() {
			if t.Packet.Pull(n) != nil {
				e = unix.EIO
			} else {
				continue
			}
		}
		s.sending = false
		f.sent(s.socket, *t, e)
	}
}

// Flush has nothing to start.
func (f *Fake) Flush() error { return nil }

// ReturnSpare returns the receiver's buffers.
func (f *Fake) ReturnSpare() { f.receive.ReturnSpare() }

// Arm always reports that something may be pending.
func (f *Fake) Arm(clock.Time, clock.Time) (bool, error) { return true, nil }

// Disarm makes FD unreadable again.
func (f *Fake) Disarm() { f.eventfd.Drain() }

// Wait sleeps for a short time at most, after which the fake ring asks its sockets again.
func (f *Fake) Wait(limit time.Duration) error {
	const nap = 100 * time.Microsecond
	if limit < 0 || limit > nap {
		limit = nap
	}
	time.Sleep(limit)
	f.eventfd.Drain()
	return nil
}

// Wake wakes the owner. Any goroutine, at any time.
func (f *Fake) Wake() {
	f.wake.Lock()
	defer f.wake.Unlock()
	if !f.closed {
		f.eventfd.Signal()
	}
}

// Attach makes a place for the socket.
func (f *Fake) Attach(s *ring.Socket) error {
	slot := int(ring.HandleOf(s).Slot)
	for len(f.sockets) <= slot {
		f.sockets = append(f.sockets, nil)
	}
	f.sockets[slot] = &fakeSocket{socket: s}
	return nil
}

// injectedError returns the error that a test's Fail injects into a call, or nil.
func (f *Fake) injectedError(call string, s *ring.Socket) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail(call, s)
}

func (f *Fake) of(s *ring.Socket) *fakeSocket { return f.sockets[ring.HandleOf(s).Slot] }

// SetReceiving starts or stops asking.
func (f *Fake) SetReceiving(s *ring.Socket, on bool) error {
	call := "stop"
	if on {
		call = "receive"
	}
	if err := f.injectedError(call, s); err != nil {
		return err
	}
	f.of(s).reading = on
	return nil
}

// NotifyWritable makes the next Reaps ask whether the socket has room to send.
func (f *Fake) NotifyWritable(s *ring.Socket) error {
	if err := f.injectedError("notify", s); err != nil {
		return err
	}
	f.of(s).writable = true
	return nil
}

// Transmit sends what is queued, as far as the kernel takes it; each Reap goes on with the rest.
func (f *Fake) Transmit(s *ring.Socket) error {
	if err := f.injectedError("transmit", s); err != nil {
		return err
	}
	f.send(int(ring.HandleOf(s).Slot), f.of(s))
	return nil
}

func (f *Fake) sent(s *ring.Socket, t ring.Transmission, e syscall.Errno) {
	f.results = append(f.results, fakeResult{s, t, e})
}

// Detach forgets the socket at once. A packet that it was sending is returned in the next Reap.
func (f *Fake) Detach(s *ring.Socket) bool {
	fs := f.of(s)
	f.sockets[ring.HandleOf(s).Slot] = nil
	if fs.sending {
		f.sent(s, fs.current, unix.ECANCELED)
	}
	return true
}

// Close gives the descriptors back.
func (f *Fake) Close() error {
	f.receive.Close()
	f.wake.Lock()
	defer f.wake.Unlock()
	f.closed = true
	return errors.Join(f.set.Close(), f.eventfd.Close())
}
