package netconn

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Conn is a TCP or unix connection on a ring: a net.Conn with what *net.TCPConn has beside it. Any goroutine may call any
// method at any time. Reads are done one after the other, and so are writes: the bytes of one Write stay together.
//
// A Conn that is not closed stays open: unlike *net.TCPConn it is not closed when the program has lost it.
type Conn struct {
	loop          *loop
	network       string
	local, remote net.Addr
	path          xtreme.Path

	reading sync.Mutex // held by whose turn to read it is, see turn.go; taken with TryLock only
	queuing atomic.Int32
	turn    *gate      // of readers that wait for their turn; nil until there was one. Guarded by mu
	inHand  []segment  // taken from in.queue by a reader, and
	handAt  int        // the first of them that is not read to its end
	writing sync.Mutex // held while one Write's bytes are queued

	mu          sync.Mutex
	in          inbound
	out         outbound
	closed      bool // calls return net.ErrClosed
	closeCalled bool
	reset       bool        // close with a reset, dropping data that was not sent
	called      bool        // it is on the loop's list
	watch       int         // a second descriptor of the socket, see setWatch; 0: none
	released    atomic.Bool // nothing is to be read any more: who ends its turn releases inHand

	// used by the loop alone
	socket         *xtreme.Socket
	socketClosed   bool       // the socket was closed
	dialled        chan error // of a connection being made; nil afterwards
	halted         bool       // reading was suspended at the ring
	blocked        bool       // the kernel's queue is full: OUT follows
	finSent        bool
	closeTimerRuns bool // the timer of CloseTimeout
}

var (
	_ net.Conn      = (*Conn)(nil)
	_ io.WriterTo   = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
)

// newConn makes a connection of a loop; it has no socket yet.
func newConn(l *loop, network string) *Conn {
	c := &Conn{loop: l, network: network}
	c.in.init(&c.mu)
	c.out.init(&c.mu)
	return c
}

// LocalAddr is the local address: a *net.TCPAddr or *net.UnixAddr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the peer's address: a *net.TCPAddr or *net.UnixAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Path reports which kind of ring carries the connection and, for every better one, why not.
func (c *Conn) Path() xtreme.Path { return c.path }

// SetDeadline sets the read and the write deadline. After a deadline calls fail with an error that is os.ErrDeadlineExceeded, also those that
// are waiting already. The connection stays usable: a later deadline lets calls succeed again. The zero Time is no deadline.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadline(func() { c.setReadersDeadline(t); c.out.set(t) })
}

// SetReadDeadline is SetDeadline for reading.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(func() { c.setReadersDeadline(t) })
}

// SetWriteDeadline is SetDeadline for writing. A Write that fails may have queued a part: it returns how much.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(func() { c.out.set(t) }) }

// setDeadline calls set, which sets a deadline, with mu held; a closed connection is an error.
func (c *Conn) setDeadline(set func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	set()
	return nil
}

// fail makes the error that a call returns: a *net.OpError, but io.EOF stays bare, as io.Reader requires.
func (c *Conn) fail(op string, cause error) error {
	if cause == io.EOF {
		return cause
	}
	return errorOf(op, c.network, c.local, c.remote, cause)
}

// open gives the connection its socket. Loop only.
func (c *Conn) open(s *xtreme.Socket) {
	c.socket = s
	c.loop.add(s, endpoint{conn: c})
}

// establish stores addresses and path of a connection that is established. Loop only, before any other goroutine has the connection.
func (c *Conn) establish() {
	s := c.socket
	c.local, c.remote = streamAddrs(s)
	c.path = s.Path()
}

// handle handles a completion of the connection's socket. Loop only.
func (c *Conn) handle(e *xtreme.Completion) {
	switch events := e.Events; {
	case events.Has(xtreme.EventClosed):
		c.socketClosed = true
		c.end() // by a panic, or the end of the loop
	case events.Has(xtreme.EventHup):
		c.onBroken(e.Err)
	default:
		if events.Has(xtreme.EventRdHup) {
			c.endReading(io.EOF)
		}
		if events.Has(xtreme.EventOut) {
			if c.dialled != nil {
				c.connected()
				return
			}
			c.mu.Lock()
			c.out.stuck = false
			c.mu.Unlock()
			c.blocked = false
			c.serveCalls()
		}
	}
}

// onBroken ends the connection with an error that the ring reported. Data that was received before can still be read. Loop only.
func (c *Conn) onBroken(cause error) {
	if cause == nil {
		cause = unix.ECONNRESET
	}
	if c.dialled != nil {
		c.refuse(asNetError("connect", cause))
		return
	}
	c.endWriting(asNetError("write", cause)) // first: who has read the end of it finds that writing has ended too
	c.endReading(asNetError("read", cause))
	// The socket stays until somebody closes the connection, as with package net: what was lent of it is found there at the
	// loop's end. If that has been done already there is nothing left to wait for.
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		c.serveCalls()
	}
}

