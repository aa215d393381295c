package netconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// PacketConn is a UDP socket on a ring: a net.PacketConn, and a net.Conn when it was dialled, with the AddrPort calls of
// *net.UDPConn, which allocate nothing. Any goroutine may call any method at any time.
//
// Datagrams are queued for sending; that one could not be sent, or that a peer of a connected socket refused one (ICMP), is
// told once, by the next call.
type PacketConn struct {
	loop      *loop
	network   string
	local     *net.UDPAddr
	remote    *net.UDPAddr // nil: not connected
	connected bool
	ipv4      bool // reaches IPv4 only
	path      xtreme.Path

	reading sync.Mutex // held during a read
	inHand  []datagram
	handAt  int

	mu          sync.Mutex
	in, out     gate
	received    datagrams
	sending     datagrams
	failed      failure // an error that the next call returns, once
	suspended   bool    // received is full: the ring is to stop until a reader has come
	stuck       bool    // the kernel's queue is full: the loop sends on when it is notified of room
	closed      bool
	closeCalled bool
	called      bool
	released    atomic.Bool

	// The loop's.
	socket       *xtreme.Socket
	socketClosed bool
	halted       bool       // reading was suspended at the ring
	taken        []datagram // of sending; taken[at:] is not sent yet
	at           int
}

var (
	_ net.PacketConn = (*PacketConn)(nil)
	_ net.Conn       = (*PacketConn)(nil)
)

// ListenPacket opens a UDP socket on "udp", "udp4" or "udp6" ("host:port", host may be empty). It is on one loop.
func (n *Network) ListenPacket(network, address string) (*PacketConn, error) {
	return n.ListenUDP(network, address, xtreme.UDPConfig{})
}

// ListenUDP is ListenPacket with a configuration: Groups for multicast, LargestDatagram, ReceiveBuffer … Broadcast is on, as package net has it.
// ReceiveMode, ReceiveCallback and UserData are the Network's.
func (n *Network) ListenUDP(network, address string, c xtreme.UDPConfig) (*PacketConn, error) {
	p, at, err := n.listenPacket(network, address, c)
	if err != nil {
		return nil, errorOf("listen", network, nil, at, err)
	}
	return p, nil
}

// listenPacket opens a UDP socket. With an error it also returns the address that the error is about, if it is known.
func (n *Network) listenPacket(network, address string, c xtreme.UDPConfig) (p *PacketConn, at net.Addr, err error) {
	fam, err := family(network, "udp")
	if err != nil {
		at, err = otherKind(err, network, "tcp", address)
		return nil, at, err
	}
	all, err := n.resolve(context.Background(), network, fam, address, toListen)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range all {
		at = net.UDPAddrFromAddrPort(listenedAddr(a, address))
		c := c
		c.V6Only = c.V6Only || fam == "6" && a.Addr().IsUnspecified()
		p, err = n.openUDP(network, a, c)
		if err == nil || !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EADDRNOTAVAIL) {
			break
		}
	}
	return p, at, err
}

// connectUDP opens a UDP socket that is connected to an address.
func (n *Network) connectUDP(network string, to netip.AddrPort, c xtreme.UDPConfig) (net.Conn, error) {
	c.Remote = to
	p, err := n.openUDP(network, netip.AddrPort{}, c)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.UDPAddrFromAddrPort(to), Err: err}
	}
	return p, nil
}

// openUDP opens a UDP socket on the next loop, for dialling and listening.
func (n *Network) openUDP(network string, local netip.AddrPort, c xtreme.UDPConfig) (*PacketConn, error) {
	if err := refuseReserved(&c.SocketConfig, nil); err != nil {
		return nil, err
	}
	l := n.pick()
	p := &PacketConn{loop: l, network: network}
	p.in.init(&p.mu)
	p.out.init(&p.mu)
	c.Broadcast, c.ReceiveCallback = true, l.receive // broadcast as package net
	err := l.do(func() error {
		s, err := l.poller.OpenUDP(local, c)
		if err != nil {
			return err
		}
		p.socket = s
		p.path = s.Path()
		p.local = net.UDPAddrFromAddrPort(s.LocalAddr())
		p.ipv4 = s.LocalAddr().Addr().Is4()
		if r := s.RemoteAddr(); r.IsValid() {
			p.connected = true
			p.remote = net.UDPAddrFromAddrPort(r)
		}
		l.add(s, endpoint{packets: p})
		return nil
	})
	if err != nil {
		call := "bind"
		if !local.IsValid() {
			call = "connect"
		}
		return nil, asNetError(call, err)
	}
	return p, nil
}

