package stream

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// The calls of set-up and of the end.

// listener is what the transport knows of one. Its socket has the ring.Conn of the transport below.
type listener struct {
	id          tcp.ListenerID
	local       tcp.Endpoint
	socket      ring.SocketRef
	settings    tcp.Settings
	device      int32
	hold        int32
	first, last int32 // children that were not reported
	reading     bool
	ready       bool // in Transport.ready
}

// Attach takes a socket that is on its ring now: a child that was accepted, one that is to connect, or one that will listen or connect later.
func (t *Transport) Attach(s *ring.Socket) error {
	h := ring.HandleOf(s)
	if id := idOf(h.Conn); id != tcp.NoID {
		r := t.record(id)
		r.socket = ring.RefOf(s)
		r.flags |= isOpen
		t.markReady(id, r)
		return nil
	}
	ring.SetTransport(s, t, h.Conn)
	if h.Kind == ring.KindStream && s.RemoteAddr().IsValid() {
		return t.begin(s, s.LocalAddr(), s.RemoteAddr())
	}
	return nil
}

// Detach is called when a socket leaves the ring: nothing is reported for it any more.
func (t *Transport) Detach(s *ring.Socket) {
	if id := idOfSocket(s); id != tcp.NoID {
		t.record(id).flags &^= isOpen | isReading | wantsRoom
	} else if l := t.listeners[ring.HandleOf(s).Conn]; l != nil {
		l.reading = false
	}
}

// SetReceiving starts or stops the reporting of data, or of connections.
func (t *Transport) SetReceiving(s *ring.Socket, on bool) {
	if id := idOfSocket(s); id != tcp.NoID {
		r := t.record(id)
		if !on {
			r.flags &^= isReading
			return
		}
		r.flags |= isReading
		t.markReady(id, r)
		return
	}
	if l := t.listeners[ring.HandleOf(s).Conn]; l != nil {
		if l.reading = on; on {
			t.markListener(l)
		}
	}
}

// NotifyWritable asks for one Writable.
func (t *Transport) NotifyWritable(s *ring.Socket) {
	if id := idOfSocket(s); id != tcp.NoID {
		r := t.record(id)
		r.flags |= wantsRoom
		t.markReady(id, r)
	}
}

// Listen reserves the port by the transport below, opens the table's listener and claims the flow. It returns the socket's address.
func (t *Transport) Listen(s *ring.Socket, backlog int) (netip.AddrPort, error) {
	c := ring.HandleOf(s).Conn
	local, err := t.below.Listen(s, backlog)
	if err != nil {
		return local, err
	}
	flow := local
	if local.Addr() == netip.IPv6Unspecified() { // of both families: IPv6 is the transport's below
		flow = netip.AddrPortFrom(netip.IPv4Unspecified(), local.Port())
	}
	e, ok := tcp.EndpointFrom(flow)
	if !ok {
		return local, syscall.EAFNOSUPPORT
	}
	l := &listener{local: e, socket: ring.RefOf(s), settings: t.settingsOf(s), device: int32(s.Device()), first: none, last: none}
	if l.id, err = t.table.Listen(tcp.ListenConfig{Local: e, Backlog: backlog, Settings: l.settings, User: userOf(l.device)}); err != nil {
		return local, errnoOf(err)
	}
	if l.hold, err = t.addHold(flow, netip.AddrPort{}, s.Device(), 0); err != nil {
		t.table.CloseListener(t.now(), l.id)
		return local, err
	}
	t.holds.at(l.hold).isListeners = true
	if err = t.below.ListenBeside(s, backlog); err != nil {
		t.endHold(l.hold)
		t.table.CloseListener(t.now(), l.id)
		return local, err
	}
	for int(l.id) > len(t.byListener) {
		t.byListener = append(t.byListener, nil)
	}
	t.byListener[l.id-1], t.listeners[c] = l, l
	return local, nil
}

// Connect connects a socket that is on its ring already, because it is tied to a device. Others begin in Attach.
func (t *Transport) Connect(s *ring.Socket, remote netip.AddrPort) (netip.AddrPort, error) {
	local, err := t.below.Connect(s, remote)
	if err != nil || ring.TransportOf(s) != ring.Transport(t) { // the transport below carries it
		return local, err
	}
	if err := t.begin(s, local, remote); err != nil {
		return local, err
	}
	at, _ := t.table.Endpoints(idOfSocket(s))
	return at.AddrPort(), nil
}

