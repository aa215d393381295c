package epoll

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// How much one socket may do in one turn.
const (
	maxBurst    = 16 // datagrams
	streamTurns = 4  // pieces of stream, each a full buffer but the last
	acceptTurns = 64 // connections
)

// What is reported to the sink may run callbacks of the application, which may close the socket. Its record is empty then (r.s is nil), or
// another socket's: so the functions below compare r.s with the socket that they have begun with.

// read receives from a socket that epoll has reported as readable, and makes it hot if something was there. ev are the events.
func (d *driver) read(k *ring.Sink, r *record, ev uint32) {
	if r.kind == ring.KindListener {
		d.accept(k, r)
	} else if s := r.s; d.receive(k, r, ev) && r.s == s {
		d.promote(r)
	}
}

// receive receives from a stream or datagram socket, as much as one socket may in a turn, and reports whether there was anything.
func (d *driver) receive(k *ring.Sink, r *record, ev uint32) bool {
	if r.kind == ring.KindStream {
		return d.stream(k, r, ev)
	}
	return d.datagrams(k, r) > 0
}

// datagrams receives up to a burst and returns how many there were. The burst doubles while every try succeeds and falls to one
// when a try finds nothing: a lone datagram is delivered without paying for a second try that comes back empty, a flood
// comes in batches.
func (d *driver) datagrams(k *ring.Sink, r *record) (took int) {
	s := r.s
	for range r.burst {
		if k.Room() == 0 {
			return took
		}
		switch d.receiver.Datagram(k, s) {
		case direct.Received:
			took++
		case direct.Empty:
			r.burst = 1
			return took
		case direct.Starved:
			if r.s == s {
				d.stopStarved(r)
			}
			return took
		}
		if r.s != s || !r.wantsRead {
			return took
		}
	}
	r.burst = min(2*r.burst, maxBurst)
	return took
}

// stream receives a few pieces of a stream, and reports its end. It reads again after a buffer that was filled, and after events that announce
// the end.
func (d *driver) stream(k *ring.Sink, r *record, ev uint32) (took bool) {
	s := r.s
	for range streamTurns {
		if k.Room() == 0 {
			return took
		}
		if !r.wantsRead && d.pool.Over(ring.HandleOf(s).Account) {
			// Broken while it was over its budget: the rest waits, as it would have without the failure.
			r.broken, r.held = false, true
			d.deferSync(r)
			return took
		}
		o, e := d.receiver.Read(k, s)
		if r.s != s {
			return took
		}
		switch o {
		case direct.Received:
			took = true
		case direct.Last:
			took = true
			if ev&(trouble|unix.EPOLLRDHUP) == 0 {
				return took
			}
		case direct.Empty:
			if r.sendError != 0 { // a send has failed, and all that came before that is read
				d.failStream(k, r, r.sendError)
			}
			return took
		case direct.Starved:
			d.stopStarved(r)
			return took
		case direct.Ended:
			d.endStream(k, r, e)
			return took
		}
		if !r.wantsRead && !r.broken {
			return took
		}
	}
	return took
}

// endStream reports the end of a stream: the peer's FIN (e is 0) or an error. The kernel reports an error once: if a send has got it, reading
// finds an end without an error, and the send's error is reported. The entry in the epoll list is corrected when epoll reports it again, or
// before the ring sleeps (deferSync); most applications have closed the socket by then.
func (d *driver) endStream(k *ring.Sink, r *record, e syscall.Errno) {
	if e == 0 {
		e = r.sendError
	}
	if e != 0 {
		d.failStream(k, r, e)
		return
	}
	r.ended, r.wantsRead, r.broken = true, false, false
	d.deferSync(r)
	k.EndOfStream(r.s)
}

// failStream reports the failure of a stream, and fails the transmissions that were queued on it.
func (d *driver) failStream(k *ring.Sink, r *record, e syscall.Errno) {
	s := r.s
	r.failed, r.wantsRead, r.broken = true, false, false
	d.deferSync(r)
	k.Failed(s, e)
	if r.s == s {
		d.failSends(r, e)
	}
}

// accept takes connections off the listener's queue. It does not ask for room: a connection for which there is none waits with the core.
func (d *driver) accept(k *ring.Sink, r *record) {
	l := r.s
	for range acceptTurns {
		if r.s != l || !r.wantsRead {
			return
		}
		fd, peer, e := sys.Accept(int(r.fd))
		switch e {
		case 0:
			kernel.Accepted(k, l, fd, peer)
		case unix.EAGAIN:
			return
		case unix.EINTR, unix.ECONNABORTED, unix.EPERM, unix.EPROTO, unix.ENOPROTOOPT, unix.ENETDOWN, unix.EHOSTDOWN, unix.ENONET,
			unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH, unix.ETIMEDOUT:
			// It concerns the connection that was next in the queue, not the listener (accept(2), "Error handling"; EPERM: a
			// firewall).
		default:
			r.wantsRead = false
			d.deferSync(r)
			k.AcceptFailed(l)
			return
		}
	}
}

func socketError(r *record) syscall.Errno { return sys.SocketError(int(r.fd)) }
