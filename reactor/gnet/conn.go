package gnet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	upstream "github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/socket"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// ConnX is what connections have beside gnet's surface, TCP, unix and connected UDP ones (which are a DatagramX too);
// a UDP server's datagrams have no connection to suspend or to end:
//
//	if x, ok := c.(gnet.ConnX); ok { x.SetIdleTimeout(time.Minute) }
type ConnX interface {
	Conn
	// SuspendRead stops OnTraffic and reading: the peer's window closes. What the ring holds waits, in order. Loop only.
	SuspendRead() error
	// ResumeRead undoes SuspendRead. Loop only.
	ResumeRead() error
	// SetProducers says whose input is written to this connection, as in a proxy: while more than the high-water mark of
	// WithOutboundLimits waits to be sent here, those connections are not read from, and go on below half of it. Without it a
	// connection is its own producer, as in an echo server; one that has others is read from however much waits. Producers are on
	// the same loop (EventLoop.Register makes a connection there): others are ErrUnsupportedOp, and so is all of it without a
	// high-water mark and on UDP. Each call replaces the producers of the one before; without arguments there are none. Loop only.
	SetProducers(from ...Conn) error
	// CloseWhenSent closes the connection once what was written has been sent, and reads no more. Nothing but a deadline or the
	// peer's end bounds how long that takes. Loop only.
	CloseWhenSent() error
	// SetIdleTimeout closes the connection once nothing was received or written for d; 0 turns it off. Any goroutine.
	SetIdleTimeout(d time.Duration) error
	// Path reports how the connection's bytes travel, and why not better. Loop only.
	Path() ring.Path
	// Socket is the ring's socket under the connection: for options and questions, not for reading. Loop only.
	Socket() *xtreme.Socket
}

// DatagramX is what the Conn that OnTraffic is given for UDP has beside gnet's surface. It speaks of the
// datagram at hand and is for the handler's call only.
type DatagramX interface {
	Conn
	// Destination is where the datagram was sent to.
	Destination() netip.AddrPort
	// IfIndex is the interface it came in on; 0 where the ring cannot know.
	IfIndex() uint32
	// Time is when it arrived, as far as timestamps were asked for.
	Time() ring.Stamp
	// Hold hands the packet over to the caller, who must Release it (or Lend it to another goroutine): its bytes stay
	// where they are. The zero Packet if there is none or it was taken.
	Hold() buffers.Packet
	// Path and Socket are as in ConnX.
	Path() ring.Path
	// Socket is the server's socket, shared by all peers.
	Socket() *xtreme.Socket
}

// state is the state of a connection.
type state uint8

const (
	stateNew           state = iota // OnOpen was not called yet
	stateOpen                       // in use
	stateCloseDeferred              // will be closed when the handler that runs returns
	stateClosing                    // OnClose runs
	stateClosed                     // closed; its socket may still send
)

// future is gnet's interface, embedded as a nil value: a method that a later minor version adds to it does not keep a
// program from compiling. No method of today's is left to it.
//
//lint:ignore U1000 it is there for methods that do not exist yet
type future = upstream.Conn

// conn is a TCP or unix connection.
type conn struct {
	future //lint:ignore U1000 see future
	el     *eventloop
	socket *xtreme.Socket
	in     inbound
	out    outbound
	ctx    any
	timers *timers // deadlines, if there are any
	why    error   // with which a deferred close is made

	producers *producers // the connections whose input is written to this one; nil: this one alone
	consumers []*conn    // the connections of which this one is a producer
	blocked   int        // how many of those and itself have too much waiting to be sent; while it is not 0 this one is not read from

	withheld []segment // packets that the ring delivered after reading was suspended

	slot            uint32
	state           state
	dirty           bool  // it is in el.dirty
	unflushed       bool  // outbound has data of ReadFrom that no event will send
	full            bool  // outbound was above the high-water mark, and not below half of it since
	closingWhenSent bool  // CloseWhenSent was called
	suspended       bool  // by SuspendRead
	eof             bool  // the peer's FIN follows the withheld packets
	limited         bool  // counts against MaxConnections
	reset           bool  // closing resets it: bytes that were written are dropped
	onStack         bool  // our own stack carries it: there is no descriptor. Set before other goroutines know the connection
	large           bool  // receives into large buffers, see adaptBuffers
	streak          uint8 // packets in a row that suggest the other size of buffers

	safe          atomic.Pointer[any]
	network       string // "tcp" or "unix"
	local, remote net.Addr

	mu     sync.Mutex // guards what other goroutines do with the descriptor against its closing
	fd     int        // -1 once closed
	linger *int       // SetLinger, applied when closing
}

func newConn(el *eventloop, network string, local, remote net.Addr) *conn {
	return &conn{el: el, network: network, local: local, remote: remote, fd: -1}
}

