package gnet

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/socket"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// acceptor is one listener, or UDP socket, of one loop.
type acceptor struct {
	*endpoint
	el      *eventloop
	socket  *xtreme.Socket
	network string   // "tcp", "udp" or "unix"
	local   net.Addr // what its connections say is theirs
	udp     *udpSocket

	mu   sync.Mutex // guards Dup against the closing of the descriptor
	shut bool
}

// listen binds an endpoint on a loop, before it runs. The endpoint's port is fixed by the first loop.
func (el *eventloop) listen(e *endpoint) (*acceptor, error) {
	a := &acceptor{endpoint: e, el: el}
	var err error
	switch {
	case e.udp():
		err = a.listenUDP()
	case e.unix():
		err = a.listenUnix()
	default:
		err = a.listenTCP()
	}
	if err != nil {
		return nil, fmt.Errorf("gnet: listen on %s://%s: %w", e.network, e.address, err)
	}
	el.acceptors = append(el.acceptors, a)
	if local := a.socket.LocalAddr(); local.IsValid() {
		e.bind = netip.AddrPortFrom(e.bind.Addr(), local.Port())
	}
	return a, nil
}

func (a *acceptor) listenTCP() error {
	a.network = "tcp"
	delay := a.el.eng.opts.TCPNoDelay != TCPNoDelay
	if e := a.el.poller.Engine(); delay && e.Settings().NoDelay {
		e.SettingUnused("VMA_TCP_NODELAY", "a server has the option TCPDelay, which comes before it")
	}
	c := xtreme.ListenConfig{IPConfig: a.ipConfig(), NoDelay: xtreme.On, LargeStream: a.el.largeStream()}
	if delay {
		c.NoDelay = xtreme.Off // also where a setting says otherwise
	}
	c.UserData, c.AcceptTo = a.el.addListener(a)
	c.SendBuffer = a.sendBuffer()
	s, err := a.el.poller.ListenTCP(a.bind, c)
	if err != nil {
		return err
	}
	a.socket = s
	a.local = &net.TCPAddr{IP: a.ip(), Port: int(s.LocalAddr().Port()), Zone: a.bind.Addr().Zone()}
	o := a.el.eng.opts
	if o.TCPKeepAlive > 0 {
		return setKeepAlive(s.ID(), o) // the connections inherit it
	}
	return nil
}

func (a *acceptor) listenUnix() error {
	a.network = "unix"
	if err := a.el.eng.unlink(a.address); err != nil {
		return err
	}
	c := xtreme.UnixListenConfig{LargeStream: a.el.largeStream()}
	c.UserData, c.AcceptTo = a.el.addListener(a)
	s, err := a.el.poller.ListenUnix(a.address, c)
	if err != nil {
		return err
	}
	a.socket = s
	a.local = &net.UnixAddr{Net: "unix", Name: a.address}
	return nil
}

func (a *acceptor) listenUDP() error {
	a.network = "udp"
	o := a.el.eng.opts
	c := xtreme.UDPConfig{IPConfig: a.ipConfig(), Broadcast: true, LargestDatagram: o.largestDatagram()}
	if a.bind.Addr().IsMulticast() && o.MulticastInterfaceIndex > 0 {
		device, err := net.InterfaceByIndex(o.MulticastInterfaceIndex)
		if err != nil {
			return fmt.Errorf("option MulticastInterfaceIndex %d: %w", o.MulticastInterfaceIndex, err)
		}
		c.Groups = []xtreme.Group{{Interface: device.Name}}
	}
	a.udp = &udpSocket{el: a.el}
	a.udp.slot = a.el.admit(streamOrDatagram{d: a.udp})
	c.UserData, c.SendBuffer = xtreme.Ptr(uint64(a.udp.slot)), a.sendBuffer()
	s, err := a.el.poller.OpenUDP(a.bind, c)
	if err != nil {
		return err
	}
	a.socket = s
	a.local = &net.UDPAddr{IP: a.ip(), Port: int(s.LocalAddr().Port()), Zone: a.bind.Addr().Zone()}
	a.udp.socket, a.udp.local, a.udp.fd, a.udp.family = s, a.local, s.ID(), sys.Family(a.bind.Addr())
	a.udp.openOutbox()
	return nil
}

// ip is the address as gnet shows it: none for a wildcard.
func (a *acceptor) ip() net.IP {
	if a.bind.Addr().IsUnspecified() {
		host, _, err := net.SplitHostPort(a.address)
		if err == nil && host == "" {
			return nil
		}
	}
	return a.bind.Addr().WithZone("").AsSlice()
}

// ipConfig is what IP listeners of both kinds are made with.
func (a *acceptor) ipConfig() xtreme.IPConfig {
	o := a.el.eng.opts
	return xtreme.IPConfig{ReusePort: o.ReusePort, ReuseAddr: o.ReuseAddr, ReceiveBuffer: max(o.SocketRecvBuffer, 0),
		BindToDevice: o.BindToDevice, V6Only: a.v6only}
}

func (a *acceptor) sendBuffer() int { return max(a.el.eng.opts.SocketSendBuffer, 0) }

// addListener gives a listener its place, which its user data says, and a say in where its connections go if there is anything to say.
func (el *eventloop) addListener(a *acceptor) (userData *uint64, acceptTo func(fd int, peer netip.AddrPort) bool) {
	userData = xtreme.Ptr(listenerBit | uint64(len(el.ends)))
	el.ends = append(el.ends, a)
	if el.eng.opts.MaxConnections > 0 || el == el.eng.ingress {
		acceptTo = a.assign
	}
	return userData, acceptTo
}

