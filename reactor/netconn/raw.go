package netconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// SyscallConn gives access to the connection for what has no method here. Control runs its function with the socket's descriptor, on
// the loop, which waits for it meanwhile.
//
// Read is package net's: its function reads or peeks, and Read calls it again when more came for as long as it returns false. The
// ring has received what waits, so the function gets the descriptor of a stand-in, a unix socket on which reading, peeking and polling
// find what they would find on a kernel socket: the bytes that wait (64 KiB at most at a time), the peer's end, or EAGAIN. What the
// function reads there is read of the connection. The check by which a driver finds out whether a pooled connection still stands
// works with it. A broken connection is an error of Read's own. Options of the socket are for Control.
//
// Write is refused: the ring writes the socket, and would know nothing of it.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	return &rawConn{c.fail, c.onLoop, c.rawRead}, nil
}

// rawConn is a syscall.RawConn.
type rawConn struct {
	fail   func(op string, cause error) error
	onLoop func(func(*xtreme.Socket) error) error
	read   func(func(fd uintptr) (done bool)) error // nil: refused
}

// Control runs f on the loop. f may set options and call Control, also of others on its loop; whatever waits for the loop,
// Read, Write, Dial, waits for f to return.
func (r *rawConn) Control(f func(fd uintptr)) error {
	if f == nil {
		return r.fail("raw-control", errNoFunction)
	}
	err := r.onLoop(func(s *xtreme.Socket) error {
		if carriesTCP(s) {
			return errNoDescriptor
		}
		f(uintptr(s.ID()))
		return nil
	})
	if err != nil {
		return r.fail("raw-control", asNetError("control", err))
	}
	return nil
}

// carriesTCP reports whether our own stack carries a TCP socket: what its number stands for in the kernel, if anything, has no connection.
func carriesTCP(s *xtreme.Socket) bool {
	return s.Kind() != xtreme.KindDatagram && s.Ring() != nil && s.Ring().Kind() == string(conf.RingOffload)
}

var (
	errNoDescriptor = fmt.Errorf("our own stack carries this TCP socket, which has no descriptor: %w", errors.ErrUnsupported)

	errNoFunction = fmt.Errorf("function nil: %w", unix.EINVAL)
	errRaw        = fmt.Errorf("the ring reads and writes this socket: use Read and Write: %w", errors.ErrUnsupported)
)

// Read calls f until it returns true.
func (r *rawConn) Read(f func(fd uintptr) (done bool)) error {
	err := errRaw
	switch {
	case f == nil:
		err = errNoFunction
	case r.read != nil:
		err = r.read(f)
	}
	if err != nil {
		return r.fail("raw-read", err)
	}
	return nil
}

// Write is refused.
func (r *rawConn) Write(func(fd uintptr) (done bool)) error { return r.fail("raw-write", errRaw) }

// rawMost is how many bytes a stand-in gets at a time.
const rawMost = 64 << 10

// arrivals is how far the receiving direction had come at some moment.
type arrivals struct {
	queued int
	err    error
}

// rawRead calls f with stand-in descriptors, which read like the connection, until f returns true. The caller has the turn to read.
func (c *Conn) rawRead(f func(fd uintptr) (done bool)) error {
	if err := c.acquireTurn(); err != nil {
		return err
	}
	defer c.releaseTurn()
	for {
		if err := c.awaitPending(); err != nil {
			return err
		}
		seen, done, took, err := c.showStandIn(f)
		if err != nil || done {
			return err
		}
		if took == 0 {
			if err := c.awaitArrival(seen); err != nil {
				return err
			}
		}
	}
}

// awaitPending waits for data that the kernel or the ring has received already and that has not reached the connection, if the connection has
// none.
func (c *Conn) awaitPending() error {
	if sys.Goroutine() == c.loop.self {
		return nil // the loop would wait for itself
	}
	coming, err := c.isDataComing()
	if coming && err == nil {
		if _, err = c.fetch(nil); err == io.EOF {
			err = nil
		}
	}
	return err
}

// isDataComing reports whether data is on its way to a connection that has none. A ring other than epoll receives before its Poll: data that
// poll(2) does not show any more is delivered by the Poll of the next whole turn.
func (c *Conn) isDataComing() (coming bool, err error) {
	known, coming, err := c.pollKernel()
	if known || coming || err != nil {
		return coming, err
	}
	if !c.receivesBeforePoll() {
		return false, nil
	}
	return false, c.loop.waitTurn()
}

// receivesBeforePoll reports whether the ring receives data before its Poll, as all but epoll rings do.
func (c *Conn) receivesBeforePoll() bool { return c.path.Kind != string(conf.RingEpoll) }

// pollKernel asks the kernel whether the socket has data. known means that it was not asked, because the connection has data or has ended.
func (c *Conn) pollKernel() (known, coming bool, err error) {
	c.mu.Lock()
	switch {
	case c.closed:
		err = net.ErrClosed
	case c.in.expired():
		err = os.ErrDeadlineExceeded
	default:
		known = c.handAt < len(c.inHand) || len(c.in.queue) > 0 || c.in.err != nil
	}
	if err != nil || known || c.watch != 0 {
		if err == nil && !known {
			coming = readable(c.watch)
		}
		c.mu.Unlock()
		return known, coming, err
	}
	c.mu.Unlock()
	err = c.onLoop(func(s *xtreme.Socket) error {
		if carriesTCP(s) {
			return nil // the ring has all that came
		}
		coming = readable(s.ID())
		if fd, err := unix.FcntlInt(uintptr(s.ID()), unix.F_DUPFD_CLOEXEC, 3); err == nil { // otherwise the next one comes here, too
			c.setWatch(fd)
		}
		return nil
	})
	return false, coming, err
}