// finish closes the connection's socket after OnClose has returned: it sends what the kernel takes without waiting, releases timers and
// buffers, and closes, or resets if data that was written is dropped.
func (c *conn) finish() {
	for c.out.size > 0 && !c.reset { // what the kernel takes without waiting
		if _, err := c.sendOut(); err != nil {
			break
		}
	}
	if c.timers != nil {
		c.timers.stop()
	}
	c.leaveProducers()
	c.releaseInbound()
	for _, s := range c.withheld {
		release(s.pkt)
	}
	c.withheld = nil
	c.out.done()
	c.ctx = nil
	c.safe.Store(nil)
	linger := c.invalidateFD()
	c.state = stateClosed
	if linger != nil && !c.socket.Unix() {
		_ = c.socket.SetLinger(time.Duration(*linger) * time.Second) // it exists, and is no datagram socket
	}
	end := c.socket.Close
	if c.reset {
		end = c.socket.Abort
	}
	if err := end(); err != nil && !isClosed(err) {
		c.el.eng.log.Warnf("closing connection %v: %v", c.remote, err)
	}
	if c.limited {
		c.el.eng.accepted.Add(-1)
	}
}

// releaseInbound releases received data that the handler has not read. In exact gnet a handler may be running that has slices of it (Next,
// Peek): then it is released when that handler returns.
func (c *conn) releaseInbound() {
	if c.el.depth == 0 {
		c.in.done()
		return
	}
	c.in.discard(-1)
	if !c.dirty {
		c.dirty = true
		c.el.dirty = append(c.el.dirty, c)
	}
}

// invalidateFD makes calls of other goroutines on the descriptor fail, before it is closed. It returns the value of SetLinger, which closing
// needs.
func (c *conn) invalidateFD() (linger *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fd = -1
	return c.linger
}

// Read copies received bytes to p; with none there it is io.ErrShortBuffer. Loop only.
func (c *conn) Read(p []byte) (int, error) {
	n := c.in.read(p)
	c.el.noteUsed(c)
	if n == 0 && len(p) > 0 {
		return 0, io.ErrShortBuffer
	}
	return n, nil
}

// Next takes n bytes, all if n is not positive. They stay valid until the handler returns. Loop only.
func (c *conn) Next(n int) ([]byte, error) {
	if c.el.current != c {
		c.el.noteUsed(c)
	}
	return c.in.next(n)
}

// Peek is Next without taking: the bytes stay valid until the handler returns, also after Discard. What is left unread is there in
// the next call, but may have moved. Loop only.
func (c *conn) Peek(n int) ([]byte, error) {
	if c.el.current != c {
		c.el.noteUsed(c)
	}
	return c.in.peek(n)
}

// Discard drops n bytes, all if n is not positive, and returns how many there were. Loop only.
func (c *conn) Discard(n int) (int, error) {
	if c.el.current != c {
		c.el.noteUsed(c)
	}
	return c.in.discard(n), nil
}

// InboundBuffered is how many bytes can be read. Loop only.
func (c *conn) InboundBuffered() int { return c.in.len() }

// WriteTo writes everything that was received to w, without copying it together. Loop only.
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	n, err := c.in.writeTo(w)
	c.el.noteUsed(c)
	return n, err
}

// Context and SetContext are a value of the program's. Loop only.
func (c *conn) Context() any { return c.ctx }

// SetContext keeps a value of the program with the connection. Loop only.
func (c *conn) SetContext(ctx any) { c.ctx = ctx }

// SafeContext and SetSafeContext are another value, for any goroutine.
func (c *conn) SafeContext() any { return safeContext(&c.safe) }

// SetSafeContext keeps a value of the program with the connection. Any goroutine.
func (c *conn) SetSafeContext(ctx any) { c.safe.Store(&ctx) }

// safeContext returns the value that SetSafeContext stored, or nil.
func safeContext(p *atomic.Pointer[any]) any {
	if v := p.Load(); v != nil {
		return *v
	}
	return nil
}

// LocalAddr is the listener's address, or a dialled connection's own. Any goroutine.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the peer's address. Any goroutine.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// EventLoop is the loop the connection is on. Any goroutine.
func (c *conn) EventLoop() EventLoop { return c.el }

// Wake makes the loop call OnTraffic for the connection, whether or not there is data to read. Any goroutine; on a closed connection it does
// nothing.
func (c *conn) Wake(callback AsyncCallback) error {
	return ignoreEnd(c.el.tasks.push(task{kind: taskWake, c: c, callback: callback}))
}

// Close closes the connection, on the loop. Any goroutine; on a closed connection it does nothing.
func (c *conn) Close() error {
	return ignoreEnd(c.el.tasks.push(task{kind: taskClose, c: c}))
}

// CloseWithCallback is Close that calls back, with ErrEngineShutdown if OnClose returned Shutdown.
func (c *conn) CloseWithCallback(callback AsyncCallback) error {
	return ignoreEnd(c.el.tasks.push(task{kind: taskClose, c: c, callback: callback}))
}

