package netconn

import (
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// receive takes a datagram from the ring, inside its Poll, and tells whether it keeps the buffer. What is copied rather than
// lent is as for streams. Loop only.
func (p *PacketConn) receive(packet buffers.Packet, from netip.AddrPort) (kept bool) {
	n := packet.Len()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return false
	}
	if !p.suspended && p.loop.lends(n) {
		if l, err := packet.Lend(); err == nil {
			p.received.lend(l, n, from)
			kept = true
		}
	}
	if !kept {
		packet.CopyTo(p.received.reserve(n, from))
	}
	suspend := p.received.cost > p.loop.net.config.ReceiveBuffer && !p.suspended
	p.suspended = p.suspended || suspend
	p.loop.woke(p.in.wake())
	if suspend {
		p.callUnlock()
	} else {
		p.mu.Unlock()
	}
	return kept
}

// Read reads one datagram; what b has no room for is lost.
func (p *PacketConn) Read(b []byte) (int, error) {
	n, _, err := p.read(b)
	return n, err
}

// ReadFrom is Read with the sender's address, a *net.UDPAddr.
func (p *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.read(b)
	if err != nil {
		return n, nil, err
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

// ReadFromUDPAddrPort is ReadFrom without allocating. An IPv4 sender is an IPv4 address on every socket.
func (p *PacketConn) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) { return p.read(b) }

func (p *PacketConn) read(b []byte) (int, netip.AddrPort, error) {
	p.reading.Lock()
	var n int
	var from netip.AddrPort
	err := p.fetch()
	if err == nil {
		d := &p.inHand[p.handAt]
		n, from = d.copyTo(b), d.peer
		done(p.inHand, p.handAt)
		p.handAt++
	}
	p.reading.Unlock()
	if p.released.Load() {
		p.dropInHand()
	}
	if err != nil {
		return 0, netip.AddrPort{}, p.fail("read", err)
	}
	return n, from, nil
}

// fetch waits until a datagram is in hand.
func (p *PacketConn) fetch() error {
	p.mu.Lock()
	for {
		switch {
		case p.closed:
			p.mu.Unlock()
			return net.ErrClosed
		case p.in.expired():
			p.mu.Unlock()
			return os.ErrDeadlineExceeded
		case p.handAt < len(p.inHand):
			p.mu.Unlock()
			return nil
		case len(p.received.list) > 0:
			p.inHand, p.handAt = p.received.take(p.inHand), 0
			if p.suspended {
				p.callUnlock()
				return nil
			}
		case p.failed != nil:
			err := p.failed
			p.failed = nil
			p.mu.Unlock()
			return err
		default:
			p.in.wait()
		}
	}
}

func (p *PacketConn) dropInHand() {
	if p.reading.TryLock() {
		for p.handAt < len(p.inHand) {
			done(p.inHand, p.handAt)
			p.handAt++
		}
		p.inHand, p.handAt = nil, 0
		p.reading.Unlock()
	}
}

// Write queues a datagram for the peer of a connected socket.
func (p *PacketConn) Write(b []byte) (int, error) {
	if !p.connected {
		return 0, p.fail("write", os.NewSyscallError("write", unix.EDESTADDRREQ))
	}
	return p.write(b, netip.AddrPort{})
}

// WriteTo queues a datagram for an address, a *net.UDPAddr. On a connected socket it is net.ErrWriteToConnected.
func (p *PacketConn) WriteTo(b []byte, to net.Addr) (int, error) {
	a, err := p.addrPort(to)
	if err != nil {
		return 0, errorOf("write", p.network, p.local, to, err)
	}
	return p.WriteToUDPAddrPort(b, a)
}

// WriteToUDPAddrPort is WriteTo without allocating.
func (p *PacketConn) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	if p.connected {
		return 0, p.fail("write", net.ErrWriteToConnected)
	}
	return p.write(b, to)
}

func (p *PacketConn) write(b []byte, to netip.AddrPort) (int, error) {
	if err := p.check(len(b), to); err != nil {
		return 0, p.fail("write", err)
	}
	p.mu.Lock()
	for {
		var err error
		switch {
		case p.closed:
			err = net.ErrClosed
		case p.out.expired():
			err = os.ErrDeadlineExceeded
		case p.failed != nil:
			err = p.failed
			p.failed = nil
		case p.sending.cost >= p.loop.net.config.SendBuffer:
			p.out.wait()
			continue
		}
		if err != nil {
			p.mu.Unlock()
			return 0, p.fail("write", err)
		}
		copy(p.sending.reserve(len(b), to), b)
		if p.stuck {
			p.mu.Unlock()
		} else {
			p.callUnlock()
		}
		return len(b), nil
	}
}

// flush sends what was written. Loop only.
func (p *PacketConn) flush() {
	for !p.gone {
		if p.at == len(p.taken) {
			p.mu.Lock()
			p.taken, p.at = p.sending.take(p.taken), 0
			p.loop.woke(p.out.wakeAll())
			p.mu.Unlock()
			if len(p.taken) == 0 {
				return
			}
		}
		d := &p.taken[p.at]
		var err error
		if p.connected {
			_, err = p.socket.Send(d.bytes())
		} else {
			_, err = p.socket.SendTo(d.bytes(), d.peer)
		}
		if errors.Is(err, ring.ErrWouldBlock) {
			p.mu.Lock()
			p.stuck = true
			p.mu.Unlock()
			return
		}
		if err != nil {
			p.tell(err, "sendto")
		}
		done(p.taken, p.at)
		p.at++
	}
}
