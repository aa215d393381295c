package ring

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// withheld is a connection nobody was notified of yet.
type withheld struct {
	conn Conn
	peer netip.AddrPort
}

// accepted makes the child of a listener and publishes it: it is bound to the ring before its NEW_CONNECTION is raised.
func (r *Ring) accepted(l *Socket, conn Conn, peer netip.AddrPort) {
	if l.state != stateListening {
		l.transport.Refuse(conn, false) // the listener was closed in this turn: the peer sees a reset, as of a closed port
		return
	}
	l.backoff = 0
	if l.stops&stopUser != 0 {
		// Accepted while Suspend was on its way: it waits for Resume.
		l.withheld = append(l.withheld, withheld{conn, peer})
		return
	}
	if l.config.AcceptTo != nil && r.offerToAcceptTo(l, conn, peer) {
		return
	}
	s := &Socket{set: l.set, maker: l.maker, family: l.family, remote: peer, listener: l, linger: l.linger, mode: l.mode, callback: l.callback,
		state: stateOpen, config: l.config, why: l.why, pacing: l.pacing}
	s.handle = Handle{Conn: conn, Kind: KindStream, Class: l.config.streamClass(), Copies: l.handle.Copies}
	s.setTransport(l.transport, conn)
	s.local = l.transport.Accept(s, l)
	s.unix = l.unix.child(s)
	s.id, s.userData = int(conn), uint64(conn)
	if err := r.admit(s); err != nil {
		r.stats.AcceptFailures++
		r.fail(&OpError{Op: "accept", Addr: peer, Err: err})
		l.transport.Refuse(conn, true)
		return
	}
	s.updateSlowPath()
	r.stats.Accepted++
	s.raise(EventNewConnection, nil)
	if err := r.drv.Receive(s, true); err != nil {
		s.failed(asErrno(err))
	}
}

// offerToAcceptTo asks the listener's AcceptTo about a connection and reports whether it is gone. One that panics costs this connection and
// nothing else: the next Poll's error reports it.
func (r *Ring) offerToAcceptTo(l *Socket, conn Conn, peer netip.AddrPort) (gone bool) {
	was, returned := r.inCallback, false
	defer func() {
		r.inCallback = was
		if returned {
			return
		}
		p := recover()
		r.didNotReturn(l, p)
		l.transport.Refuse(conn, true)
		gone = true
		if p == nil {
			r.sink.dst = nil // this Poll is over: see Sink.call
		}
	}()
	r.inCallback = true
	taken := l.config.AcceptTo(int(conn), peer)
	returned = true
	if taken {
		r.stats.AcceptedAway++
		return true
	}
	if l.state != stateListening {
		l.transport.Refuse(conn, false) // AcceptTo closed the listener and did not want the connection either
		return true
	}
	return false
}

// backoffFirst and backoffMax bound how long a listener waits after the descriptor limit was hit.
const (
	backoffFirst = 5 * time.Millisecond
	backoffMax   = 500 * time.Millisecond
)

func (r *Ring) acceptFailed(l *Socket, e syscall.Errno) {
	if l.state != stateListening {
		return
	}
	r.stats.AcceptFailures++
	l.acceptErrs++
	l.stop(stopBackoff)
	l.backoff = min(max(2*l.backoff, backoffFirst), backoffMax)
	l.setTimer(timerAccept, r.clock().Add(l.backoff))
}

// wakeListeners lets listeners that ran out of descriptors try again now that one was closed.
func (r *Ring) wakeListeners() {
	if r.stats.AcceptFailures == 0 {
		return
	}
	for _, l := range r.listeners {
		if l.stops&stopBackoff != 0 {
			l.setTimer(timerAccept, clock.Never)
			l.start(stopBackoff)
		}
	}
}
