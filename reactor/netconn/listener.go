package netconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Listener is a TCP or unix listener: a net.Listener with a deadline. Any goroutine may call any method.
//
// Running out of descriptors is no error of Accept: the ring waits until one is free, and connections wait in the kernel's
// queue meanwhile.
type Listener struct {
	net     *Network
	network string
	addr    net.Addr
	path    xtreme.Path
	socket  *listening
	spread  uint32 // loop the next connection goes to; the listener's loop's

	mu sync.Mutex
	gate
	queue       []*Conn
	closed      bool
	closeCalled bool
	suspended   bool // queue is full: the ring is to stop
	called      bool // on the loop's list
}

var _ net.Listener = (*Listener)(nil)

// listening is a listener's socket, on its loop.
type listening struct {
	parent *Listener
	loop   *loop
	socket *xtreme.Socket
	halted bool          // accepting was suspended at the ring
	closed chan struct{} // closed when it is
}

// Listen listens on "tcp", "tcp4", "tcp6" ("host:port", host may be empty) or "unix" (a path, or a name with "@"). With
// several loops connections are given to them in turn.
func (n *Network) Listen(network, address string) (*Listener, error) {
	if network == "unix" {
		return n.ListenUnix(address, xtreme.UnixListenConfig{})
	}
	return n.ListenTCP(network, address, xtreme.ListenConfig{})
}

// ListenTCP is Listen for "tcp", "tcp4" or "tcp6" with a configuration; connections inherit what sockets inherit. Fields that are zero are as
// package net has them: ReuseAddr and NoDelay are on, and KeepAlive, every 15 s. ReceiveMode, ReceiveCallback, UserData and AcceptTo are
// the Network's.
func (n *Network) ListenTCP(network, address string, c xtreme.ListenConfig) (*Listener, error) {
	ln, at, err := n.listenTCP(network, address, c)
	if err != nil {
		return nil, errorOf("listen", network, nil, at, err)
	}
	return ln, nil
}

// ListenUnix is Listen for "unix" with a configuration. ReceiveMode, ReceiveCallback, UserData and AcceptTo are the Network's.
func (n *Network) ListenUnix(name string, c xtreme.UnixListenConfig) (*Listener, error) {
	err := refuseReserved(&c.SocketConfig, c.AcceptTo)
	var ln *Listener
	if err == nil {
		ln, err = n.listenOn("unix", func(l *loop, acceptTo acceptFunc) (*xtreme.Socket, error) {
			c := c
			l.configure(&c.SocketConfig)
			c.AcceptTo, c.LargeStream = acceptTo, c.LargeStream || n.config.LargeStream
			return l.poller.ListenUnix(name, c)
		})
	}
	if err != nil {
		return nil, errorOf("listen", "unix", nil, &net.UnixAddr{Name: name, Net: "unix"}, err)
	}
	return ln, nil
}

// acceptFunc is the type of xtreme.ListenConfig.AcceptTo.
type acceptFunc = func(fd int, peer netip.AddrPort) bool

// refuseReserved returns an error for fields of a configuration that the Network itself sets.
func refuseReserved(c *xtreme.SocketConfig, acceptTo acceptFunc) error {
	field := ""
	switch {
	case c.ReceiveMode != 0 || c.ReceiveCallback != nil:
		field = "ReceiveMode or ReceiveCallback"
	case c.UserData != nil:
		field = "UserData"
	case acceptTo != nil:
		field = "AcceptTo"
	default:
		return nil
	}
	return fmt.Errorf("netconn: configuration with %s, which the Network has a use for: %w", field, unix.EINVAL)
}

// configure completes the configuration of a stream socket on this loop. Its budget bounds what a connection holds beside Suspend: data that
// the kernel had received before reading was suspended stays in the ring's buffers until the reader goes on.
func (l *loop) configure(c *xtreme.SocketConfig) {
	orElse(&c.Budget, l.net.config.Budget)
	c.ReceiveCallback = l.receive
}

// textAddr is an address in an error when there is no better form of it.
type textAddr struct{ network, text string }

func (a textAddr) Network() string { return a.network }
func (a textAddr) String() string  { return a.text }