// closeSocket closes the socket; CLOSED follows. Loop only.
func (c *Conn) closeSocket() {
	if c.socketClosed {
		return
	}
	c.socketClosed = true
	if err := c.socket.Close(); ignoreClosed(err) != nil {
		c.loop.net.config.Logger.Warn("netconn: close", "remote", c.remote, "error", err)
	}
}

// serveCalls does what other goroutines want done on the loop: send queued data, read on, close. Loop only.
func (c *Conn) serveCalls() {
	c.mu.Lock()
	c.called = false
	c.mu.Unlock()
	if c.socketClosed || c.socket == nil { // without a socket yet: connect looks again when there is one
		return
	}
	c.flush()
	c.mu.Lock()
	if c.in.suspended && !c.in.full(c.loop.net.config.ReceiveBuffer/2) { // at half, so that reading does not stop again at once
		c.in.suspended = false
	}
	halt := c.in.suspended
	closed, reset := c.closed, c.reset
	empty := c.out.queued == 0
	finish := c.out.shut && empty && !closed && c.out.err == nil
	c.mu.Unlock()
	switch {
	case c.socketClosed: // there is nothing left to close
	case closed && reset:
		c.abortSocket()
	case closed && empty:
		c.closeSocket()
	case closed:
		c.closeLater()
	case finish && !c.finSent:
		c.finSent = true
		if err := c.socket.CloseWrite(); ignoreClosed(err) != nil {
			c.endWriting(asNetError("shutdown", err))
		}
	}
	if halt != c.halted && !c.socketClosed && !closed {
		c.halted = halt
		change := c.socket.Resume
		if halt {
			// What the kernel has received before reading is stopped still comes, and is copied: it must not keep the ring's buffers.
			change = c.socket.Suspend
		}
		if err := change(); ignoreClosed(err) != nil {
			c.endReading(asNetError("read", err))
		}
	}
}

// closeLater starts the timer that bounds how long queued data may take to be sent after Close.
func (c *Conn) closeLater() {
	if c.closeTimerRuns {
		return
	}
	c.closeTimerRuns = true
	c.loop.reactor.After(c.loop.net.config.CloseTimeout, func() {
		if !c.socketClosed {
			c.abortSocket()
		}
	})
}

// abortSocket resets the connection. Loop only.
func (c *Conn) abortSocket() {
	c.socketClosed = true
	if err := c.socket.Abort(); ignoreClosed(err) != nil {
		c.loop.net.config.Logger.Warn("netconn: abort", "remote", c.remote, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.drop() // here and in flush only: what the loop is sending must not become another's
}

// needsLoop notes that the loop has something to do for the connection, and reports whether the caller must put it on the loop's list, which
// is so once until the loop has served it. With mu held.
func (c *Conn) needsLoop() bool {
	first := !c.called
	c.called = true
	return first
}

// unlockAndCall unlocks mu and puts the connection on the loop's list.
func (c *Conn) unlockAndCall() {
	first := c.needsLoop()
	c.mu.Unlock()
	if first {
		c.loop.call(c)
	}
}

// Close closes the connection: calls that wait return net.ErrClosed, and so do all later ones. It returns when the kernel has all data that
// was written, so that the peer receives it even if the process ends then. That is at once unless the peer does not read: then Close waits
// until the write deadline, at most for Config.CloseTimeout, and the rest is sent in the background; a peer that has not taken it by
// CloseTimeout is reset. SetLinger changes that. After a Write that failed, and beside one that has not returned, Close does not wait.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closeCalled {
		c.mu.Unlock()
		return c.fail("close", net.ErrClosed)
	}
	c.closeCalled = true
	c.mu.Unlock()
	c.end()
	c.waitSent()
	return nil
}

// end closes the connection, by its user, by the loop or by a time-out; only the first call has an effect. Waiting calls return.
func (c *Conn) end() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.in.drop()
	c.in.wakeAll()
	c.out.wakeAll()
	c.in.stop()
	c.out.stop()
	c.endTurns()
	c.dropWatch()
	c.unlockAndCall()
	c.released.Store(true)
	c.tryEmptyHand()
}

// abort is end with a reset: data that was not sent is dropped.
func (c *Conn) abort() {
	c.mu.Lock()
	c.reset = true
	c.mu.Unlock()
	c.end()
}

// CloseRead ends reading: queued data is dropped, data that still arrives is discarded, and Read returns io.EOF.
func (c *Conn) CloseRead() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.fail("close", net.ErrClosed)
	}
	c.in.err = io.EOF
	c.in.shut = true
	c.in.drop()
	c.in.wakeAll()
	c.unlockAndCall() // it may have to read on, only to throw away
	c.released.Store(true)
	c.tryEmptyHand()
	return nil
}

// CloseWrite sends FIN after what was written; reading goes on. It waits as Close does.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return c.fail("close", net.ErrClosed)
	case c.out.err != nil && !c.out.shut:
		c.mu.Unlock()
		return c.fail("close", c.out.err)
	}
	c.out.shut = true
	c.out.wakeAll()
	c.unlockAndCall()
	c.waitSent()
	return nil
}
