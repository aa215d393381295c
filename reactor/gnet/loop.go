package gnet

import (
	"io"
	"runtime"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// eventloop is one reactor with its poller, and the connections on it. Everything but the atomics and the task queue
// belongs to the loop's goroutine.
type eventloop struct {
	eng     *engine
	idx     int
	loop    *reactor.Loop
	poller  *xtreme.Poller
	pool    *buffers.Pool
	handler EventHandler
	drainer Drainer // the handler, if it is one
	exact   bool

	self     atomic.Uintptr // the loop's goroutine while it runs
	count    atomic.Int32   // open connections
	assigned atomic.Int32   // those and the ones on their way here

	conns     []streamOrDatagram // by the user data of their sockets
	free      []uint32
	listeners []*acceptor // by their user data
	acceptors []*acceptor // those and the UDP sockets
	low       [2]int      // by class: with fewer buffers left, unread data is copied

	adapts bool // connections change between small and large buffers, see adaptBuffers

	depth    int                // calls of the handler under way
	current  *conn              // whose OnTraffic it is: afterHandler follows when that returns
	dirty    []*conn            // read or written to by the handler of another, or closed inside a handler
	later    []streamOrDatagram // to be closed when the handler has returned
	stopping bool               // all connections were closed for good
	exiting  bool               // the handler returned Shutdown

	tasks  tasks
	expire func(*reactor.Loop, uint64) // expired, bound once
	iov    [sys.MaxVector][]byte       // of sendOut
	done   chan struct{}               // closed when the loop's goroutine has ended
}

// streamOrDatagram is a slot of the loop's table: a connection, or a UDP socket; at most one is set.
type streamOrDatagram struct {
	c *conn
	d *udpSocket
}

// User data of sockets: a slot of conns, or a listener.
const listenerBit = 1 << 32

// onLoop reports whether the caller is on the loop's goroutine.
func (el *eventloop) onLoop() bool { return el.self.Load() == sys.Goroutine() }

// Handle is called by the reactor for each completion. If the handler panics in it, the descriptor of the connection, which the reactor is
// about to reset, is invalidated.
func (el *eventloop) Handle(_ *reactor.Loop, c *xtreme.Completion) {
	returned := false
	defer func() {
		if !returned {
			el.invalidateReset(c.Socket)
		}
	}()
	el.handle(c)
	returned = true
}

// handle finds the connection or socket of a completion by its user data. Data of an open connection, the usual case, goes to packet;
// everything else to event.
func (el *eventloop) handle(c *xtreme.Completion) {
	if c.Events == xtreme.EventPacket && c.UserData < uint64(len(el.conns)) {
		slot := &el.conns[c.UserData]
		if slot.c != nil {
			el.packet(slot.c, c)
		} else if slot.d != nil {
			slot.d.packet(c)
		} else {
			drop(c)
		}
		return
	}
	el.event(c)
}

// invalidateReset makes calls of other goroutines on a connection's descriptor fail when the reactor resets the connection after a panic: the
// descriptor's number may be another file's before CLOSED arrives.
func (el *eventloop) invalidateReset(s *xtreme.Socket) {
	if s == nil || s.UserData() >= uint64(len(el.conns)) {
		return
	}
	if c := el.conns[s.UserData()].c; c != nil && c.socket == s {
		c.invalidateFD()
	}
}

// drop releases the packet of a completion that is for no open connection.
func drop(done *xtreme.Completion) {
	release(done.Packet)
	done.Packet = buffers.Packet{}
}

// packet handles data for a connection: it goes to the connection's inbound buffer, and OnTraffic is called.
func (el *eventloop) packet(c *conn, done *xtreme.Completion) {
	p := done.Packet
	done.Packet = buffers.Packet{}
	if c.state != stateOpen {
		_ = p.Release() // closed in this very turn
		return
	}
	if c.timers != nil {
		c.timers.received()
	}
	if c.blocked > 0 || c.suspended || len(c.withheld) > 0 {
		c.withhold(p)
		return
	}
	if el.adapts {
		el.adaptBuffers(c, p.Len())
	}
	c.in.push(p)
	// What follows for the same connection comes with it: one call of the handler, one answer.
	if n := el.loop.Next(); n != nil && n.Socket == done.Socket && n.Events == xtreme.EventPacket &&
		c.in.len()+n.Packet.Len() <= el.eng.opts.ReadBufferCap {
		return
	}
	el.traffic(c)
}

// traffic calls OnTraffic for a connection, executes the action that it returns, and does what follows each call of the handler.
func (el *eventloop) traffic(c *conn) {
	el.depth, el.current = 1, c
	action := el.handler.OnTraffic(c)
	el.depth, el.current = 0, nil
	if action == Close || action == Shutdown {
		_ = el.doAction(c, action)
	}
	if c.state == stateOpen {
		c.afterHandler()
	}
	if len(el.later)+len(el.dirty) > 0 || el.exiting {
		el.after()
	}
}

// event handles a completion that is not just data of an open connection: a new connection, room to send, end, failure, CLOSED; it may have
// data too.
func (el *eventloop) event(done *xtreme.Completion) {
	el.depth, el.current = 0, nil // as a panic may have left them
	if done.UserData&listenerBit != 0 && !done.Events.Has(xtreme.EventNewConnection) {
		return // a listener was closed
	}
	if done.Events.Has(xtreme.EventNewConnection) {
		if !el.accepted(done) {
			return
		}
		done.UserData = done.Socket.UserData() // the same completion may carry the first packet and the connection's end
	}
	if done.UserData >= uint64(len(el.conns)) {
		drop(done)
		return
	}
	slot := el.conns[done.UserData]
	if slot.d != nil {
		slot.d.event(done)
		return
	}
	c := slot.c
	if c == nil {
		drop(done)
		return
	}
	if done.Events.Has(xtreme.EventPacket) {
		el.packet(c, done)
	}
	if done.Events.Has(xtreme.EventOut) && c.state == stateOpen {
		el.writable(c)
	}
	switch {
	case done.Events.Has(xtreme.EventClosed):
		el.onSocketClosed(c, uint32(done.UserData))
	case c.state != stateOpen:
	case done.Events.Any(xtreme.EventErr | xtreme.EventHup):
		_ = el.close(c, callError("read", done.Err))
	case done.Events.Has(xtreme.EventRdHup) && c.closingWhenSent: // what waits is still sent
	case done.Events.Has(xtreme.EventRdHup) && len(c.withheld) > 0:
		c.eof = true
	case done.Events.Has(xtreme.EventRdHup):
		_ = el.close(c, callError("read", io.EOF))
	}
	el.after()
}

// after does what the outermost call of the handler has left to be done: it flushes or trims connections that the handler used, and closes
// those that it closed.
func (el *eventloop) after() {
	for len(el.later)+len(el.dirty) > 0 {
		for i := 0; i < len(el.later); i++ { // OnClose may add some
			el.later[i].closeDeferred()
		}
		clear(el.later)
		el.later = el.later[:0]
		for i := 0; i < len(el.dirty); i++ {
			c := el.dirty[i]
			c.dirty = false
			switch c.state {
			case stateOpen:
				c.afterHandler()
			case stateClosed:
				c.in.done()
			}
		}
		clear(el.dirty)
		el.dirty = el.dirty[:0]
	}
	if el.exiting {
		el.exiting = false
		el.closeAll()
		el.eng.shutdown(nil)
	}
}

// closeDeferred closes a connection whose close was put off until the handler returned. One that is closed already stays as it is: an OnClose
// may have panicked before the list of such connections was emptied.
func (s streamOrDatagram) closeDeferred() {
	if c := s.c; c != nil && c.state == stateCloseDeferred {
		c.state = stateOpen // close does nothing in another state
		_ = c.el.close(c, c.why)
	}
	if us := s.d; us != nil && us.connectedPeer != nil && us.connectedPeer.state == stateCloseDeferred {
		us.connectedPeer.state = stateOpen
		_ = us.close(us.connectedPeer, us.why)
	}
}

// doAction executes the action that a handler returned for a connection: none, Close or Shutdown.
func (el *eventloop) doAction(c *conn, action Action) error {
	switch action {
	case Close:
		return el.close(c, nil)
	case Shutdown:
		el.exiting = true // the loop's connections are closed when the handler has returned: nothing more is shown to it
		if !el.exact && len(el.eng.listeners) > 0 {
			el.eng.shutdown(nil)
		}
		return ErrEngineShutdown
	}
	return nil
}

// admit enters a connection or socket into the loop's table and returns its slot, which becomes the user data of its socket.
func (el *eventloop) admit(s streamOrDatagram) uint32 {
	if n := len(el.free) - 1; n >= 0 {
		slot := el.free[n]
		el.free = el.free[:n]
		el.conns[slot] = s
		return slot
	}
	el.conns = append(el.conns, s)
	return uint32(len(el.conns) - 1)
}

func (el *eventloop) vacate(slot uint32) {
	el.conns[slot] = streamOrDatagram{}
	el.free = append(el.free, slot)
}

// accepted makes a connection of a NEW_CONNECTION completion, and reports whether the connection is open: it is closed at once if the server
// stops or has MaxConnections.
func (el *eventloop) accepted(done *xtreme.Completion) bool {
	if el.stopping || !el.eng.reservePlace() {
		refuse(done)
		return false
	}
	l := el.listeners[done.Listener.UserData()&^listenerBit]
	c := newConn(el, l.network, l.local, l.peerAddr(done.Source))
	c.limited = true
	c.socket, c.fd, c.onStack = done.Socket, done.Socket.ID(), done.Socket.Ring().Kind() == string(conf.RingOffload)
	c.slot = el.admit(streamOrDatagram{c: c})
	done.Socket.SetUserData(uint64(c.slot))
	el.assigned.Add(1)
	el.open(c)
	return true
}

// open calls OnOpen for a new connection, and sends the bytes that it returns.
func (el *eventloop) open(c *conn) {
	c.state = stateOpen
	el.count.Add(1)
	if d := el.eng.opts.IdleTimeout; d > 0 {
		c.startIdle(d)
	}
	el.depth, el.current = 1, c
	out, action := el.handler.OnOpen(c)
	el.depth, el.current = 0, nil
	if out != nil && c.state == stateOpen {
		_, _ = c.Write(out) // a failure closes the connection
	}
	_ = el.doAction(c, action)
	if c.state == stateOpen {
		c.afterHandler()
	}
	el.after()
	// Many handlers start a goroutine in OnOpen. A loop that holds its thread, as io_uring's do, would keep it waiting until
	// it sleeps; once for a connection the 5 µs do not matter.
	runtime.Gosched()
}

// close closes a connection: it calls OnClose and finishes. If a handler is running, that happens when the handler returns, except in exact
// gnet. It returns ErrEngineShutdown if OnClose returns Shutdown, else nil.
func (el *eventloop) close(c *conn, why error) error {
	if c.state != stateOpen {
		return nil
	}
	if el.depth > 0 && !el.exact {
		c.state, c.why = stateCloseDeferred, why
		el.later = append(el.later, streamOrDatagram{c: c})
		return nil
	}
	c.state = stateClosing
	el.count.Add(-1)
	el.assigned.Add(-1)
	return el.doAction(c, el.closed(c, why))
}

// closed calls OnClose and finishes the connection, even if OnClose panics: the reactor resets a connection only after panics in a completion
// of it.
func (el *eventloop) closed(c *conn, why error) Action {
	depth := el.depth
	el.depth = depth + 1
	defer func() {
		el.depth = depth
		c.finish()
	}()
	return el.handler.OnClose(c, why)
}

// onSocketClosed frees the slot of a connection whose socket has delivered CLOSED, its last completion.
func (el *eventloop) onSocketClosed(c *conn, slot uint32) {
	switch c.state {
	case stateOpen: // the reactor reset it after a panic
		_ = el.close(c, ErrHandlerPanic)
	case stateCloseDeferred:
		el.after()
	}
	el.vacate(slot)
}

// closeAll closes every connection when the server ends.
func (el *eventloop) closeAll() {
	if el.stopping {
		return
	}
	el.stopping = true
	for i := range el.conns {
		if c := el.conns[i].c; c != nil {
			_ = el.close(c, nil)
		}
		if d := el.conns[i].d; d != nil && d.connectedPeer != nil {
			_ = d.close(d.connectedPeer, nil)
		}
	}
	el.exiting = false
	el.after()
	el.tasks.refuseConnTasks()
}

// mustCopyUnread reports whether a connection's unread data must be copied to the heap. It may stay in the ring's buffers while the
// connection has few and the pool has enough; so no number of connections with unread data can use up the pool, and none waits for data that
// the ring cannot receive because the connection itself holds the buffers.
func (el *eventloop) mustCopyUnread(c *conn) bool {
	limit := el.eng.opts.InboundCap
	return limit < 0 || c.socket.Held() > limit || c.socket.OverBudget() || el.pool.Available(buffers.Large) < el.low[buffers.Large] ||
		el.pool.Available(buffers.Small) < el.low[buffers.Small]
}

// largeStream reports whether connections of this loop receive into large buffers from the start.
func (el *eventloop) largeStream() bool { return el.eng.opts.ReadBufferCap > smallBuffer && !el.adapts }

// noteUsed notes that a connection was used by other code than its own handler, so that after handles it too.
func (el *eventloop) noteUsed(c *conn) {
	if el.current != c && !c.dirty && c.state == stateOpen {
		c.dirty = true
		el.dirty = append(el.dirty, c)
	}
}
