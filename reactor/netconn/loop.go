package netconn

import (
	"errors"
	"net"
	"sync"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// loop is one reactor loop and what it carries. Everything but call and do belongs to the loop.
type loop struct {
	net     *Network
	self    uintptr // the loop's goroutine
	reactor *reactor.Loop
	poller  *xtreme.Poller
	low     [buffers.NumClasses]int // by class, the reserve for sending included: with fewer available nothing is lent

	copyMost int // the longest packet that is copied rather than lent: what a small buffer holds

	table   []endpoint // by the sockets' user data
	unused  []uint64
	receive ring.ReceiveCallback // l.packet, bound once, for every socket
	vector  [maxVector][]byte    // for gathering what is to be sent

	calls struct {
		mu   sync.Mutex
		list []caller // endpoints for which the loop has something to do
	}
	answering []caller
	answer    func() // l.serveCallers, bound once
	passing   struct {
		mu   sync.Mutex
		list []passed // connections that another loop has accepted for this one; each has a posted adopt
	}
	adopt    func() // l.adoptPassed, bound once
	yielding bool   // yield is posted
	yield    func() // l.letRun, bound once
}

const maxVector = 64 // pieces that SendVector takes at once

// endpoint is what a socket belongs to: one of three.
type endpoint struct {
	conn     *Conn
	packets  *PacketConn
	listener *listening
}

// caller is a Conn or PacketConn with something for its loop to do.
type caller interface {
	serveCalls()
}

// passed is a connection on its way from the loop that has accepted it.
type passed struct {
	listener *Listener
	fd       int
}

// newLoop makes the loop's state. It is called on the loop's goroutine, before the first turn.
func newLoop(n *Network, r *reactor.Loop) *loop {
	l := &loop{net: n, self: sys.Goroutine(), reactor: r, poller: r.Poller()}
	pool := l.poller.Pool()
	for c := range l.low {
		l.low[c] = pool.Reserve(buffers.Class(c)) + pool.ReceiveShare(buffers.Class(c))/7
	}
	l.copyMost = pool.Layout().Stride(buffers.Small)
	l.answer, l.yield, l.adopt = l.serveCallers, l.letRun, l.adoptPassed
	l.receive = l.packet
	return l
}

// call puts e on the list of those the loop looks at next. The first of a list wakes the loop; what the others want comes
// with it. Any goroutine; e must not be on the list.
func (l *loop) call(e caller) {
	q := &l.calls
	q.mu.Lock()
	q.list = append(q.list, e)
	first := len(q.list) == 1
	q.mu.Unlock()
	if first && l.reactor.Post(l.answer) != nil { // after the loop's end, when everything of it is closed or about to be: see abandon
		l.forgetCalls()
	}
}

// forgetCalls empties the list of endpoints to serve, because the loop has ended and will not serve them. Any goroutine.
func (l *loop) forgetCalls() {
	q := &l.calls
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = nil
}

// serveCallers serves all connections and sockets on the list. It is posted to the reactor by call.
func (l *loop) serveCallers() {
	q := &l.calls
	q.mu.Lock()
	q.list, l.answering = l.answering[:0], q.list
	q.mu.Unlock()
	for i, e := range l.answering {
		l.answering[i] = nil
		e.serveCalls()
	}
}

// pass gives the loop a connection that another one has accepted; false, and the caller keeps it, after the loop's end. Any loop.
func (l *loop) pass(ln *Listener, fd int) bool {
	q := &l.passing
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.reactor.Post(l.adopt) != nil {
		return false
	}
	q.list = append(q.list, passed{ln, fd})
	return true
}

// adoptPassed makes the first connection that was passed one of the loop. It is posted to the reactor by pass.
func (l *loop) adoptPassed() {
	q := &l.passing
	q.mu.Lock()
	x := q.list[0]
	q.list = q.list[1:]
	q.mu.Unlock()
	x.listener.adoptOn(l, x.fd)
}

// noteWoken is called with woken true when the loop has woken a goroutine; at the end of the turn the loop lets it run.
//
// The Go runtime queues a goroutine that becomes runnable on the processor of the one that woke it. A loop that spins, or sleeps in a system
// call, keeps that processor. The goroutine would wait until another processor takes it over, which costs the wake-up of a thread, or up to
// 10 ms if every processor runs a loop. Loop only.
func (l *loop) noteWoken(woken bool) {
	if woken && !l.yielding {
		l.yielding = true
		_ = l.reactor.Post(l.yield) // cannot fail while the loop runs
	}
}

func (l *loop) letRun() {
	l.yielding = false
	l.reactor.Yield()
}

// errPanicked is what a call returns whose part on the loop panicked. The loop has logged the panic, and goes on.
var errPanicked = errors.New("netconn: the function panicked")

// do runs f on the loop and returns its error; net.ErrClosed if the loop has ended. On the loop itself, where Control runs its function, f is
// called at once, because waiting would never end.
func (l *loop) do(f func() error) error {
	if sys.Goroutine() == l.self {
		return f()
	}
	done := make(chan error, 1)
	err := l.reactor.Post(func() {
		err := errPanicked
		defer func() { done <- err }()
		err = f()
	})
	if err != nil {
		return net.ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-l.net.ended:
	}
	select {
	case err := <-done: // it ran in the loop's last moments
		return err
	default:
		return net.ErrClosed
	}
}

// waitTurn waits until the loop has taken a whole turn, with a Poll, since the call.
func (l *loop) waitTurn() error {
	done := make(chan struct{})
	over := func() { close(done) }
	err := l.reactor.Post(func() {
		if l.reactor.Post(over) != nil { // what is posted in a turn comes in a later one
			over()
		}
	})
	if err != nil {
		return net.ErrClosed
	}
	select {
	case <-done:
		return nil
	case <-l.net.ended:
		return net.ErrClosed
	}
}

// add enters a socket's endpoint into the table, at the index that becomes the socket's user data.
func (l *loop) add(s *xtreme.Socket, e endpoint) {
	n := len(l.unused)
	if n == 0 {
		l.unused = append(l.unused, uint64(len(l.table)))
		l.table = append(l.table, endpoint{})
		n = 1
	}
	slot := l.unused[n-1]
	l.unused = l.unused[:n-1]
	l.table[slot] = e
	s.SetUserData(slot)
}

// packet is the receive callback of every socket: it receives packets inside Poll, even of a socket that was suspended meanwhile. As
// completions such packets would stay in the ring's buffers until the socket is resumed; some dozens of them on each of some dozens of slow
// connections are all buffers of the poller.
func (l *loop) packet(s *ring.Socket, c *ring.Completion) ring.Verdict {
	kept := false
	switch e := l.find(s); {
	case e.conn != nil:
		kept = e.conn.receive(c.Packet)
	case e.packets != nil:
		kept = e.packets.receive(c.Packet, c.Source)
	default: // its NEW_CONNECTION comes with this Poll
		conn := newConn(l, "")
		conn.open(s)
		kept = conn.receive(c.Packet)
	}
	if kept {
		return ring.Hold
	}
	return ring.Drop
}

// find returns the endpoint of a socket; the zero endpoint for a connection that was just accepted.
func (l *loop) find(s *ring.Socket) endpoint {
	if slot := s.UserData(); slot < uint64(len(l.table)) {
		e := l.table[slot]
		if e.conn != nil && e.conn.socket == s || e.packets != nil && e.packets.socket == s {
			return e
		}
	}
	return endpoint{}
}

// Handle gives each completion to whom it concerns.
func (l *loop) Handle(_ *reactor.Loop, c *xtreme.Completion) {
	if c.Events.Has(xtreme.EventNewConnection) {
		// Its user data may not be ours yet; nothing else of it can come in this batch.
		l.table[c.Listener.UserData()].listener.accepted(c)
		return
	}
	e := &l.table[c.UserData]
	switch {
	case e.conn != nil:
		e.conn.handle(c)
	case e.packets != nil:
		e.packets.handle(c)
	}
	if c.Events.Has(xtreme.EventClosed) {
		l.forget(c.UserData)
	}
}

// forget frees the table's entry of a socket that was closed.
func (l *loop) forget(slot uint64) {
	e := &l.table[slot]
	if e.listener != nil {
		e.listener.parent.end()
		close(e.listener.closed)
	}
	*e = endpoint{}
	l.unused = append(l.unused, slot)
}

// Stop closes what is open when the network is closed. The listeners are closed already.
func (l *loop) Stop(*reactor.Loop) { l.endAll() }

// abandon ends the endpoints that a loop has left open, as after an error. The network calls it when all its loops have ended: nothing else uses
// the table then.
func (l *loop) abandon() {
	l.endAll()
	l.forgetCalls()                    // calls that were accepted while the loop ran, and whose posted function the loop dropped at its end
	for _, x := range l.passing.list { // and connections likewise
		_ = l.net.engine.CloseAccepted(x.fd)
	}
	l.passing.list = nil
	for slot := range l.table {
		if e := &l.table[slot]; e.listener != nil {
			close(e.listener.closed)
		}
	}
}

// endAll ends all endpoints of the loop.
func (l *loop) endAll() {
	for i := range l.table {
		switch e := &l.table[i]; {
		case e.conn != nil:
			e.conn.end()
		case e.packets != nil:
			e.packets.end()
		case e.listener != nil:
			e.listener.parent.end()
		}
	}
}

// mayLend reports whether a packet of a length should be lent to its reader instead of copied: it is long, and at least a quarter of the
// poller's buffers of each class would stay available (l.low), so that slow readers do not use up the buffers of all connections.
func (l *loop) mayLend(length int) bool {
	pool := l.poller.Pool()
	return length > l.copyMost && pool.Available(buffers.Small) >= l.low[buffers.Small] && pool.Available(buffers.Large) >= l.low[buffers.Large]
}

// ignoreClosed returns nil for an error that says that the socket is closed already.
func ignoreClosed(err error) error {
	if errors.Is(err, ring.ErrClosed) {
		return nil
	}
	return err
}
