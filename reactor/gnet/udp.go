package gnet

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// udpSocket is a UDP socket on a loop: a server's, with a datagram for each peer, or a connected one, with its own.
type udpSocket struct {
	el     *eventloop
	socket *xtreme.Socket
	local  net.Addr
	slot   uint32
	peers  peers // of a server's
	out    outbox
	connectedState

	mu     sync.RWMutex // guards sends of other goroutines against the closing of the descriptor
	fd     int          // -1 once closed
	family int
}

// datagram is the Conn of a UDP peer. It stays that of the same peer, so code that keeps it can write to the peer later; the received datagram
// is in it only while the handler runs.
type datagram struct {
	future //lint:ignore U1000 see future
	us     *udpSocket
	peer   netip.AddrPort // zero on connected sockets
	data   []byte
	pkt    buffers.Packet
	done   *xtreme.Completion // the completion that had the datagram
	self   Conn               // what the handler is given: the datagram itself, or on a connected socket its type connected
	ctx    any
	safe   atomic.Pointer[any]
	remote net.Addr
	state  state // of connected ones
}

// peers finds the datagram object of a peer without allocating: a four-way associative table. An object that is replaced is not used for another
// peer, because the program may have kept it.
type peers struct {
	table []*datagram
	turn  uint32 // counts the replacements: which way of a full set is replaced next
}

const (
	peerSets = 1024
	peerWays = 4
)

// peerOf returns the datagram object for a peer's address. It finds it in a table of 1,024 sets of four, or makes a new one, which replaces
// another of its set in turn if the set is full.
func (us *udpSocket) peerOf(a netip.AddrPort) *datagram {
	p := &us.peers
	if p.table == nil {
		p.table = make([]*datagram, peerSets*peerWays)
	}
	set := p.table[hashOf(a)%peerSets*peerWays:][:peerWays]
	for i, d := range set {
		if d == nil {
			set[i] = us.newPeer(a)
			return set[i]
		}
		if d.peer == a {
			return d
		}
	}
	p.turn++
	d := us.newPeer(a)
	set[p.turn%peerWays] = d
	return d
}

func (us *udpSocket) newPeer(a netip.AddrPort) *datagram {
	d := &datagram{us: us, peer: a, remote: netAddr(true, a)}
	d.self = d
	return d
}

