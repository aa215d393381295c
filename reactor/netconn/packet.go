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

	mu        sync.Mutex
	in, out   gate
	received  datagrams
	sending   datagrams
	failed    error // told by the next call, once
	suspended bool  // received is full: the ring is to stop until a reader has come
	stuck     bool  // the kernel's queue is full: the loop sends on when it is told of room
	closed    bool
	byUser    bool
	called    bool
	released  atomic.Bool

	// The loop's.
	socket *xtreme.Socket
	gone   bool
	halted bool       // the ring was told to stop reading
	taken  []datagram // of sending; taken[at:] is not sent yet
	at     int
}

var (
	_ net.PacketConn = (*PacketConn)(nil)
	_ net.Conn       = (*PacketConn)(nil)
)

// ListenPacket opens a UDP socket on "udp", "udp4" or "udp6" ("host:port", host may be empty). It is on one loop; the
// options are those of xtreme's OpenUDP: Join for multicast, LargestDatagram, ReceiveBuffer …
func (n *Network) ListenPacket(network, address string, opt ...xtreme.Option) (*PacketConn, error) {
	p, err := n.listenPacket(network, address, opt)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: textAddr{network, address}, Err: err}
	}
	return p, nil
}

func (n *Network) listenPacket(network, address string, opt []xtreme.Option) (p *PacketConn, err error) {
	fam, err := family(network, "udp")
	if err != nil {
		return nil, err
	}
	all, err := n.resolve(context.Background(), network, fam, address, true)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		options := opt
		if fam == "6" && a.Addr().IsUnspecified() {
			options = append([]xtreme.Option{xtreme.V6Only()}, opt...)
		}
		p, err = n.openUDP(network, a, options)
		if err == nil || !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EADDRNOTAVAIL) {
			break
		}
	}
	return p, err
}

// connectUDP opens a UDP socket that is connected to an address.
func (n *Network) connectUDP(network string, to netip.AddrPort, opt []xtreme.Option) (net.Conn, error) {
	p, err := n.openUDP(network, netip.AddrPort{}, append([]xtreme.Option{xtreme.Remote(to)}, opt...))
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.UDPAddrFromAddrPort(to), Err: err}
	}
	return p, nil
}

func (n *Network) openUDP(network string, local netip.AddrPort, opt []xtreme.Option) (*PacketConn, error) {
	l := n.pick()
	p := &PacketConn{loop: l, network: network}
	p.in.init(&p.mu)
	p.out.init(&p.mu)
	err := l.do(func() error {
		s, err := l.owner.OpenUDP(local, append(opt[:len(opt):len(opt)], l.hook)...)
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
		return nil, system(call, err)
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

// Path tells which kind of ring carries the socket and, for every better one, why not.
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

func (p *PacketConn) setDeadline(set func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.fail("set", net.ErrClosed)
	}
	set()
	return nil
}

// SetReadBuffer and SetWriteBuffer size the kernel's queues.
func (p *PacketConn) SetReadBuffer(bytes int) error {
	return p.set(func(s *xtreme.Socket) error { return s.SetReceiveBuffer(bytes) })
}

// SetWriteBuffer is described at SetReadBuffer.
func (p *PacketConn) SetWriteBuffer(bytes int) error {
	return p.set(func(s *xtreme.Socket) error { return s.SetSendBuffer(bytes) })
}

// SyscallConn gives access to the descriptor, as Conn.SyscallConn does.
func (p *PacketConn) SyscallConn() (syscall.RawConn, error) { return &rawConn{p.fail, p.onLoop}, nil }

func (p *PacketConn) set(f func(*xtreme.Socket) error) error {
	if err := p.onLoop(f); err != nil {
		return p.fail("set", system("setsockopt", err))
	}
	return nil
}

func (p *PacketConn) onLoop(f func(*xtreme.Socket) error) error {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	return p.loop.do(func() error {
		if p.gone {
			return ring.ErrClosed
		}
		return f(p.socket)
	})
}

// fail is an error of a call.
func (p *PacketConn) fail(op string, cause error) error {
	return errorOf(op, p.network, p.local, p.RemoteAddr(), cause)
}

// Close closes the socket: calls that wait return net.ErrClosed, and so does everything afterwards. Datagrams that were
// written go out first, as far as the kernel takes them at once.
func (p *PacketConn) Close() error {
	p.mu.Lock()
	if p.byUser {
		p.mu.Unlock()
		return p.fail("close", net.ErrClosed)
	}
	p.byUser = true
	p.mu.Unlock()
	p.end()
	return nil
}

// end closes the socket for whatever reason, once.
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
	p.callUnlock()
	p.released.Store(true)
	p.dropInHand()
}

// callUnlock unlocks mu and asks for the loop's attention, once until it has come.
func (p *PacketConn) callUnlock() {
	first := !p.called
	p.called = true
	p.mu.Unlock()
	if first {
		p.loop.call(p)
	}
}

// handle takes a completion. Loop only.
func (p *PacketConn) handle(e *xtreme.Completion) {
	switch {
	case e.Events.Has(xtreme.Closed):
		p.gone = true
		p.end()
		return
	case e.Events.Has(xtreme.Err):
		p.tell(e.Err, "recvmsg")
	}
	if e.Events.Has(xtreme.Out) {
		p.mu.Lock()
		p.stuck = false
		p.mu.Unlock()
		p.attend()
	}
}

// tell keeps an error for the next call. Loop only.
func (p *PacketConn) tell(cause error, call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = system(call, cause)
	}
	p.loop.woke(p.in.wake())
}

// attend does what other goroutines have left for the loop. Loop only.
func (p *PacketConn) attend() {
	p.mu.Lock()
	p.called = false
	if p.received.cost <= p.loop.net.config.ReceiveBuffer/2 {
		p.suspended = false
	}
	halt := p.suspended && !p.closed
	stuck := p.stuck
	p.mu.Unlock()
	if p.gone {
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
			p.tell(err, "recvmsg")
		}
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		p.gone = true
		if err := p.socket.Close(); ignoreClosed(err) != nil {
			p.loop.net.config.Logger.Warn("netconn: close", "local", p.local, "error", err)
		}
	}
}

// addrPort is an address given by the caller.
func (p *PacketConn) addrPort(a net.Addr) (netip.AddrPort, error) {
	u, ok := a.(*net.UDPAddr)
	if !ok || u == nil {
		return netip.AddrPort{}, fmt.Errorf("address %v: want a *net.UDPAddr: %w", a, unix.EINVAL)
	}
	ip := u.AddrPort()
	if !ip.IsValid() {
		return netip.AddrPort{}, &net.AddrError{Err: "missing address", Addr: u.String()}
	}
	return ip, nil
}

// check looks at what would fail later, when nobody is there to be told.
func (p *PacketConn) check(n int, to netip.AddrPort) error {
	ip := to.Addr().Unmap()
	limit := 1<<16 - 1 - 8 // RFC 768: the length field counts the header, too
	if p.ipv4 || ip.Is4() {
		limit -= 20 // RFC 791: the datagram is in one packet of 16 bits' length
	}
	switch {
	case n > limit:
		return os.NewSyscallError("sendto", unix.EMSGSIZE)
	case p.connected:
		return nil
	case !ip.IsValid():
		return &net.AddrError{Err: "missing address", Addr: to.String()}
	case p.ipv4 && !ip.Is4():
		return &net.AddrError{Err: "non-IPv4 address", Addr: ip.String()}
	case to.Port() == 0:
		return os.NewSyscallError("sendto", unix.EINVAL)
	}
	return nil
}