// ignoreEnd returns nil for an error that says that the connection or its loop has ended: waking or closing it is no error then.
func ignoreEnd(err error) error {
	if isClosed(err) {
		return nil
	}
	return err
}

// Path is how the bytes of the connection travel, with the reasons.
func (c *conn) Path() ring.Path { return c.socket.Path() }

// Socket is the ring's socket of the connection, see ConnX.
func (c *conn) Socket() *xtreme.Socket { return c.socket }

// withFD runs f with the descriptor, which is not closed meanwhile. Any goroutine.
func (c *conn) withFD(f func(fd int) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 {
		return net.ErrClosed
	}
	return f(c.fd)
}

// Fd is the descriptor, -1 once the connection is closed, and on a connection that our own stack carries, which has none. It is not to be read
// from, written to or closed. Any goroutine.
func (c *conn) Fd() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onStack {
		return -1
	}
	return c.fd
}

// Dup is a copy of the descriptor, the caller's to close. Any goroutine.
func (c *conn) Dup() (fd int, err error) {
	if c.onStack {
		return -1, fmt.Errorf("gnet: Dup of TCP %v from %v on an offloaded ring, which has no descriptor: %w", c.local, c.remote, ErrUnsupportedOp)
	}
	err = c.withFD(func(own int) error { fd, err = socket.Dup(own); return err })
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// setOption sets an option: with byFD on the descriptor, or, if our own stack carries the connection, with bySocket on the loop. A caller on
// another goroutine does not wait for the loop: an error is logged then.
func (c *conn) setOption(byFD func(fd int) error, bySocket func(*xtreme.Socket) error) error {
	if !c.onStack {
		return c.withFD(byFD)
	}
	if err := c.withFD(func(int) error { return nil }); err != nil {
		return err
	}
	isWaiting := c.el.onLoop() // the caller gets the error
	return c.el.runOnLoop(func() error {
		err := bySocket(c.socket)
		if err != nil && !isWaiting {
			c.el.eng.log.Warnf("connection from %v: %v", c.remote, err)
		}
		return err
	})
}

// SetReadBuffer sets SO_RCVBUF. Any goroutine, as the other setters.
func (c *conn) SetReadBuffer(bytes int) error {
	return c.setOption(func(fd int) error { return socket.SetRecvBuffer(fd, bytes) },
		func(s *xtreme.Socket) error { return s.SetReceiveBuffer(bytes) })
}

// SetWriteBuffer sets SO_SNDBUF.
func (c *conn) SetWriteBuffer(bytes int) error {
	return c.setOption(func(fd int) error { return socket.SetSendBuffer(fd, bytes) },
		func(s *xtreme.Socket) error { return s.SetSendBuffer(bytes) })
}

// SetLinger says what closing does. Negative: FIN after all data that was written. 0: a reset. Positive: FIN, and for so many seconds at most
// the peer's data is read and dropped. Closing never blocks the loop.
func (c *conn) SetLinger(seconds int) error {
	return c.withFD(func(int) error { c.linger = &seconds; return nil })
}

// SetNoDelay turns Nagle's algorithm off or on.
func (c *conn) SetNoDelay(on bool) error {
	return c.setOption(func(fd int) error { return socket.SetNoDelay(fd, boolToInt(on)) },
		func(s *xtreme.Socket) error { return s.SetNoDelay(on) })
}

// SetKeepAlivePeriod sets idle time and interval of keepalive probes. TCP only.
func (c *conn) SetKeepAlivePeriod(d time.Duration) error {
	if c.network != "tcp" {
		return ErrUnsupportedOp
	}
	if c.onStack { // as gnet has it for descriptors: five probes, a fifth of d apart
		idle := d.Truncate(time.Second)
		return c.SetKeepAlive(true, idle, max(idle/5, time.Second), 5)
	}
	return c.setOption(func(fd int) error { return socket.SetKeepAlivePeriod(fd, int(d.Seconds())) }, nil)
}

// SetKeepAlive sets all three numbers of keepalive probes, in whole seconds of 1 or more. TCP only.
func (c *conn) SetKeepAlive(on bool, idle, interval time.Duration, count int) error {
	if c.network != "tcp" {
		return ErrUnsupportedOp
	}
	if c.onStack && on && (idle < time.Second || interval < time.Second || count <= 0) {
		return errKeepAliveTimes
	}
	return c.setOption(func(fd int) error {
		return socket.SetKeepAlive(fd, on, int(idle.Seconds()), int(interval.Seconds()), count)
	}, func(s *xtreme.Socket) error {
		if !on {
			return s.SetKeepAlive(0, 0, 0)
		}
		return s.SetKeepAlive(idle, interval, count)
	})
}

// errKeepAliveTimes is what gnet answers to times and counts of keepalive probes below 1, here for connections that have no descriptor.
var errKeepAliveTimes = errors.New("invalid time duration")

// boolToInt returns 1 for true, 0 for false, as setsockopt(2) takes them.
func boolToInt(on bool) int {
	if on {
		return 1
	}
	return 0
}