// setWatch stores a second descriptor of the socket, by which any goroutine can ask the kernel what it has. It is closed with the connection,
// before the socket's own descriptor, so that the end of the socket does not wait for it.
func (c *Conn) setWatch(fd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.watch != 0 {
		_ = unix.Close(fd)
		return
	}
	c.watch = fd
}

// dropWatch closes the second descriptor. With mu held.
func (c *Conn) dropWatch() {
	if c.watch != 0 {
		_ = unix.Close(c.watch)
		c.watch = 0
	}
}

// readable reports whether the kernel has data, the peer's end or an error for a reader, without reading it.
func readable(fd int) bool {
	const found = unix.POLLIN | unix.POLLRDHUP | unix.POLLHUP
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&found != 0
}

// showStandIn calls f with a stand-in for the data that waits, and removes from the connection what f has read of it.
func (c *Conn) showStandIn(f func(fd uintptr) (done bool)) (seen arrivals, done bool, took int, err error) {
	seen, in, err := c.newStandIn()
	if err != nil {
		return seen, false, 0, err
	}
	defer in.close()
	done = f(uintptr(in.fd))
	if in.fed > 0 {
		left, err := unix.IoctlGetInt(in.fd, unix.TIOCINQ)
		if err != nil {
			return seen, done, 0, os.NewSyscallError("ioctl", err)
		}
		took = in.fed - left
		c.skip(took)
	}
	return seen, done, took, nil
}

// standIn is a descriptor on which a reader finds what waits on a connection: one end of a pair of unix sockets.
type standIn struct {
	fd, other int
	fed       int  // bytes that were written to other
	shared    bool // silent's
}

// silent is the stand-in of every connection on which nothing waits: nothing is ever written to its other end, and it stays open.
var silent struct {
	sync.Mutex
	made bool
	in   standIn
}

// close closes the stand-in's descriptors, unless it is the shared one.
func (in standIn) close() {
	if !in.shared {
		_ = unix.Close(in.fd)
		_ = unix.Close(in.other)
	}
}

// newPair makes a stand-in of two connected unix-domain sockets.
func newPair() (standIn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return standIn{}, os.NewSyscallError("socketpair", err)
	}
	return standIn{fd: pair[0], other: pair[1]}, nil
}

// emptyPair returns the stand-in without data that all connections share.
func emptyPair() (in standIn, err error) {
	silent.Lock()
	defer silent.Unlock()
	if !silent.made {
		if silent.in, err = newPair(); err != nil {
			return standIn{}, err
		}
		silent.made, silent.in.shared = true, true
	}
	return silent.in, nil
}

// newStandIn makes a stand-in that has the data that waits now. seen says up to which arrival that is.
func (c *Conn) newStandIn() (seen arrivals, in standIn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen = arrivals{c.in.queued, c.in.err}
	waits := c.handAt < len(c.inHand) || len(c.in.queue) > 0
	switch {
	case c.closed:
		err = net.ErrClosed
	case c.in.expired():
		err = os.ErrDeadlineExceeded
	case !waits && seen.err == nil:
		in, err = emptyPair()
	case !waits && seen.err != io.EOF:
		err = seen.err
	default:
		if in, err = newPair(); err != nil {
			break
		}
		whole := true
		for _, list := range [][]segment{c.inHand[c.handAt:], c.in.queue} {
			for i := 0; i < len(list) && whole; i++ {
				var n int
				n, whole = list[i].feed(in.other, rawMost-in.fed)
				in.fed += n
			}
		}
		if whole && seen.err == io.EOF {
			_ = unix.Shutdown(in.other, unix.SHUT_WR) // of a socket that is connected
		}
	}
	return seen, in, err
}

// feed writes the rest of the segment, at most most bytes, to the descriptor fd, and reports whether that was all of it.
func (g *segment) feed(fd, most int) (n int, whole bool) {
	write := func(b []byte) bool {
		k, _ := unix.Write(fd, b[:min(len(b), most-n)])
		n += max(k, 0)
		return k == len(b)
	}
	if g.chunk != nil {
		whole = write(g.chunk.bytes())
		return n, whole
	}
	skip := g.skip
	for s := range g.lent.Segments() {
		from := min(skip, len(s))
		skip -= from
		if !write(s[from:]) {
			return n, false
		}
	}
	return n, true
}

// skip drops n bytes of received data. The caller has the turn to read.
func (c *Conn) skip(n int) {
	for n > 0 {
		if _, err := c.fetch(nil); err != nil {
			return // closed meanwhile
		}
		g := &c.inHand[c.handAt]
		k, done := g.skipBytes(n)
		n -= k
		if done {
			g.free()
			c.handAt++
		}
	}
}

// skipBytes drops n bytes of the segment, or all that is left of it, and reports whether nothing is left.
func (g *segment) skipBytes(n int) (k int, done bool) {
	if g.chunk != nil {
		k = min(n, g.chunk.w-g.chunk.r)
		g.chunk.r += k
		return k, g.chunk.r == g.chunk.w
	}
	k = min(n, g.lent.Len()-g.skip)
	g.skip += k
	return k, g.skip == g.lent.Len()
}

// awaitArrival waits until data arrives after seen.
func (c *Conn) awaitArrival(seen arrivals) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return net.ErrClosed
		case c.in.expired():
			return os.ErrDeadlineExceeded
		case seen != arrivals{c.in.queued, c.in.err}:
			return nil
		}
		c.in.wait()
	}
}