// begin starts a connection: it finds the route, has the table make the connection (its SYN leaves with the next Output), claims the flow,
// and ties the socket to its record. Errors: as connect(2) gives them; a *ring.FeatureError where the route leads over no link of the ring.
func (t *Transport) begin(s *ring.Socket, local, remote netip.AddrPort) error {
	t.takeEvents()
	now := t.now()
	d := tcp.Dial{Settings: t.settingsOf(s), User: userOf(int32(s.Device()))}
	var okLocal, okRemote bool
	d.Local, okLocal = tcp.EndpointFrom(local)
	if d.Remote, okRemote = tcp.EndpointFrom(remote); !okLocal || !okRemote {
		return syscall.EAFNOSUPPORT
	}
	x := t.findDestination(d.Local.Addr, d.Remote.Addr, d.Settings.TOS, d.Settings.TTL, int32(s.Device()))
	switch {
	case x.errno != 0:
		return x.errno
	case x.route.Kind == ip.RouteViaKernel:
		return &ring.FeatureError{Feature: "TCP over an interface that is no link of the ring", Code: "tcp.no_link"}
	}
	d.Path = x.path()
	id, err := t.table.Connect(now, d)
	switch {
	case errors.Is(err, tcp.ErrInUse): // the same two addresses are connected, or in TIME-WAIT
		return syscall.EADDRNOTAVAIL
	case err != nil:
		return errnoOf(err)
	}
	at, _ := t.table.Endpoints(id)
	held, err := t.addHold(at.AddrPort(), remote, s.Device(), ring.HandleOf(s).Conn)
	if err != nil {
		t.newRecord(id)        // the event of its end looks for one
		t.table.Abort(now, id) // nothing was sent
		return err
	}
	r := t.newRecord(id)
	r.socket, r.hold, r.device = ring.RefOf(s), held, int32(s.Device())
	r.flags |= isOpen
	ring.SetTransport(s, t, connOf(id))
	ring.SetLocal(s, at.AddrPort())
	return nil
}

// errnoOf is the errno with which the kernel reports the same as an error of the table; other errors stay as they are.
func errnoOf(err error) error {
	switch {
	case errors.Is(err, tcp.ErrInUse):
		return syscall.EADDRINUSE
	case errors.Is(err, tcp.ErrNoPort):
		return syscall.EADDRNOTAVAIL
	case errors.Is(err, tcp.ErrAddress):
		return syscall.ENETUNREACH
	case errors.Is(err, tcp.ErrLimit):
		return syscall.ENOBUFS
	}
	return err
}

// Accept gives an accepted connection to the socket that was made for it, and returns its local address.
func (t *Transport) Accept(s, listener *ring.Socket) netip.AddrPort {
	id := idOfSocket(s)
	if id == tcp.NoID {
		return t.below.Accept(s, listener)
	}
	_ = t.table.Take(id, userOf(t.record(id).device)) // cannot fail: the record is there until Close
	local, _ := t.table.Endpoints(id)
	return local.AddrPort()
}

// Refuse resets a connection without a socket, also one that was offered to AcceptTo.
func (t *Transport) Refuse(c ring.Conn) {
	if c >= TransitBase {
		_ = t.transit.Refuse(c) // it may be adopted already
		return
	}
	if id := idOf(c); id != tcp.NoID {
		t.end(id, withReset)
		return
	}
	t.below.Refuse(c)
}

// CloseWrite sends FIN behind what was queued.
func (t *Transport) CloseWrite(s *ring.Socket) error {
	id := idOfSocket(s)
	if id == tcp.NoID {
		return syscall.ENOTCONN
	}
	t.record(id).flags |= isShut
	t.hasAnswer = true
	_ = t.table.CloseWrite(t.now(), id) // one that has failed meanwhile has nothing to close
	return nil
}

// Close ends the socket. The record of its connection lives on as long as the protocol needs it.
func (t *Transport) Close(s *ring.Socket, reset bool) error {
	c := ring.HandleOf(s).Conn
	if id := idOf(c); id != tcp.NoID {
		t.hasAnswer = true
		t.end(id, reset)
		return nil
	}
	if l := t.listeners[c]; l != nil {
		return t.closeListener(s, l, reset)
	}
	return t.below.Close(s, reset)
}

