package gnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/socket"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// acceptor is one listener, or server's UDP socket, of one loop.
type acceptor struct {
	*endpoint
	el      *eventloop
	socket  *xtreme.Socket
	network string   // "tcp", "udp" or "unix"
	local   net.Addr // LocalAddr of its connections
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

// listenTCP opens a TCP listener on the acceptor's loop, with the options of the server. Options that package xtreme has no field for are set
// on the descriptor, because accepted connections inherit them.
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
	switch {
	case o.TCPKeepAlive <= 0:
		return nil
	case s.Ring().Kind() == string(conf.RingOffload): // its connections are no descriptors
		interval, count := o.keepAlive()
		return s.SetKeepAlive(o.TCPKeepAlive, interval, count)
	}
	return setKeepAlive(s.ID(), o) // the connections inherit it
}

// listenUnix opens a unix-domain listener on the acceptor's loop, after removing the file of an earlier one.
func (a *acceptor) listenUnix() error {
	a.network = "unix"
	if err := a.el.eng.removeSocketFile(a.address); err != nil {
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

// listenUDP opens a UDP socket on the acceptor's loop; a socket on a multicast address joins the group on the interface that the options
// name.
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

// ip returns the address as gnet shows it: nil if no host was given.
func (a *acceptor) ip() net.IP {
	if a.bind.Addr().IsUnspecified() {
		host, _, err := net.SplitHostPort(a.address)
		if err == nil && host == "" {
			return nil
		}
	}
	return a.bind.Addr().WithZone("").AsSlice()
}

// ipConfig returns the part of the configuration that TCP listeners and UDP sockets have in common.
func (a *acceptor) ipConfig() xtreme.IPConfig {
	o := a.el.eng.opts
	return xtreme.IPConfig{ReusePort: o.ReusePort, ReuseAddr: o.ReuseAddr, ReceiveBuffer: max(o.SocketRecvBuffer, 0),
		BindToDevice: o.BindToDevice, V6Only: a.v6only}
}

func (a *acceptor) sendBuffer() int { return max(a.el.eng.opts.SocketSendBuffer, 0) }

// addListener enters a listener into the loop's list and returns the user data by which its completions are found, and, if connections are
// limited or accepted for other loops, the function that decides on each accepted connection; else nil.
func (el *eventloop) addListener(a *acceptor) (userData *uint64, acceptTo func(fd int, peer netip.AddrPort) bool) {
	userData = xtreme.Ptr(listenerBit | uint64(len(el.listeners)))
	el.listeners = append(el.listeners, a)
	if el.eng.opts.MaxConnections > 0 || el == el.eng.ingress {
		acceptTo = a.assignConnection
	}
	return userData, acceptTo
}

// distributes reports whether connections to an endpoint are accepted by one loop, ingress, and assigned to the others. With ReusePort the
// kernel distributes them, unless the options ask for another balancing policy than RoundRobin; exact gnet ignores the policy then.
func (eng *engine) distributes(e *endpoint) bool {
	switch {
	case eng.numLoops() == 1 || e.udp():
		return false
	case eng.opts.ReusePort && !e.unix():
		return !eng.opts.ExactGnet && eng.opts.LB != RoundRobin
	}
	return true
}

// assignConnection is the AcceptTo of listeners: it closes a connection beyond MaxConnections, leaves one that is for this loop to the ring
// (false), and sends one that is for another loop to that loop. It runs inside Poll. A connection of this loop reserves its place only when
// the ring announces it, because a ring that has no memory for it closes it silently. fd is a descriptor, or, of our own TCP, a number of the
// engine's.
func (a *acceptor) assignConnection(fd int, peer netip.AddrPort) (taken bool) {
	eng := a.el.eng
	if a.el.stopping {
		_ = eng.engine.CloseAccepted(fd)
		return true
	}
	if eng.hasMaxConnections() {
		eng.refused.Add(1)
		_ = eng.engine.CloseAccepted(fd)
		return true
	}
	if a.el != eng.ingress { // each loop has a listener and keeps what it accepts
		return false
	}
	to := eng.balance(a.peerAddr(peer))
	if to == a.el { // ingress is one of the loops: see makeIngress
		return false
	}
	if !eng.reservePlace() {
		_ = eng.engine.CloseAccepted(fd)
		return true
	}
	a.assign(to, fd, peer)
	return true
}

// assign sends a connection that has its place to a loop.
func (a *acceptor) assign(to *eventloop, fd int, peer netip.AddrPort) {
	to.assigned.Add(1)
	if err := to.tasks.push(task{kind: taskRun, run: func() { to.openAssigned(a, fd, peer) }}); err != nil {
		to.closeAssigned(fd)
	}
}

// openAssigned opens a connection that the loop ingress has accepted and assigned to this loop. It runs on this loop. If this loop's ring cannot
// carry it, because it has no queue of the interface, the loop that accepted it serves it.
func (el *eventloop) openAssigned(a *acceptor, fd int, peer netip.AddrPort) {
	if el.stopping {
		el.closeAssigned(fd)
		return
	}
	c := newConn(el, a.network, a.local, a.peerAddr(peer))
	c.limited = true
	err := el.adoptStream(c, fd)
	switch {
	case err == nil:
	case errors.Is(err, xtreme.ErrNotSupported) && el != a.el:
		el.assigned.Add(-1)
		a.assign(a.el, fd, peer)
	default:
		el.eng.log.Warnf("connection from %v: %v", peer, err)
		el.closeAssigned(fd)
	}
}

// closeAssigned closes a connection that was assigned to this loop and cannot be opened, and returns its place.
func (el *eventloop) closeAssigned(fd int) {
	el.assigned.Add(-1)
	el.eng.accepted.Add(-1)
	_ = el.eng.engine.CloseAccepted(fd)
}

// hasMaxConnections reports whether MaxConnections connections are open.
func (eng *engine) hasMaxConnections() bool {
	most := eng.opts.MaxConnections
	return most > 0 && eng.accepted.Load() >= int64(most)
}

// reservePlace counts a new connection and returns true, or returns false if MaxConnections are open. finish or closeAssigned returns the
// place. Any loop.
func (eng *engine) reservePlace() bool {
	most := eng.opts.MaxConnections
	if n := eng.accepted.Add(1); most > 0 && n > int64(most) {
		eng.accepted.Add(-1)
		eng.refused.Add(1)
		return false
	}
	return true
}

// refuse closes a connection that arrived after the end of the server, or that is one too many. The handler never learns of it.
func refuse(done *xtreme.Completion) {
	drop(done)
	_ = done.Socket.Discard() // nobody was notified of it
}

// peerAddr returns the address of a peer in the form that RemoteAddr has.
func (a *acceptor) peerAddr(p netip.AddrPort) net.Addr {
	if a.unix() {
		return &net.UnixAddr{Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(p)
}

// dup returns a copy of the listener's descriptor, or ErrEngineInShutdown once it is being closed. Any goroutine.
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

// shutListeners makes Dup of listeners and sends on UDP sockets by other goroutines fail, before their descriptors are closed: the numbers
// may soon be other files'.
func (el *eventloop) shutListeners() {
	for _, a := range el.acceptors {
		a.mu.Lock()
		a.shut = true
		a.mu.Unlock()
		if a.udp != nil {
			a.udp.invalidateFD()
		}
	}
}

// invalidateDescriptors makes calls of other goroutines on the descriptors of connections fail, after an error of the loop has closed the
// descriptors: the numbers may be other files'.
func (el *eventloop) invalidateDescriptors() {
	for _, s := range el.conns {
		if s.c != nil {
			s.c.invalidateFD()
		}
		if s.d != nil {
			s.d.invalidateFD()
		}
	}
}

// closeListeners closes the listeners and UDP sockets; datagrams that other goroutines have queued are sent before.
func (el *eventloop) closeListeners() {
	el.shutListeners()
	for _, a := range el.acceptors {
		if a.udp != nil {
			a.udp.sendQueued()
		}
		if err := a.socket.Close(); err != nil && !isClosed(err) {
			el.eng.log.Warnf("closing listener %v: %v", a.local, err)
		}
	}
}

// removeSocketFile removes the file that an earlier unix-domain listener left. Anything but a socket is an error; exact gnet removes whatever
// is there.
func (eng *engine) removeSocketFile(name string) error {
	if name[0] == '@' { // an abstract name, which is no file
		return nil
	}
	if eng.opts.ExactGnet {
		_ = os.RemoveAll(name)
		return nil
	}
	info, err := os.Lstat(name)
	if err != nil {
		return nil // nothing is there; any other error will be that of bind
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s is there and no socket: %w", name, unix.EADDRINUSE)
	}
	return os.Remove(name)
}

// keepAlive returns the options TCPKeepInterval and TCPKeepCount. An interval that is not given is a fifth of the idle time, as in gnet, but at
// least a second, the kernel's unit.
func (o *Options) keepAlive() (interval time.Duration, count int) {
	interval, count = o.TCPKeepInterval, o.TCPKeepCount
	if interval == 0 {
		interval = o.TCPKeepAlive / 5
		if !o.ExactGnet {
			interval = max(interval, time.Second) // the kernel counts whole ones
		}
	}
	if count == 0 {
		count = 5
	}
	return interval, count
}

// setKeepAlive sets the options TCPKeepAlive, TCPKeepInterval and TCPKeepCount on a TCP socket.
func setKeepAlive(fd int, o *Options) error {
	interval, count := o.keepAlive()
	err := socket.SetKeepAlive(fd, true, int(o.TCPKeepAlive/time.Second), int(interval/time.Second), count)
	if err != nil {
		return fmt.Errorf("option TCPKeepAlive %v, TCPKeepInterval %v, TCPKeepCount %d: %w", o.TCPKeepAlive, interval, count, err)
	}
	return nil
}

// largestDatagram returns the length of the longest datagram that a UDP socket receives whole.
func (o *Options) largestDatagram() int { return min(o.ReadBufferCap, 65535) }
