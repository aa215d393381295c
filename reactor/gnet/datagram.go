package gnet

import (
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/socket"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The methods of a datagram: gnet's Conn, and DatagramX.

// Read copies the datagram, or what is left of it, to p. Loop only, as the other reading calls.
func (d *datagram) Read(p []byte) (int, error) {
	n := copy(p, d.data)
	d.data = d.data[n:]
	if n == 0 && len(p) > 0 {
		return 0, io.ErrShortBuffer
	}
	return n, nil
}

// Next takes n bytes of the datagram, all if n is not positive; valid until the handler returns.
func (d *datagram) Next(n int) ([]byte, error) {
	b, err := d.Peek(n)
	d.data = d.data[len(b):]
	return b, err
}

// Peek is Next without taking.
func (d *datagram) Peek(n int) ([]byte, error) {
	if n > len(d.data) {
		return nil, io.ErrShortBuffer
	}
	if n <= 0 {
		n = len(d.data)
	}
	return d.data[:n:n], nil
}

// Discard drops n bytes, all if n is not positive, and returns how many there were.
func (d *datagram) Discard(n int) (int, error) {
	if n <= 0 || n > len(d.data) {
		n = len(d.data)
	}
	d.data = d.data[n:]
	return n, nil
}

// InboundBuffered is how many bytes can be read.
func (d *datagram) InboundBuffered() int { return len(d.data) }

// WriteTo writes what is left of the datagram to w.
func (d *datagram) WriteTo(w io.Writer) (int64, error) {
	if len(d.data) == 0 {
		return 0, nil
	}
	n, err := w.Write(d.data)
	n = max(0, min(n, len(d.data)))
	d.data = d.data[n:]
	return int64(n), err
}

// Write sends p to the peer as one datagram. Any goroutine. On an offloaded ring other goroutines than the loop's have p copied, and the loop
// sends the copies in the order of the calls; EAGAIN if too many are waiting.
func (d *datagram) Write(p []byte) (int, error) { return d.us.send(p, d.peer) }

// SendTo sends p to an address as one datagram. Any goroutine.
func (d *datagram) SendTo(p []byte, to net.Addr) (int, error) {
	a, err := addrPort(to)
	if err != nil {
		return 0, err
	}
	return d.us.send(p, a)
}

// AsyncWrite is Write: sending a datagram never waits. callback is called at once, with nil for the connection, as in
// gnet. Any goroutine.
func (d *datagram) AsyncWrite(p []byte, callback AsyncCallback) error {
	_, err := d.Write(p)
	if callback != nil {
		_ = callback(nil, nil)
	}
	return err
}

// Writev, AsyncWritev and ReadFrom have no meaning for datagrams: ErrUnsupportedOp.
func (d *datagram) Writev([][]byte) (int, error) { return 0, ErrUnsupportedOp }

// AsyncWritev is for streams: ErrUnsupportedOp.
func (d *datagram) AsyncWritev([][]byte, AsyncCallback) error { return ErrUnsupportedOp }

// ReadFrom is for streams: ErrUnsupportedOp.
func (d *datagram) ReadFrom(io.Reader) (int64, error) { return 0, ErrUnsupportedOp }

// Flush does nothing: datagrams do not wait.
func (d *datagram) Flush() error { return nil }

// OutboundBuffered is 0.
func (d *datagram) OutboundBuffered() int { return 0 }

// Context is nil for each datagram of a server; connected sockets keep theirs.
func (d *datagram) Context() any { return d.ctx }

// SetContext keeps a value for Context.
func (d *datagram) SetContext(ctx any) { d.ctx = ctx }

// SafeContext and SetSafeContext are as Context, for any goroutine.
func (d *datagram) SafeContext() any { return safeContext(&d.safe) }

// SetSafeContext keeps a value for SafeContext. Any goroutine.
func (d *datagram) SetSafeContext(ctx any) { d.safe.Store(&ctx) }

// LocalAddr is the server's address, or a connected socket's own. Any goroutine.
func (d *datagram) LocalAddr() net.Addr { return d.us.local }

// RemoteAddr is the peer's address. Any goroutine.
func (d *datagram) RemoteAddr() net.Addr { return d.remote }

// EventLoop is the loop of the socket. Any goroutine.
func (d *datagram) EventLoop() EventLoop { return d.us.el }

// Wake calls OnTraffic for a connected socket; a server's datagram is over when its handler returned. Any goroutine.
func (d *datagram) Wake(callback AsyncCallback) error {
	return d.us.el.onLoopThen(d, callback, func() error {
		if d.state != stateOpen {
			return nil
		}
		el := d.us.el
		action := el.handler.OnTraffic(d.self)
		d.data = nil
		el.depth = 0
		err := el.doDatagramAction(d, action)
		el.depth = 1 // for the callback
		return err
	})
}

// Close closes a connected socket, on the loop; a server's is not its peers' to close. Any goroutine.
func (d *datagram) Close() error { return d.CloseWithCallback(nil) }

// CloseWithCallback is Close that calls back.
func (d *datagram) CloseWithCallback(callback AsyncCallback) error {
	return d.us.el.onLoopThen(d, callback, func() error {
		d.us.el.depth = 0 // nothing of the handler runs
		err := d.us.close(d, nil)
		d.us.el.depth = 1 // for the callback
		return err
	})
}

// onLoopThen runs f on the loop and calls callback with its result.
func (el *eventloop) onLoopThen(d *datagram, callback AsyncCallback, f func() error) error {
	return ignoreEnd(el.tasks.push(task{kind: taskRun, run: func() {
		err := f()
		if callback != nil {
			_ = callback(d.self, err)
		}
	}}))
}

// SetDeadline and its kin: nothing waits for a datagram, so there is nothing to set, and nothing to take back with the
// zero time. ErrUnsupportedOp; for the zero time nil, but in exact gnet.
func (d *datagram) SetDeadline(t time.Time) error {
	if t.IsZero() && !d.us.el.exact {
		return nil
	}
	return ErrUnsupportedOp
}

// SetReadDeadline is SetDeadline: there is one answer for both directions.
func (d *datagram) SetReadDeadline(t time.Time) error { return d.SetDeadline(t) }

// SetWriteDeadline is SetDeadline: there is one answer for both directions.
func (d *datagram) SetWriteDeadline(t time.Time) error { return d.SetDeadline(t) }

// withFD calls f with the socket's descriptor, which is not closed meanwhile; net.ErrClosed once it is. Any goroutine.
func (d *datagram) withFD(f func(fd int) error) error {
	d.us.mu.RLock()
	defer d.us.mu.RUnlock()
	if d.us.fd < 0 {
		return net.ErrClosed
	}
	return f(d.us.fd)
}

// Fd is the socket's descriptor, which a server's peers share; -1 once it is closed, and on an offloaded ring. Any goroutine.
func (d *datagram) Fd() int {
	d.us.mu.RLock()
	defer d.us.mu.RUnlock()
	if d.us.out.on {
		return -1
	}
	return d.us.fd
}

// Dup is a copy of the descriptor, the caller's to close. On an offloaded ring it is ErrUnsupportedOp. Any goroutine.
func (d *datagram) Dup() (fd int, err error) {
	if err := d.us.noDescriptor("Dup"); err != nil {
		return -1, err
	}
	err = d.withFD(func(own int) error { fd, err = socket.Dup(own); return err })
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// SetReadBuffer sets SO_RCVBUF of the socket. Any goroutine, as the other setters.
func (d *datagram) SetReadBuffer(bytes int) error {
	return d.withFD(func(fd int) error { return socket.SetRecvBuffer(fd, bytes) })
}

// SetWriteBuffer sets SO_SNDBUF of the socket.
func (d *datagram) SetWriteBuffer(bytes int) error {
	return d.withFD(func(fd int) error { return socket.SetSendBuffer(fd, bytes) })
}

// SetLinger sets SO_LINGER, which has no effect on datagrams.
func (d *datagram) SetLinger(seconds int) error {
	return d.withFD(func(fd int) error { return socket.SetLinger(fd, seconds) })
}

// SetNoDelay fails as the kernel does: it is a TCP option.
func (d *datagram) SetNoDelay(on bool) error {
	return d.withFD(func(fd int) error { return socket.SetNoDelay(fd, boolToInt(on)) })
}

// SetKeepAlivePeriod and SetKeepAlive are TCP's: ErrUnsupportedOp.
func (d *datagram) SetKeepAlivePeriod(time.Duration) error { return ErrUnsupportedOp }

// SetKeepAlive is TCP's: ErrUnsupportedOp.
func (d *datagram) SetKeepAlive(bool, time.Duration, time.Duration, int) error {
	return ErrUnsupportedOp
}

// Destination is the address that the datagram was sent to.
func (d *datagram) Destination() netip.AddrPort {
	if d.done == nil {
		return netip.AddrPort{}
	}
	return d.done.Destination
}

// IfIndex is the interface that the datagram came by.
func (d *datagram) IfIndex() uint32 {
	if d.done == nil {
		return 0
	}
	return d.done.IfIndex
}

// Time is when the datagram came.
func (d *datagram) Time() ring.Stamp {
	if d.done == nil {
		return ring.Stamp{}
	}
	return d.done.Time
}

// Hold keeps the packet beyond the handler; the caller releases it.
func (d *datagram) Hold() buffers.Packet {
	p := d.pkt
	d.pkt = buffers.Packet{}
	return p
}

// Path is how the socket's datagrams travel, with the reasons.
func (d *datagram) Path() ring.Path { return d.us.socket.Path() }

// Socket is the server's socket, shared by all peers.
func (d *datagram) Socket() *xtreme.Socket { return d.us.socket }