// distributes reports whether connections to an endpoint are accepted by the loop ingress and given to the others. With
// ReusePort the kernel has chosen; a balancing policy that was asked for is honoured nevertheless, but in exact gnet.
func (eng *engine) distributes(e *endpoint) bool {
	switch {
	case eng.numLoops() == 1 || e.udp():
		return false
	case eng.opts.ReusePort && !e.unix():
		return !eng.opts.ExactGnet && eng.opts.LB != RoundRobin
	}
	return true
}

// assign decides about an accepted connection: too many, this loop's, or another's. It runs inside Poll. This loop's takes its place
// when the ring reports it, and not here: a ring that has no room for it tells nothing.
func (a *acceptor) assign(fd int, peer netip.AddrPort) (taken bool) {
	eng := a.el.eng
	if a.el.stopping {
		_ = unix.Close(fd)
		return true
	}
	if eng.full() {
		eng.refused.Add(1)
		_ = unix.Close(fd)
		return true
	}
	if a.el != eng.ingress {
		return false
	}
	to := eng.balance(a.peer(peer))
	if !eng.place() {
		_ = unix.Close(fd)
		return true
	}
	to.assigned.Add(1)
	if err := to.tasks.push(task{kind: taskRun, run: func() { to.take(a, fd, peer) }}); err != nil {
		to.lose(fd)
	}
	return true
}

// take opens a connection that another loop accepted.
func (el *eventloop) take(a *acceptor, fd int, peer netip.AddrPort) {
	if el.stopping {
		el.lose(fd)
		return
	}
	c := newConn(el, a.network, a.local, a.peer(peer))
	c.limited = true
	if err := el.adoptStream(c, fd); err != nil {
		el.eng.log.Warnf("connection from %v: %v", peer, err)
		el.lose(fd)
	}
}

// lose gives up a connection that was on its way to this loop.
func (el *eventloop) lose(fd int) {
	el.assigned.Add(-1)
	el.eng.accepted.Add(-1)
	_ = unix.Close(fd)
}

// full reports whether MaxConnections are there.
func (eng *engine) full() bool {
	most := eng.opts.MaxConnections
	return most > 0 && eng.accepted.Load() >= int64(most)
}

// place takes a place for an accepted connection, which finish or lose gives back, unless MaxConnections are there. Any loop.
func (eng *engine) place() bool {
	most := eng.opts.MaxConnections
	if n := eng.accepted.Add(1); most > 0 && n > int64(most) {
		eng.accepted.Add(-1)
		eng.refused.Add(1)
		return false
	}
	return true
}

// refuse closes a connection that came after the end, or is one too many.
func refuse(done *xtreme.Completion) {
	drop(done)
	_ = done.Socket.Discard() // nobody was notified of it
}

// peer is the address of a peer, as RemoteAddr has it.
func (a *acceptor) peer(p netip.AddrPort) net.Addr {
	if a.unix() {
		return &net.UnixAddr{Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(p)
}

// dup is a copy of the descriptor. Any goroutine.
func (a *acceptor) dup() (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shut {
		return -1, ErrEngineInShutdown
	}
	if a.udp != nil {
		if err := a.udp.noDescriptor("Dup"); err != nil {
			return -1, err
		}
	}
	fd, err := socket.Dup(a.socket.ID())
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// shutListeners keeps other goroutines from the descriptors of listeners and UDP sockets, which are about to be closed or
// are, after an error of the loop.
func (el *eventloop) shutListeners() {
	for _, a := range el.acceptors {
		a.mu.Lock()
		a.shut = true
		a.mu.Unlock()
		if a.udp != nil {
			a.udp.shut()
		}
	}
}

// forget keeps other goroutines from the descriptors of connections after an error of the loop has closed them.
func (el *eventloop) forget() {
	for _, s := range el.conns {
		if s.c != nil {
			s.c.forget()
		}
		if s.d != nil {
			s.d.shut()
		}
	}
}

// closeListeners ends accepting, and receiving of datagrams.
func (el *eventloop) closeListeners() {
	el.shutListeners()
	for _, a := range el.acceptors {
		if a.udp != nil {
			a.udp.empty()
		}
		if err := a.socket.Close(); err != nil && !isClosed(err) {
			el.eng.log.Warnf("closing listener %v: %v", a.local, err)
		}
	}
}

// unlink makes way for a unix socket. Only a socket is removed; exact gnet removes whatever is there.
func (eng *engine) unlink(name string) error {
	if name[0] == '@' {
		return nil
	}
	if eng.opts.ExactGnet {
		_ = os.RemoveAll(name)
		return nil
	}
	info, err := os.Lstat(name)
	if err != nil {
		return nil // nothing there; what else is wrong the bind will tell
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s is there and no socket: %w", name, unix.EADDRINUSE)
	}
	return os.Remove(name)
}

func setKeepAlive(fd int, o *Options) error {
	interval, count := o.TCPKeepInterval, o.TCPKeepCount
	if interval == 0 {
		interval = o.TCPKeepAlive / 5
		if !o.ExactGnet {
			interval = max(interval, time.Second) // the kernel counts whole ones
		}
	}
	if count == 0 {
		count = 5
	}
	err := socket.SetKeepAlive(fd, true, int(o.TCPKeepAlive/time.Second), int(interval/time.Second), count)
	if err != nil {
		return fmt.Errorf("option TCPKeepAlive %v, TCPKeepInterval %v, TCPKeepCount %d: %w", o.TCPKeepAlive, interval, count, err)
	}
	return nil
}

// largestDatagram is the longest datagram a UDP socket takes whole.
func (o *Options) largestDatagram() int { return min(o.ReadBufferCap, 65535) }