// LocalAddr is the local address, a *net.UDPAddr.
func (p *PacketConn) LocalAddr() net.Addr { return p.local }

// RemoteAddr is the peer of a connected socket, a *net.UDPAddr; nil without one.
func (p *PacketConn) RemoteAddr() net.Addr {
	if p.remote == nil {
		return nil
	}
	return p.remote
}

// Path reports which kind of ring carries the socket and, for every better one, why not.
func (p *PacketConn) Path() xtreme.Path { return p.path }

// SetDeadline sets the read and the write deadline, as Conn.SetDeadline does.
func (p *PacketConn) SetDeadline(t time.Time) error {
	return p.setDeadline(func() { p.in.set(t); p.out.set(t) })
}

// SetReadDeadline is SetDeadline for reading.
func (p *PacketConn) SetReadDeadline(t time.Time) error {
	return p.setDeadline(func() { p.in.set(t) })
}

// SetWriteDeadline is SetDeadline for writing.
func (p *PacketConn) SetWriteDeadline(t time.Time) error {
	return p.setDeadline(func() { p.out.set(t) })
}

// setDeadline calls set, which sets a deadline, with mu held; a closed socket is an error.
func (p *PacketConn) setDeadline(set func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.fail("set", net.ErrClosed)
	}
	set()
	return nil
}

// SetReadBuffer sizes the kernel's receive queue, in bytes; Config.ReceiveBuffer is this package's own.
func (p *PacketConn) SetReadBuffer(bytes int) error {
	return p.set(func(s *xtreme.Socket) error { return s.SetReceiveBuffer(bytes) })
}

// SetWriteBuffer sizes the kernel's send queue, in bytes; Config.SendBuffer is this package's own.
func (p *PacketConn) SetWriteBuffer(bytes int) error {
	return p.set(func(s *xtreme.Socket) error { return s.SetSendBuffer(bytes) })
}

// SyscallConn gives access to the descriptor by Control, as Conn.SyscallConn does. Read and Write are refused: the ring reads and
// writes the socket, and would know nothing of it.
func (p *PacketConn) SyscallConn() (syscall.RawConn, error) {
	return &rawConn{p.fail, p.onLoop, nil}, nil
}

// set changes an option of the socket, on its loop, and waits for that.
func (p *PacketConn) set(f func(*xtreme.Socket) error) error {
	if err := p.onLoop(f); err != nil {
		return p.fail("set", asNetError("setsockopt", err))
	}
	return nil
}

// onLoop calls f with the socket on its loop and waits for it; net.ErrClosed if it is closed.
func (p *PacketConn) onLoop(f func(*xtreme.Socket) error) error {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	return p.loop.do(func() error {
		if p.socketClosed {
			return ring.ErrClosed
		}
		return f(p.socket)
	})
}

// fail makes the *net.OpError that a call returns.
func (p *PacketConn) fail(op string, cause error) error {
	return errorOf(op, p.network, p.local, p.RemoteAddr(), cause)
}

// failTo is fail for a datagram that has a destination of its own.
func (p *PacketConn) failTo(op string, to netip.AddrPort, cause error) error {
	if p.connected || !to.IsValid() {
		return p.fail(op, cause)
	}
	return errorOf(op, p.network, p.local, net.UDPAddrFromAddrPort(to), cause)
}

// Close closes the socket: calls that wait return net.ErrClosed, and so do all later ones. Datagrams that were written are given to the
// kernel before, as many as it takes at once.
func (p *PacketConn) Close() error {
	p.mu.Lock()
	if p.closeCalled {
		p.mu.Unlock()
		return p.fail("close", net.ErrClosed)
	}
	p.closeCalled = true
	p.mu.Unlock()
	p.end()
	_ = p.loop.do(func() error { return nil }) // it runs behind serveCalls, which sends and closes; after the loop's end there is nothing left
	return nil
}

// end closes the socket, by its user or by the loop; only the first call has an effect. Waiting calls return.
func (p *PacketConn) end() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.received.drop()
	p.in.wakeAll()
	p.out.wakeAll()
	p.in.stop()
	p.out.stop()
	p.unlockAndCall()
	p.released.Store(true)
	p.dropInHand()
}

// needsLoop notes that the loop has something to do for the socket, and reports whether the caller must put it on the loop's list, which is
// so once until the loop has served it. With mu held.
func (p *PacketConn) needsLoop() bool {
	first := !p.called
	p.called = true
	return first
}

// unlockAndCall unlocks mu and puts the socket on the loop's list.
func (p *PacketConn) unlockAndCall() {
	first := p.needsLoop()
	p.mu.Unlock()
	if first {
		p.loop.call(p)
	}
}

