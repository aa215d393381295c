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

// read takes what epoll has announced.
func (d *driver) read(k *ring.Sink, r *record, ev uint32) {
	if r.kind == ring.KindListener {
		d.accept(k, r)
	} else if s := r.s; d.take(k, r, ev) && r.s == s {
		d.warm(r)
	}
}

// take receives, within the socket's share of the turn, and reports whether there was anything.
func (d *driver) take(k *ring.Sink, r *record, ev uint32) bool {
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
		switch d.in.Datagram(k, s) {
		case direct.Took:
			took++
		case direct.Empty:
			r.burst = 1
			return took
		case direct.Starved:
			if r.s == s {
				d.starve(r)
			}
			return took
		}
		if r.s != s || !r.on {
			return took
		}
	}
	r.burst = min(2*r.burst, maxBurst)
	return took
}

// stream receives a few pieces. It goes on only after a buffer that was filled, or when epoll said that the end is near.
func (d *driver) stream(k *ring.Sink, r *record, ev uint32) (took bool) {
	s := r.s
	for range streamTurns {
		if k.Room() == 0 {
			return took
		}
		if !r.on && d.pool.Over(ring.HandleOf(s).Account) {
			// Broken while it was over its budget: the rest waits, as it would have without the failure.
			r.broken, r.held = false, true
			d.leave(r)
			return took
		}
		o, e := d.in.Read(k, s)
		if r.s != s {
			return took
		}
		switch o {
		case direct.Took:
			took = true
		case direct.Last:
			took = true
			if ev&(trouble|unix.EPOLLRDHUP) == 0 {
				return took
			}
		case direct.Empty:
			if r.fatal != 0 {
				d.fail(k, r, r.fatal)
			}
			return took
		case direct.Starved:
			d.starve(r)
			return took
		case direct.Ended:
			d.end(k, r, e)
			return took
		}
		if !r.on && !r.broken {
			return took
		}
	}
	return took
}

// end is the end of a stream: the peer's FIN (e is 0) or an error. The entry in the epoll list stays as it was until epoll reports
// it again; most applications have closed the socket by then.
func (d *driver) end(k *ring.Sink, r *record, e syscall.Errno) {
	if e == 0 {
		e = r.fatal
	}
	if e != 0 {
		d.fail(k, r, e)
		return
	}
	r.ended, r.on, r.broken = true, false, false
	d.leave(r)
	k.EndOfStream(r.s)
}

// fail reports the failure of a stream, and gives back what was to be sent on it.
func (d *driver) fail(k *ring.Sink, r *record, e syscall.Errno) {
	s := r.s
	r.failed, r.on, r.broken = true, false, false
	d.leave(r)
	k.Failed(s, e)
	if r.s == s {
		d.abandon(r, e)
	}
}

// accept takes connections off the listener's queue.
func (d *driver) accept(k *ring.Sink, r *record) {
	l := r.s
	for range acceptTurns {
		if r.s != l || !r.on {
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
			r.on = false
			d.leave(r)
			k.AcceptFailed(l, e)
			return
		}
	}
}

func socketError(r *record) syscall.Errno { return sys.SocketError(int(r.fd)) }
