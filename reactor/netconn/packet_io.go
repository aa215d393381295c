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

// receive takes a datagram inside the ring's Poll, and reports whether it keeps the packet's buffer. As for streams a short datagram is
// copied, a long one lent. Loop only.
func (p *PacketConn) receive(packet buffers.Packet, from netip.AddrPort) (kept bool) {
	kept, call := p.receiveLocked(packet, from)
	if call {
		p.loop.call(p)
	}
	return kept
}

// receiveLocked is receive with mu held; call says that the socket must be put on the loop's list, to suspend reading because the queue is
// full.
func (p *PacketConn) receiveLocked(packet buffers.Packet, from netip.AddrPort) (kept, call bool) {
	n := packet.Len()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false, false
	}
	if !p.suspended && p.loop.mayLend(n) {
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
	p.loop.noteWoken(p.in.wake())
	return kept, suspend && p.needsLoop()
}

// Read reads one datagram; what b has no room for is lost. As with package net an empty b takes none, and does not wait;
// ReadFrom does.
func (p *PacketConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		if p.isClosed() {
			return 0, p.fail("read", net.ErrClosed)
		}
		return 0, nil
	}
	n, _, err := p.read(b, "read")
	return n, err
}

func (p *PacketConn) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// ReadFrom is Read with the sender's address, a *net.UDPAddr.
func (p *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.read(b, "recvfrom")
	if err != nil {
		return n, nil, err
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

// ReadFromUDPAddrPort is ReadFrom without allocating. An IPv4 sender is an IPv4 address on every socket.
func (p *PacketConn) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	return p.read(b, "recvfrom")
}

// read reads one datagram; call is the system call that it stands for, for errors.
func (p *PacketConn) read(b []byte, call string) (n int, from netip.AddrPort, err error) {
	defer func() {
		if p.released.Load() {
			p.dropInHand()
		}
	}()
	p.reading.Lock()
	defer p.reading.Unlock()
	if err := p.fetch(call); err != nil {
		return 0, netip.AddrPort{}, err
	}
	d := &p.inHand[p.handAt]
	n, from = d.copyTo(b), d.peer
	release(p.inHand, p.handAt)
	p.handAt++
	return n, from, nil
}

// fetch waits until there is a datagram in inHand.
func (p *PacketConn) fetch(call string) error {
	wake, err := p.fetchLocked(call)
	if wake {
		p.loop.call(p)
	}
	return err
}

// fetchLocked is fetch with mu held; wake says that the socket must be put on the loop's list, to resume reading.
func (p *PacketConn) fetchLocked(call string) (wake bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return false, p.fail("read", net.ErrClosed)
		case p.in.expired():
			return false, p.fail("read", os.ErrDeadlineExceeded)
		case p.handAt < len(p.inHand):
			return false, nil
		case len(p.received.list) > 0:
			p.inHand, p.handAt = p.received.take(p.inHand), 0
			return p.suspended && p.needsLoop(), nil // a ring that was stopped because the queue was full may go on
		case p.failed.err != nil:
			return false, p.takeError("read", call)
		}
		p.in.wait()
	}
}

// dropInHand releases the datagrams in inHand when the socket is closed, unless a reader is using them, who does it then.
func (p *PacketConn) dropInHand() {
	if p.reading.TryLock() {
		for p.handAt < len(p.inHand) {
			release(p.inHand, p.handAt)
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
	return p.write(b, netip.AddrPort{}, "write")
}

// WriteTo queues a datagram for an address, a *net.UDPAddr; without an IP it is the loopback's. On a connected socket it is
// net.ErrWriteToConnected.
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
	return p.write(b, to, "sendto")
}

// write queues one datagram; call is the system call that it stands for, for errors.
func (p *PacketConn) write(b []byte, to netip.AddrPort, call string) (int, error) {
	wake, err := p.enqueue(b, to, call)
	if wake {
		p.loop.call(p)
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// enqueue waits until the queue has room, and copies the datagram into it. wake: the caller must put the socket on the loop's list, without mu.
func (p *PacketConn) enqueue(b []byte, to netip.AddrPort, call string) (wake bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return false, p.failTo("write", to, net.ErrClosed)
		case p.out.expired():
			return false, p.failTo("write", to, os.ErrDeadlineExceeded)
		}
		if err := p.checkSend(len(b), to, call); err != nil {
			return false, p.failTo("write", to, err)
		}
		if p.failed.err != nil {
			return false, p.takeError("write", call)
		}
		if p.sending.cost < p.loop.net.config.SendBuffer {
			copy(p.sending.reserve(len(b), p.target(to)), b)
			return !p.stuck && p.needsLoop(), nil
		}
		p.out.wait()
	}
}

// flush sends the datagrams that were queued before the call. Later ones have put the socket on the loop's list again and are sent in another
// turn, so that writers that are as fast as the kernel do not hold up the loop. Loop only.
func (p *PacketConn) flush() {
	if p.sendTaken(); p.at < len(p.taken) {
		return
	}
	p.mu.Lock()
	p.taken, p.at = p.sending.take(p.taken), 0
	p.loop.noteWoken(p.out.wakeAll())
	p.mu.Unlock()
	p.sendTaken()
}

// sendTaken sends datagrams of the batch that flush has taken, until the kernel has no room.
func (p *PacketConn) sendTaken() {
	for p.at < len(p.taken) {
		d := &p.taken[p.at]
		var err error
		call := "write"
		if p.connected {
			_, err = p.socket.Send(d.bytes())
		} else {
			_, err = p.socket.SendTo(d.bytes(), d.peer)
			call = "sendto"
		}
		if errors.Is(err, ring.ErrWouldBlock) {
			p.mu.Lock()
			p.stuck = true
			p.mu.Unlock()
			return
		}
		if err != nil {
			p.keepError(failure{err, call, d.peer})
		}
		release(p.taken, p.at)
		p.at++
	}
}
