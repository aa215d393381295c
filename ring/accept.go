package ring

import (
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// withheld is a connection that was accepted while its listener was suspended: Resume makes its socket.
type withheld struct {
	conn Conn
	peer netip.AddrPort
}

// onAccepted is the driver's fact that listener l has a new connection. It makes the connection's socket, puts it on the ring, and raises
// NEW_CONNECTION, in this order: a socket that the application sees can be used. A suspended listener keeps the connection for Resume.
func (r *Ring) onAccepted(l *Socket, conn Conn, peer netip.AddrPort) {
	if l.state != stateListening {
		l.transport().Refuse(conn) // the listener was closed in this turn
		return
	}
	la := l.active()
	la.backoff = 0
	if l.stops&stopUser != 0 {
		// Accepted while Suspend was on its way: it waits for Resume.
		la.withheld = append(la.withheld, withheld{conn, peer})
		return
	}
	if l.config().AcceptTo != nil {
		var gone bool
		if conn, gone = r.offerToAcceptTo(l, conn, peer); gone {
			return
		}
	}
	s := r.newChild(l, conn, peer)
	if err := r.admit(s); err != nil {
		r.stats.AcceptFailures++
		r.fail(&OpError{Op: "accept", Addr: peer, Err: err})
		l.transport().Refuse(conn)
		s.state = stateGone
		s.forget()
		return
	}
	s.updateSlowPath()
	r.stats.Accepted++
	s.raise(EventNewConnection, nil)
	if err := r.drv.SetReceiving(s, true); err != nil {
		s.onFailed(asErrno(err))
	}
}

// newChild makes the socket of a connection, with the listener's configuration, mode, callback, linger time and pacing. It is not on a ring yet.
func (r *Ring) newChild(l *Socket, conn Conn, peer netip.AddrPort) *Socket {
	set := l.makerSet()
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

// offerToAcceptTo asks the listener's AcceptTo whether it takes the connection away from this ring. gone: the connection was taken, or refused
// because AcceptTo closed the listener or panicked; no socket is made of it then. A panic resets this one connection, and the next Poll's error
// reports it. own is the connection's number if it is not gone: an Offerer may give it another one.
func (r *Ring) offerToAcceptTo(l *Socket, conn Conn, peer netip.AddrPort) (own Conn, gone bool) {
	offerer, hasNumbers := l.transport().(Offerer)
	if hasNumbers {
		number, err := offerer.Offer(conn)
		if err != nil {
			r.stats.AcceptFailures++
			r.fail(&OpError{Op: "accept", Addr: peer, Err: err})
			l.transport().Refuse(conn)
			return 0, true
		}
		conn = number
	}
	was, returned := r.inCallback, false
	defer func() {
		r.inCallback = was
		if returned {
			return
		}
		p := recover()
		r.didNotReturn(l, p)
		l.transport().Refuse(conn)
		gone = true
		if p == nil {
			r.sink.abandonPoll()
		}
	}()
	r.inCallback = true
	taken := l.config().AcceptTo(int(conn), peer)
	returned = true
	if !taken && hasNumbers {
		var isBack bool
		conn, isBack = offerer.TakeBack(conn)
		taken = !isBack // AcceptTo has adopted it and said that it did not
	}
	if taken {
		r.stats.AcceptedAway++
		return 0, true
	}
	if l.state != stateListening {
		l.transport().Refuse(conn) // AcceptTo closed the listener and did not want the connection either
		return 0, true
	}
	return conn, false
}

// backoffFirst and backoffMax bound how long a listener waits after the descriptor limit was hit.
const (
	backoffFirst = 5 * time.Millisecond
	backoffMax   = 500 * time.Millisecond
)

// onAcceptFailed is the driver's fact that accept failed, as a rule for want of descriptors or memory. The listener pauses, each time twice as
// long.
func (r *Ring) onAcceptFailed(l *Socket) {
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

// wakeListeners ends the pauses of listeners that ran out of descriptors: a descriptor was just closed.
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
