package memory

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// The calls of set-up and of the end.

var _ ring.Creditor = (*Host)(nil)

// Open makes the record of a new stream socket. Datagrams and IPv6 are a ring.FeatureError.
func (h *Host) Open(kind ring.SocketKind, family ring.Family, _ *ring.Config) (ring.Conn, error) {
	switch {
	case kind != ring.KindStream:
		return 0, &ring.FeatureError{Feature: "datagrams over the memory transport, which carries streams", Code: "memory.no_datagrams"}
	case family != ring.IPv4:
		return 0, &ring.FeatureError{Feature: "addresses other than IPv4 over the memory transport", Code: "memory.no_ipv6"}
	}
	return ring.Conn(h.newRecord() + 1), nil
}

// Bind reserves an address.
func (h *Host) Bind(s *ring.Socket, local netip.AddrPort) (netip.AddrPort, error) {
	e, ok := protocol.EndpointFrom(local)
	switch {
	case !ok:
		return local, syscall.EAFNOSUPPORT
	case e.Addr != [4]byte{} && !h.link.HasAddress(e.Addr):
		return local, syscall.EADDRNOTAVAIL
	}
	return h.bind(h.record(s), e)
}

// bind reserves the endpoint in the protocol's table, with a free port if its port is 0, and notes it in the record. Error: EADDRINUSE.
func (h *Host) bind(r *record, e protocol.Endpoint) (netip.AddrPort, error) {
	e, err := h.table.Bind(e)
	if err != nil {
		return netip.AddrPort{}, syscall.EADDRINUSE
	}
	r.local = e
	r.flags |= isBound
	return e.AddrPort(), nil
}

// Listen makes the protocol accept connections at the socket's address; an unbound socket gets a free port at every address of the host.
func (h *Host) Listen(s *ring.Socket, backlog int) (netip.AddrPort, error) {
	if ring.ConfigOf(s).AcceptTo != nil {
		return netip.AddrPort{}, &ring.FeatureError{Feature: "AcceptTo over the memory transport, whose connections have no descriptor",
			Code: "memory.no_descriptor"}
	}
	r := h.record(s)
	if r.flags&isBound == 0 {
		if _, err := h.bind(r, protocol.Endpoint{}); err != nil {
			return netip.AddrPort{}, err
		}
	}
	r.listener = h.table.Listen(r.local, backlog)
	for int(r.listener) >= len(h.byListener) {
		h.byListener = append(h.byListener, none)
	}
	h.byListener[r.listener] = index(s)
	return r.local.AddrPort(), nil
}

// Connect chooses the local address and notes the remote one. The SYN is sent by Attach, or here when the socket is on a ring already.
func (h *Host) Connect(s *ring.Socket, remote netip.AddrPort) (netip.AddrPort, error) {
	e, ok := protocol.EndpointFrom(remote)
	switch {
	case !ok:
		return netip.AddrPort{}, syscall.EAFNOSUPPORT
	case e.Port == 0 || e.Addr == [4]byte{255, 255, 255, 255} || e.Addr[0] >= 224:
		return netip.AddrPort{}, syscall.ENETUNREACH
	}
	r := h.record(s)
	if r.flags&isBound == 0 {
		if _, err := h.bind(r, protocol.Endpoint{Addr: h.link.addrs[0]}); err != nil {
			return netip.AddrPort{}, err
		}
	}
	if r.local.Addr == [4]byte{} {
		h.unbind(r)
		if _, err := h.bind(r, protocol.Endpoint{Addr: h.link.addrs[0], Port: r.local.Port}); err != nil {
			return netip.AddrPort{}, err
		}
	}
	r.remote = e
	if s.Ring() != nil { // bound to a device
		return r.local.AddrPort(), h.startConnect(s)
	}
	return r.local.AddrPort(), nil
}

// startConnect begins the connection between the record's two addresses, which sends the SYN. Error: EADDRNOTAVAIL when another connection
// has the same two.
func (h *Host) startConnect(s *ring.Socket) error {
	i := index(s)
	r := &h.records[i]
	h.now = h.clock()
	id, err := h.table.Connect(h.now, r.local, r.remote)
	if errors.Is(err, protocol.ErrInUse) {
		return syscall.EADDRNOTAVAIL
	}
	h.setConnection(i, id)
	h.table.SetUserTimeout(id, int(r.userTimeout))
	return err
}

// Accept gives an accepted connection the settings of its listener, takes it off the listener's backlog, and returns its local address.
func (h *Host) Accept(s, listener *ring.Socket) netip.AddrPort {
	r, l := h.record(s), h.record(listener)
	r.limit, r.userTimeout = l.limit, l.userTimeout
	h.table.SetUserTimeout(r.id, int(r.userTimeout))
	h.table.Take(r.id)
	return h.table.Local(r.id).AddrPort()
}

