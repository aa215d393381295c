package stack

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Send copies b into a buffer and makes a frame of it; see send.
func (t *Transport) Send(s *ring.Socket, b []byte, to netip.AddrPort) (int, syscall.Errno) {
	return t.send(s, b, nil, len(b), to)
}

// SendVector is Send for a datagram in pieces.
func (t *Transport) SendVector(s *ring.Socket, bufs [][]byte, to netip.AddrPort) (int, syscall.Errno) {
	n := 0
	for _, b := range bufs {
		n += len(b)
	}
	return t.send(s, nil, bufs, n, to)
}

// send is Send and SendVector: b, or the pieces of bufs, n bytes in all. It makes a frame at once if nothing of the socket waits, else queues
// a copy on the socket; what only the transport below can deliver it sends there. EALREADY: as many wait as may, and the driver reports when
// there is room. EAGAIN: there is no buffer.
func (t *Transport) send(s *ring.Socket, b []byte, bufs [][]byte, n int, to netip.AddrPort) (int, syscall.Errno) {
	if !to.IsValid() {
		to = s.RemoteAddr()
	}
	x := &t.sockets[ring.HandleOf(s).Slot]
	if x.routeGen != *t.routeGen || x.to != to {
		if e := t.findRoute(x, to); e != 0 {
			return 0, e
		}
	}
	q := ring.SendQueueOf(s)
	switch {
	case n > x.route.Limit:
		return 0, syscall.EMSGSIZE
	// A datagram of a paced socket is queued first: the driver then finds that only the kernel can deliver it.
	// Where the links have no room for the earlier ones (flushSentBefore is false), this one queues behind them.
	case x.route.Kernel && !q.Paced && t.flushSentBefore(s, x, q.Waiting):
		return t.sendBelow(s, b, bufs, to)
	case q.Waiting+q.UnderWay+t.unsent(x) >= q.Limit:
		return 0, syscall.EALREADY
	}
	if x.route.Head > 0 && q.Waiting == 0 && !q.Paced && t.ip.Queued() < QueueLimit {
		switch t.udp.SendFast(*t.now, x.route.Route, x.route.Serial, x.route.Head, b, bufs, n) {
		case udp.FastQueued:
			if x.flush != t.flushes { // unsent counts since the last flush
				x.flush, x.unsent = t.flushes, 0
			}
			x.unsent++
			return n, 0
		case udp.FastNoBuffer:
			return 0, syscall.EAGAIN
		}
	}
	if t.udp.HasNeverRoom(x.route.Route, x.route.Serial, n) {
		return 0, syscall.EMSGSIZE
	}
	p, room := t.pool.AllocTransmit(0, n) // also on FastStale: the driver finds the route again
	if p.IsZero() {
		return 0, syscall.EAGAIN
	}
	copy(room, b)
	for _, piece := range bufs {
		room = room[copy(room, piece):]
	}
	ring.QueueCopy(s, p, to, x.route.Route)
	return n, 0
}

// findRoute finds the route to a destination and keeps it with the socket, for the sends that follow.
func (t *Transport) findRoute(x *socket, to netip.AddrPort) syscall.Errno {
	x.routeGen = 0
	a, ok := wire.AddrFrom(to.Addr())
	switch {
	case !to.IsValid():
		return syscall.EDESTADDRREQ
	case !x.carried || to.Port() == 0:
		return syscall.EINVAL
	case !ok:
		return syscall.EAFNOSUPPORT
	}
	t.ip.Refresh()
	route, e := t.udp.Prepare(*t.now, x.id, a, to.Port())
	if e != 0 {
		return e
	}
	x.route, x.to, x.routeGen = route, to, *t.routeGen
	return 0
}

// flushSentBefore makes the socket's earlier datagrams leave, so that a send by the transport below does not overtake them. False: the links
// had no room for all of them.
func (t *Transport) flushSentBefore(s *ring.Socket, x *socket, waiting int) bool {
	if waiting == 0 && t.unsent(x) == 0 {
		return true
	}
	t.host.FlushEarlier()
	return ring.SendQueueOf(s).Waiting == 0
}

// sendBelow sends by the transport below: b, or the pieces of bufs.
func (t *Transport) sendBelow(s *ring.Socket, b []byte, bufs [][]byte, to netip.AddrPort) (n int, e syscall.Errno) {
	if bufs != nil {
		n, e = t.Transport.SendVector(s, bufs, to)
	} else {
		n, e = t.Transport.Send(s, b, to)
	}
	if e == 0 {
		t.kernelSends++
	}
	return n, e
}

// unsent is how many datagrams of the socket are frames since the last flush.
func (t *Transport) unsent(x *socket) int {
	if x.unsent > 0 && x.flush == t.flushes {
		return x.unsent
	}
	return 0
}

// Unsent is how many datagrams of the socket leave with the next flush. Until then they count as if they were queued on the socket.
func (t *Transport) Unsent(s *ring.Socket) int {
	if x := t.of(s); x != nil {
		return t.unsent(x)
	}
	return 0
}

// CancelUnsent drops the datagrams that have not left, and reports how many they were.
func (t *Transport) CancelUnsent(s *ring.Socket) int {
	x := t.of(s)
	if x == nil || t.unsent(x) == 0 {
		return 0
	}
	x.unsent = 0
	n := t.udp.Recall(x.id)
	t.host.FramesRecalled()
	return n
}

// Prepare finds the route to a destination, or why there is none: ENETUNREACH, EHOSTUNREACH, EACCES …
func (t *Transport) Prepare(s *ring.Socket, to netip.AddrPort) syscall.Errno {
	x := t.of(s)
	if x == nil {
		return syscall.EINVAL
	}
	return t.findRoute(x, to)
}