// listenTCP opens a TCP listener. With an error it also returns the address that the error is about, if it is known.
func (n *Network) listenTCP(network, address string, c xtreme.ListenConfig) (ln *Listener, at net.Addr, err error) {
	if err := refuseReserved(&c.SocketConfig, c.AcceptTo); err != nil {
		return nil, nil, err
	}
	fam, err := family(network, "tcp")
	if err != nil {
		at, err = otherKind(err, network, "udp", address)
		return nil, at, err
	}
	all, err := n.resolve(context.Background(), network, fam, address, toListen)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range all {
		at = net.TCPAddrFromAddrPort(listenedAddr(a, address))
		ln, err = n.listenOn(network, func(l *loop, acceptTo acceptFunc) (*xtreme.Socket, error) {
			c := c
			l.configure(&c.SocketConfig)
			orElse(&c.NoDelay, xtreme.On)
			orElse(&c.KeepAlive, defaultKeepAlive)
			c.ReuseAddr = true
			c.V6Only = c.V6Only || fam == "6" && a.Addr().IsUnspecified()
			c.AcceptTo, c.LargeStream = acceptTo, c.LargeStream || n.config.LargeStream
			return l.poller.ListenTCP(a, c)
		})
		if err == nil || !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EADDRNOTAVAIL) {
			break
		}
	}
	return ln, at, err
}

// defaultKeepAlive is package net's: dead peers are found out without being asked for.
var defaultKeepAlive = xtreme.KeepAlive{Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 9}

// listenOn opens a listening socket on the next loop, by calling open there.
func (n *Network) listenOn(network string, open func(*loop, acceptFunc) (*xtreme.Socket, error)) (*Listener, error) {
	ln := &Listener{net: n, network: network}
	ln.gate.init(&ln.mu)
	l := n.pick()
	own := network != "unix" && n.hasOwnTCP()
	if own {
		l = n.loops[0] // the first one has a queue of the interface, if any has
	}
	ln.socket = &listening{parent: ln, loop: l, closed: make(chan struct{})}
	var acceptTo acceptFunc
	if len(n.loops) > 1 {
		acceptTo = ln.passToLoop
	}
	err := l.do(func() error {
		s, err := open(l, acceptTo)
		if err != nil {
			return err
		}
		ln.socket.socket = s
		ln.path = s.Path()
		ln.addr, _ = streamAddrs(s)
		l.add(s, endpoint{listener: ln.socket})
		return nil
	})
	if err != nil {
		return nil, asNetError("bind", err)
	}
	if own && !n.isLoop() {
		for _, other := range n.loops {
			if other != l {
				_ = other.waitTurn() // in which it opens its share of the interface's queues; it fails when the network ends
			}
		}
	}
	return ln, nil
}

// passToLoop is the AcceptTo of listeners: it sends a connection to the loop whose turn it is and returns true; false leaves it to the
// listener's own loop.
func (ln *Listener) passToLoop(fd int, _ netip.AddrPort) bool {
	n := ln.net
	l := n.loops[ln.spread%uint32(len(n.loops))]
	ln.spread++
	if l == ln.socket.loop {
		return false
	}
	return l.pass(ln, fd)
}

// adoptOn makes a connection that the listener's loop has accepted one of loop l. If its ring cannot carry it, because it has no queue of the
// interface, the listener's loop serves it. Loop l only.
func (ln *Listener) adoptOn(l *loop, fd int) {
	n := ln.net
	c := xtreme.AdoptConfig{LargeStream: n.config.LargeStream}
	l.configure(&c.SocketConfig)
	s, err := l.poller.Adopt(fd, c)
	if back := ln.socket.loop; errors.Is(err, xtreme.ErrNotSupported) && l != back && back.pass(ln, fd) {
		return
	}
	if err != nil {
		n.config.Logger.Warn("netconn: a connection was lost on its way to another loop", "error", err)
		_ = l.poller.Engine().CloseAccepted(fd)
		return
	}
	conn := newConn(l, ln.network)
	conn.open(s)
	conn.establish()
	ln.push(conn)
}

// accepted makes a connection of a NEW_CONNECTION completion and queues it for Accept. Loop only.
func (s *listening) accepted(e *xtreme.Completion) {
	c := s.loop.find(e.Socket).conn // of packets that were faster
	if c == nil {
		c = newConn(s.loop, "")
		c.open(e.Socket)
	}
	c.network = s.parent.network
	c.establish()
	s.parent.push(c)
	c.handle(e)
}