// handle handles a completion of the socket. Loop only.
func (p *PacketConn) handle(e *xtreme.Completion) {
	switch {
	case e.Events.Has(xtreme.EventClosed):
		p.socketClosed = true
		p.end()
		p.dropUnsent()
		return
	case e.Events.Has(xtreme.EventErr):
		p.keepError(failure{err: e.Err})
	}
	if e.Events.Has(xtreme.EventOut) {
		p.mu.Lock()
		p.stuck = false
		p.mu.Unlock()
		p.serveCalls()
	}
}

// failure is an error that the next call returns.
type failure struct {
	err  error
	call string         // system call that had it; "": that of the next call
	to   netip.AddrPort // where the datagram was to go, of a socket without a peer
}

// keepError keeps an error, such as one of ICMP, for the next call. Loop only.
func (p *PacketConn) keepError(f failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed.err == nil {
		p.failed = f
	}
	p.loop.noteWoken(p.in.wake())
}

// takeError returns the error that was kept, as an error of the system call that the present call stands for, and forgets it. With mu held.
func (p *PacketConn) takeError(op, call string) error {
	f := p.failed
	p.failed = failure{}
	if f.call != "" {
		call = f.call
	}
	return p.failTo(op, f.to, asNetError(call, f.err))
}

// serveCalls does what other goroutines want done on the loop: send queued datagrams, read on, close. Loop only.
func (p *PacketConn) serveCalls() {
	p.mu.Lock()
	p.called = false
	if p.received.cost <= p.loop.net.config.ReceiveBuffer/2 {
		p.suspended = false
	}
	closed := p.closed // now: what was written before is sent below, and when it comes meanwhile it has called the loop again
	halt := p.suspended && !closed
	stuck := p.stuck
	p.mu.Unlock()
	if p.socketClosed {
		return
	}
	if !stuck {
		p.flush()
	}
	if halt != p.halted {
		p.halted = halt
		change := p.socket.Resume
		if halt {
			change = p.socket.Suspend
		}
		if err := change(); ignoreClosed(err) != nil {
			p.keepError(failure{err: err})
		}
	}
	if closed {
		p.socketClosed = true
		p.dropUnsent()
		if err := p.socket.Close(); ignoreClosed(err) != nil {
			p.loop.net.config.Logger.Warn("netconn: close", "local", p.local, "error", err)
		}
	}
}

// dropUnsent drops the datagrams that the kernel has not taken. Loop only.
func (p *PacketConn) dropUnsent() {
	for ; p.at < len(p.taken); p.at++ {
		release(p.taken, p.at)
	}
	p.taken, p.at = nil, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending.drop()
}

// addrPort converts an address that the caller gave.
func (p *PacketConn) addrPort(a net.Addr) (netip.AddrPort, error) {
	u, ok := a.(*net.UDPAddr)
	if !ok || u == nil {
		return netip.AddrPort{}, fmt.Errorf("address %v: want a *net.UDPAddr: %w", a, unix.EINVAL)
	}
	if len(u.IP) == 0 { // as package net: the loopback, which the kernel takes the unspecified address for
		return netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(u.Port)), nil
	}
	ip := u.AddrPort()
	if !ip.IsValid() {
		return netip.AddrPort{}, &net.AddrError{Err: "invalid address", Addr: u.String()}
	}
	return ip, nil
}

// target returns an address in the family of the socket: on one for both families 0.0.0.0 becomes [::].
func (p *PacketConn) target(to netip.AddrPort) netip.AddrPort {
	if !p.ipv4 && to.Addr().Unmap() == netip.IPv4Unspecified() {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), to.Port())
	}
	return to
}

// checkSend returns the error with which sending a datagram would fail later on the loop, where no caller could receive it.
func (p *PacketConn) checkSend(n int, to netip.AddrPort, call string) error {
	ip := to.Addr().Unmap()
	limit := 1<<16 - 1 - 8 // RFC 768: the length field counts the header, too
	if p.ipv4 || ip.Is4() {
		limit -= 20 // RFC 791: the datagram is in one packet of 16 bits' length
	}
	switch {
	case n > limit:
		return os.NewSyscallError(call, unix.EMSGSIZE)
	case p.connected:
		return nil
	case !ip.IsValid():
		return &net.AddrError{Err: "missing address", Addr: to.String()}
	case p.ipv4 && !ip.Is4():
		return &net.AddrError{Err: "non-IPv4 address", Addr: ip.String()}
	case to.Port() == 0:
		return os.NewSyscallError(call, unix.EINVAL)
	}
	return nil
}