// closeListener ends a listener. Its port is left to the kernel at once, in which another program may listen there, and its connections stay:
//
//	each connection is claimed      before the port's claim ends: no segment of one reaches the kernel in between
//	what has come is taken          a SYN among it is not answered: the client repeats it, and it reaches the kernel
//	the listener is closed          what was not accepted is reset
//	the one below is closed         before the port's claim ends: the kernel gives it no connection
//	the port's claim ends
//
// Rings that have adopted connections of it claim the port, too. They leave it as soon as they run. A SYN that one of them receives until then
// is dropped, so that the client repeats it.
//
// A ring that is being closed releases all of its claims soon, and those of its connections would be made for nothing.
func (t *Transport) closeListener(s *ring.Socket, l *listener, reset bool) error {
	leavesPort, isClaimed := false, t.holds.at(l.hold).claim != 0
	if isClaimed {
		t.transit.closePort(l.local)
	}
	if isClaimed && !ring.IsClosing(s) {
		if leavesPort = t.claimChildren(l); !leavesPort {
			t.stats.PortsKept++
		}
		t.host.Pull()
	}
	delete(t.listeners, ring.HandleOf(s).Conn)
	t.byListener[l.id-1] = nil
	t.table.CloseListener(t.now(), l.id)
	t.takeEvents() // the ends of connections that were not accepted
	err := t.below.Close(s, reset)
	if isClaimed {
		t.transit.leavePort(l.local)
	}
	if leavesPort && t.holds.at(l.hold).users == 1 { // the listener
		t.endHold(l.hold)
	} else {
		t.dropHold(l.hold)
	}
	return err
}

// listensAt reports whether a listener accepts connections to an address.
func (t *Transport) listensAt(local tcp.Endpoint) bool {
	return slices.ContainsFunc(t.byListener, func(l *listener) bool { return l != nil && isOfPort(local, l.local) })
}

// withReset is the argument reset of end.
const withReset = true

// end closes a connection for its application, with FIN or with a reset: its socket is forgotten, received data is released, and its record
// stays until EventGone.
func (t *Transport) end(id tcp.ID, reset bool) {
	// What has come is taken as the application's, who did not read it; data that comes later nobody reads, and a reset answers it.
	t.host.Pull()
	t.takeEvents()
	r := t.record(id)
	r.flags = r.flags&^(isOpen|isReading|wantsRoom) | isClosed
	r.socket = 0
	t.dropBacklog(id, r)
	t.dropArrivals(r)
	if reset {
		t.table.Abort(t.now(), id)
	} else {
		t.table.Close(t.now(), id)
	}
}

// SetDevice ties a socket without a connection to an interface.
func (t *Transport) SetDevice(s *ring.Socket, name string, index int) error {
	if idOfSocket(s) != tcp.NoID {
		return syscall.EISCONN
	}
	return t.below.SetDevice(s, name, index)
}

// SetMembership: streams have no groups.
func (t *Transport) SetMembership(*ring.Socket, ring.Membership, bool) error {
	return syscall.EOPNOTSUPP
}

// Drops: streams lose nothing.
func (t *Transport) Drops(*ring.Socket) (uint32, error) { return 0, nil }

// Retransmits implements ring.Retransmitter.
func (t *Transport) Retransmits(s *ring.Socket) (uint32, error) {
	id := idOfSocket(s)
	if id == tcp.NoID {
		return 0, nil // not connected yet
	}
	return t.sentAgain[id], nil
}

// SetOption sets an option. For a connection or a listener it changes the settings in the table; a socket that is neither yet keeps the value
// below, and settingsOf reads it later.
func (t *Transport) SetOption(s *ring.Socket, o ring.Option, value int) error {
	id := idOfSocket(s)
	if id == tcp.NoID {
		if err := t.below.SetOption(s, o, value); err != nil {
			return err
		}
		l := t.listeners[ring.HandleOf(s).Conn]
		if l == nil {
			return nil // read from Socket.Options when it listens or connects
		}
		if err := setOption(&l.settings, o, value); err != nil {
			return err
		}
		return t.table.ConfigureListener(l.id, l.settings)
	}
	settings := t.table.Settings(id)
	if err := setOption(&settings, o, value); err != nil {
		return err
	}
	if err := t.table.Configure(t.now(), id, settings); err != nil && !errors.Is(err, tcp.ErrNoConn) {
		return syscall.EINVAL
	}
	return nil
}

// examineNextHop asks for the peer's next hop again: retransmissions stay unanswered (RFC 9293 MUST-20).
func (t *Transport) examineNextHop(id tcp.ID, r *record) {
	local, remote := t.table.Endpoints(id)
	settings := t.table.Settings(id)
	x := t.findDestination(local.Addr, remote.Addr, settings.TOS, settings.TTL, r.device)
	t.ip.Resolve(t.now(), &x.route)
}

// isHost reports whether a segment was for one host, from one host.
func isHost(to ip.AddressKind, p *ip.Parsed) bool {
	return to == ip.AddressLocal && !p.LinkGroup && !p.Flow.Source.IsMulticast() && p.Flow.Source != (wire.Addr{}) && p.Flow.Source != wire.Addr{255, 255, 255, 255}
}