// Refuse resets an accepted connection that got no socket.
func (h *Host) Refuse(c ring.Conn) { h.closeRecord(int32(c)-1, withReset) }

// SetOption sets an option. Those that this transport cannot have are a ring.FeatureError; ENOPROTOOPT: unknown.
func (h *Host) SetOption(s *ring.Socket, o ring.Option, value int) error {
	r := h.record(s)
	switch o {
	case ring.OptionNoDelay, ring.OptionQuickAck: // always: no Nagle, and acknowledgements leave with the next Flush
	case ring.OptionReuseAddr: // an accepted connection reserves no address: none keeps a listener from being opened again
	case ring.OptionSendBuffer:
		r.limit = int32(min(value, 1<<30)) // of r.queued, which has 32 bits
	case ring.OptionUserTimeout:
		r.userTimeout = int32(value) // milliseconds; startConnect and Accept give it to a connection that is made later
		if r.id != protocol.NoID {
			h.table.SetUserTimeout(r.id, value)
		}
	case ring.OptionKeepAlive, ring.OptionKeepAliveIdle, ring.OptionKeepAliveInterval, ring.OptionKeepAliveCount:
		return &ring.FeatureError{Feature: "keepalive probes over the memory transport", Code: "memory.no_keepalive"}
	case ring.OptionPacingRate:
		return &ring.FeatureError{Feature: "pacing over the memory transport, which has no queue with a rate", Code: "memory.no_pacing"}
	case ring.OptionReceiveBuffer:
		return &ring.FeatureError{Feature: "a receive buffer of one's own over the memory transport: all windows are the host's",
			Code: "memory.one_window"}
	default:
		return syscall.ENOPROTOOPT
	}
	return nil
}

// SetDevice: there is one interface only.
func (h *Host) SetDevice(*ring.Socket, string, int) error { return nil }

// SetMembership: there are no groups.
func (h *Host) SetMembership(*ring.Socket, ring.Membership, bool) error { return syscall.EOPNOTSUPP }

// Interface finds the host's interface.
func (h *Host) Interface(name string) (int, error) {
	if name != h.config.Device {
		return 0, fmt.Errorf("interface %s: %w", name, syscall.ENODEV)
	}
	return 1, nil
}

// InterfaceOf is 1 for the host's addresses.
func (h *Host) InterfaceOf(a netip.Addr) int {
	if a = a.Unmap(); a.Is4() && h.link.HasAddress(a.As4()) {
		return 1
	}
	return 0
}

// RoutedInterface: there are no groups.
func (h *Host) RoutedInterface(netip.Addr) int { return 0 }

// Drops: streams lose nothing.
func (h *Host) Drops(*ring.Socket) (uint32, error) { return 0, nil }

// CloseWrite sends FIN behind what was queued.
func (h *Host) CloseWrite(s *ring.Socket) error {
	if r := h.record(s); r.id != protocol.NoID {
		h.now = h.clock()
		h.table.CloseWrite(h.now, r.id)
	}
	return nil
}

// Close ends the socket. Its record lives on as long as the protocol needs it.
func (h *Host) Close(s *ring.Socket, reset bool) error {
	h.receiveFrames() // what has arrived is dropped unread; what comes later is answered with a reset
	h.closeRecord(index(s), reset)
	return nil
}

// withReset is the argument reset of closeRecord.
const withReset = true

// closeRecord is the close of record i: what was received is dropped, a listener ends, and the connection is closed, or aborted with a reset.
// The record is freed now if it has no connection, else when the protocol is done with it (connectionGone).
func (h *Host) closeRecord(i int32, reset bool) {
	r := &h.records[i]
	r.flags = r.flags&^isOpen | isClosed
	r.socket = 0
	h.dropArrivals(i)
	if r.listener > 0 {
		h.unlisten(i)
	}
	h.now = h.clock()
	switch id := r.id; {
	case id == protocol.NoID:
		h.freeRecord(i)
	case reset:
		h.table.Abort(h.now, id)
	default:
		const unread = false // what was dropped counts as read: the peer sees FIN, as with the kernel's transport
		h.table.Close(h.now, id, unread)
	}
}

// unlisten ends a listener and the connections that wait at it.
func (h *Host) unlisten(i int32) {
	r := &h.records[i]
	h.byListener[r.listener] = none
	h.table.Unlisten(r.listener)
	for child := r.waitHead; child != none; child = h.records[i].waitHead {
		h.records[i].waitHead = h.records[child].next
		h.closeRecord(child, withReset)
	}
	h.records[i].waitTail = none
	h.records[i].listener = 0
}
