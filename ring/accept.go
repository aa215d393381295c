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
		l.transport().Refuse(conn, false) // the listener was closed in this turn: the peer sees a reset, as of a closed port
		return
	}
	la := l.active()
	la.backoff = 0
	if l.stops&stopUser != 0 {
		// Accepted while Suspend was on its way: it waits for Resume.
		la.withheld = append(la.withheld, withheld{conn, peer})
		return
	}
	if l.config().AcceptTo != nil && r.offerToAcceptTo(l, conn, peer) {
		return
	}
	s := r.newChild(l, conn, peer)
	if err := r.admit(s); err != nil {
		r.stats.AcceptFailures++
		r.fail(&OpError{Op: "accept", Addr: peer, Err: err})
		l.transport().Refuse(conn, true)
		s.state = stateGone
		s.forget()
		return
	}
	s.updateSlowPath()
	r.stats.Accepted++
	s.raise(EventNewConnection, nil)
	if err := r.drv.Receive(s, true); err != nil {
		s.failed(asErrno(err))
	}
}

// newChild makes the socket of a connection. It has the listener's settings; what it takes over beyond them makes it active.
func (r *Ring) newChild(l *Socket, conn Conn, peer netip.AddrPort) *Socket {
	set := l.home()
	s := set.sockets.add()
	s.maker, s.via, s.family, s.mode, s.state = l.maker, l.via, l.family, l.mode, stateOpen
	s.handle = Handle{Conn: conn, Kind: KindStream, Class: l.config().streamClass(), Copies: l.handle.Copies}
	s.id, s.userData = int32(conn), uint64(conn)
	number := l.settings.Load()
	set.settings[number].users++
	s.settings.Store(number)
	a, la := s.activate(), l.active()
	a.set, a.listener, a.linger, a.callback, a.pacing = r.set, l, la.linger, la.callback, la.pacing
	s.ends.set(netip.AddrPort{}, peer)
	s.setLocal(l.transport().Accept(s, l))
	a.unix = la.unix.child(s)
	return s
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
		l.transport().Refuse(conn, true)
		gone = true
		if p == nil {
			r.sink.dst = nil // this Poll is over: see Sink.call
		}
	}()
	r.inCallback = true
	taken := l.config().AcceptTo(int(conn), peer)
	returned = true
	if taken {
		r.stats.AcceptedAway++
		return true
	}
	if l.state != stateListening {
		l.transport().Refuse(conn, false) // AcceptTo closed the listener and did not want the connection either
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
	a := l.active()
	a.acceptErrs++
	l.stop(stopBackoff)
	a.backoff = min(max(2*a.backoff, backoffFirst), backoffMax)
	l.setTimer(timerAccept, r.clock().Add(a.backoff))
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