// hashOf returns a hash of an address and port (the finaliser of splitmix64).
func hashOf(a netip.AddrPort) uint64 {
	b := a.Addr().As16()
	h := binary.LittleEndian.Uint64(b[:8]) ^ binary.LittleEndian.Uint64(b[8:])*0x9e3779b97f4a7c15 ^ uint64(a.Port())<<17
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// packet handles a received datagram: it delivers it to the handler, or keeps it while reading is suspended.
func (us *udpSocket) packet(done *xtreme.Completion) {
	el := us.el
	d := us.connectedPeer
	if el.stopping {
		drop(done) // the handler returned Shutdown, or the engine was stopped
		return
	}
	if d == nil {
		if el.exact {
			d = us.newPeer(done.Source)
		} else {
			d = us.peerOf(done.Source)
		}
	} else if d.state != stateOpen {
		drop(done)
		return
	} else {
		us.active()
		if us.suspended || len(us.withheld) > 0 {
			us.withheld = append(us.withheld, *done)
			done.Packet = buffers.Packet{}
			return
		}
	}
	us.deliver(d, done)
}

// deliver gives a datagram to the handler.
func (us *udpSocket) deliver(d *datagram, done *xtreme.Completion) {
	el := us.el
	d.pkt, d.done = done.Packet, done
	done.Packet = buffers.Packet{}
	d.data = d.pkt.Bytes()
	if action := us.traffic(d); action == Shutdown || us.connectedPeer != nil {
		_ = el.doDatagramAction(d, action) // a server's socket is not its peers' to close
	}
	if len(el.later)+len(el.dirty) > 0 || el.exiting {
		el.after()
	}
}

// traffic calls OnTraffic for a datagram. The packet does not belong to the completion any more, so the reactor, which contains a panic of
// the handler, would not release it: therefore releasePacket is deferred.
func (us *udpSocket) traffic(d *datagram) Action {
	el := us.el
	el.depth, el.current = 1, nil
	defer d.releasePacket()
	return el.handler.OnTraffic(d.self)
}

// releasePacket ends the handler's call for a datagram: it releases the packet, unless Hold has taken it from pkt. Of a server's socket the next
// datagram begins without a context.
func (d *datagram) releasePacket() {
	d.us.el.depth = 0
	release(d.pkt)
	d.pkt, d.data, d.done = buffers.Packet{}, nil, nil
	if d.us.connectedPeer == nil {
		d.ctx = nil
		if d.safe.Load() != nil {
			d.safe.Store(nil)
		}
	}
}

// event is everything but data: ICMP errors, which concern something that was sent, and the end.
func (us *udpSocket) event(done *xtreme.Completion) {
	if done.Events.Has(xtreme.EventOut) {
		us.onWritable()
	}
	switch {
	case done.Events.Has(xtreme.EventPacket):
		us.packet(done)
	case done.Events.Has(xtreme.EventClosed):
		if us.connectedPeer != nil && us.connectedPeer.state == stateOpen {
			_ = us.close(us.connectedPeer, ErrHandlerPanic)
		}
		us.el.after() // OnClose, should it still wait: then the slot may be another's
		us.el.vacate(us.slot)
	case done.Err == nil:
	case us.connectedPeer == nil:
		us.el.eng.log.Debugf("UDP %v: %v", us.local, done.Err)
	case us.connectedPeer.state != stateOpen:
	case us.el.exact:
		_ = us.close(us.connectedPeer, io.EOF) // gnet takes every EPOLLERR for the end
	default:
		us.keepError(callError("write", done.Err))
	}
	us.el.after()
}

// open calls OnOpen for a connected socket.
func (us *udpSocket) open() {
	el, d := us.el, us.connectedPeer
	d.state = stateOpen
	el.count.Add(1)
	if t := el.eng.opts.IdleTimeout; t > 0 {
		us.startIdle(t)
	}
	el.depth, el.current = 1, nil
	out, action := el.handler.OnOpen(d.self)
	el.depth = 0
	if out != nil {
		_, _ = d.Write(out) // as lost as any datagram
	}
	_ = el.doDatagramAction(d, action)
	el.after()
}

// doDatagramAction is doAction for connected UDP sockets.
func (el *eventloop) doDatagramAction(d *datagram, action Action) error {
	if action == Close {
		return d.us.close(d, nil)
	}
	return el.doAction(nil, action)
}

// close closes a connected socket; if a handler is running, when it returns, except in exact gnet.
func (us *udpSocket) close(d *datagram, why error) error {
	el := us.el
	if d != us.connectedPeer || d.state != stateOpen {
		return nil
	}
	if el.depth > 0 && !el.exact {
		d.state, us.why = stateCloseDeferred, why
		el.later = append(el.later, streamOrDatagram{d: us})
		return nil
	}
	d.state = stateClosing
	el.count.Add(-1)
	el.assigned.Add(-1)
	if us.closed(d, why) == Shutdown {
		return el.doAction(nil, Shutdown)
	}
	return nil
}

// closed calls OnClose and finishes, also when that panics.
func (us *udpSocket) closed(d *datagram, why error) Action {
	el, depth := us.el, us.el.depth
	el.depth = depth + 1
	defer func() {
		el.depth = depth
		us.finish(d)
	}()
	return el.handler.OnClose(d.self, why)
}

// finish closes the socket after OnClose has returned. In exact gnet an OnTraffic may still be running: its packet is released by
// releasePacket.
func (us *udpSocket) finish(d *datagram) {
	el := us.el
	us.watchIdle(0)
	us.invalidateFD()
	if err := us.socket.Close(); err != nil && !isClosed(err) {
		el.eng.log.Warnf("closing UDP %v: %v", us.local, err)
	}
	us.dropWithheld()
	d.data, d.ctx = nil, nil
	d.safe.Store(nil)
	d.state = stateClosed
}

// invalidateFD makes calls of other goroutines on the descriptor fail, before it is closed.
func (us *udpSocket) invalidateFD() {
	us.mu.Lock()
	defer us.mu.Unlock()
	us.fd = -1
}

// closeReason returns why the loop cannot send any more: the error for which a connected socket was closed, or net.ErrClosed. Loop only.
func (us *udpSocket) closeReason() error {
	switch {
	case us.connectedPeer != nil && us.connectedPeer.state == stateCloseDeferred && us.why != nil:
		return us.why
	case us.connectedPeer != nil && us.connectedPeer.state == stateCloseDeferred, us.fd < 0: // the loop alone changes it
		return net.ErrClosed
	}
	return nil
}

// send sends a datagram: on the loop by the ring; on another goroutine by the descriptor, which is guarded against being closed meanwhile,
// or, on an offloaded ring, by the loop (queueForLoop). On a connected socket it first returns an ICMP error that has arrived.
func (us *udpSocket) send(p []byte, to netip.AddrPort) (n int, err error) {
	onLoop := us.el.onLoop()
	if onLoop {
		if err := us.closeReason(); err != nil {
			return 0, err
		}
	}
	if us.connectedPeer != nil {
		us.active()
		if !to.IsValid() {
			if err := us.takeError(); err != nil {
				return 0, err
			}
		}
	}
	if onLoop {
		if to.IsValid() {
			return us.socket.SendTo(p, to)
		}
		return us.socket.Send(p)
	}
	us.mu.RLock()
	defer us.mu.RUnlock()
	if us.fd < 0 {
		return 0, net.ErrClosed
	}
	if !to.IsValid() {
		return sendResult(sys.Send(us.fd, p, 0))
	}
	var a sys.Sockaddr
	if err := a.Set(to, us.family); err != nil {
		return 0, err
	}
	if us.out.on {
		return us.queueForLoop(p, to)
	}
	return sendResult(sys.SendTo(us.fd, p, &a))
}

// sendResult converts the results of a send system call.
func sendResult(n int, e unix.Errno) (int, error) {
	if e != 0 {
		return 0, e
	}
	return n, nil
}

// addrPort returns IP address and port of a net.Addr of any kind that has them.
func addrPort(a net.Addr) (netip.AddrPort, error) {
	var ip net.IP
	var port int
	var zone string
	switch a := a.(type) {
	case *net.UDPAddr:
		if a == nil {
			return netip.AddrPort{}, ErrInvalidNetworkAddress
		}
		ip, port, zone = a.IP, a.Port, a.Zone
	case *net.TCPAddr:
		if a == nil {
			return netip.AddrPort{}, ErrInvalidNetworkAddress
		}
		ip, port, zone = a.IP, a.Port, a.Zone
	default:
		return netip.AddrPort{}, ErrInvalidNetworkAddress
	}
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.AddrPort{}, ErrInvalidNetworkAddress
	}
	return netip.AddrPortFrom(addr.Unmap().WithZone(zone), uint16(port)), nil
}