// push queues a connection for Accept. It is called on the connection's loop.
func (ln *Listener) push(c *Conn) {
	ln.mu.Lock()
	if ln.closed {
		ln.mu.Unlock()
		c.abort()
		return
	}
	ln.queue = append(ln.queue, c)
	suspend := len(ln.queue) >= ln.net.config.AcceptQueue && !ln.suspended
	ln.suspended = ln.suspended || suspend
	c.loop.noteWoken(ln.wake())
	ln.unlockAndCall(suspend)
}

// unlockAndCall unlocks mu and, if accepting must be suspended or resumed (changed), puts the listener on its loop's list. The loop looks at
// the state when it comes, so the order of several changes does not matter.
func (ln *Listener) unlockAndCall(changed bool) {
	first := changed && !ln.called
	ln.called = ln.called || changed
	ln.mu.Unlock()
	if first {
		ln.socket.loop.call(ln.socket)
	}
}

// serveCalls suspends or resumes accepting, as the listener's state says by now. Loop only.
func (s *listening) serveCalls() {
	ln := s.parent
	ln.mu.Lock()
	ln.called = false
	halt := ln.suspended && !ln.closed
	ln.mu.Unlock()
	if halt == s.halted {
		return
	}
	s.halted = halt
	change := s.socket.Resume
	if halt {
		change = s.socket.Suspend
	}
	s.warn(change())
}

// warn logs an error that no caller waits for.
func (s *listening) warn(err error) {
	if ignoreClosed(err) != nil {
		s.parent.net.config.Logger.Warn("netconn: listener", "address", s.parent.addr, "error", err)
	}
}

// Accept waits for the next connection. Its errors are net.ErrClosed and os.ErrDeadlineExceeded.
func (ln *Listener) Accept() (net.Conn, error) {
	c, err := ln.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept with the connection's own type.
func (ln *Listener) AcceptConn() (*Conn, error) {
	ln.mu.Lock()
	for {
		var err error
		switch {
		case ln.closed:
			err = net.ErrClosed
		case ln.expired():
			err = os.ErrDeadlineExceeded
		case len(ln.queue) == 0:
			ln.wait()
			continue
		}
		if err != nil {
			ln.mu.Unlock()
			return nil, errorOf("accept", ln.network, nil, ln.addr, err)
		}
		c := ln.queue[0]
		ln.queue[0] = nil
		ln.queue = ln.queue[1:]
		resume := ln.suspended && len(ln.queue) <= ln.net.config.AcceptQueue/2
		ln.suspended = ln.suspended && !resume
		ln.unlockAndCall(resume)
		return c, nil
	}
}

// SetDeadline is the deadline of Accept; the zero Time is none.
func (ln *Listener) SetDeadline(t time.Time) error {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return errorOf("set", ln.network, nil, ln.addr, net.ErrClosed)
	}
	ln.set(t)
	return nil
}

// Addr is the address that is listened on: a *net.TCPAddr or *net.UnixAddr.
func (ln *Listener) Addr() net.Addr { return ln.addr }

// Path reports which kind of ring accepts the connections and, for every better one, why not.
func (ln *Listener) Path() xtreme.Path { return ln.path }

// Close stops listening: Accept returns net.ErrClosed, connections nobody accepted are reset. When it returns the address
// is free; but on the listener's loop, inside a function of Control, it cannot wait for that, and the address is free soon after.
func (ln *Listener) Close() error {
	ln.mu.Lock()
	if ln.closeCalled {
		ln.mu.Unlock()
		return errorOf("close", ln.network, nil, ln.addr, net.ErrClosed)
	}
	ln.closeCalled = true
	ln.mu.Unlock()
	ln.end()
	s := ln.socket
	if s.loop.self == sys.Goroutine() {
		s.warn(s.socket.Close())
		return nil
	}
	_ = s.loop.reactor.Post(func() { s.warn(s.socket.Close()) }) // after the loop's end there is nothing to be done
	select {
	case <-ln.socket.closed:
	case <-ln.net.ended:
	}
	return nil
}

// end ends Accept calls; the socket is closed by Close or when the loop ends.
func (ln *Listener) end() {
	ln.mu.Lock()
	left := ln.queue
	ln.closed, ln.queue = true, nil
	ln.wakeAll()
	ln.stop()
	ln.mu.Unlock()
	for _, c := range left {
		c.abort()
	}
}
