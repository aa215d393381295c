package ring

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Bind binds the socket to a local address; port 0 lets the kernel choose. A UDP socket has its ring from here on and receives;
// a TCP socket has none before Listen or Connect. Before the ring's first Poll from any one goroutine, then owner only.
func (s *Socket) Bind(local netip.AddrPort) error {
	if err := s.mayUse("bind"); err != nil {
		return err
	}
	return traced(s, "bind", local, s.bind(local))
}

// bind is Bind for a caller that is the owner.
func (s *Socket) bind(local netip.AddrPort) error {
	if s.state != stateNew || s.local().IsValid() {
		return stateError("bind", s)
	}
	if err := s.ipOnly("bind"); err != nil {
		return err
	}
	if err := s.checkAddress(local); err != nil {
		return &OpError{Op: "bind", Addr: local, Err: err}
	}
	bound, err := s.transport().Bind(s, local)
	if err != nil {
		return &OpError{Op: "bind", Addr: local, Err: err}
	}
	s.setLocal(bound)
	if s.handle.Kind != KindDatagram {
		return nil
	}
	return s.open("bind", local)
}

// open gives a datagram socket its ring and starts reading; op and a are of the call that does it, for errors.
func (s *Socket) open(op string, a netip.AddrPort) error {
	if err := s.joinRing(); err != nil {
		return &OpError{Op: op, Addr: a, Err: err}
	}
	s.state = stateOpen
	s.touched = true
	return s.startReading(op, a)
}

// startReading starts reading for the call op that makes the socket receive. Unlike start it returns the driver's error to that call.
func (s *Socket) startReading(op string, a netip.AddrPort) error {
	s.stops &^= stopEnded
	s.describe()
	if s.stops != 0 {
		return nil
	}
	if err := s.ring().drv.SetReceiving(s, true); err != nil {
		return &OpError{Op: op, Addr: a, Err: err}
	}
	return nil
}

// checkAddress reports whether a socket of this family can have or reach the address.
func (s *Socket) checkAddress(a netip.AddrPort) error {
	switch ip := a.Addr(); {
	case !ip.IsValid():
		return fmt.Errorf("address %v: no IP address: %w", a, syscall.EINVAL)
	case s.family == IPv4 && FamilyOfAddr(ip) != IPv4:
		return fmt.Errorf("address %v: not reachable from an IPv4 socket: %w", a, syscall.EAFNOSUPPORT)
	}
	return nil
}

// Listen makes a TCP or unix-domain socket accept by itself: connections come as NEW_CONNECTION completions. The backlog is the kernel's; 0 or
// less takes its maximum (net.core.somaxconn).
func (s *Socket) Listen(backlog int) error {
	if err := s.mayUse("listen"); err != nil {
		return err
	}
	return traced(s, "listen", backlog, s.checkAndListen(backlog))
}

// checkAndListen is Listen for a caller that is the owner.
func (s *Socket) checkAndListen(backlog int) error {
	if s.handle.Kind != KindStream || s.state != stateNew {
		return stateError("listen", s)
	}
	if _, ok := s.transport().(Adopter); s.config().AcceptTo != nil && !ok {
		return &OpError{Op: "listen", Err: &FeatureError{Feature: "AcceptTo, over a transport whose connections nobody else can take over",
			Code: "accept.no_kernel"}}
	}
	if backlog <= 0 {
		backlog = 1<<16 - 1
	}
	return s.listen(backlog)
}

// listen is the rest of Listen after its checks. The socket is put on its ring before the transport answers connections: none may come to a
// listener that no driver knows.
func (s *Socket) listen(backlog int) error {
	hadRing := s.ring() != nil
	s.handle.Kind = KindListener
	if hadRing {
		// BindToDevice attached it to the driver as a connection. Nothing of it is armed yet, so Detach is done at once.
		s.ring().drv.Detach(s)
		if err := s.ring().drv.Attach(s); err != nil {
			return &OpError{Op: "listen", Addr: s.local(), Err: err}
		}
	} else if err := s.joinRing(); err != nil {
		s.handle.Kind = KindStream
		return &OpError{Op: "listen", Addr: s.local(), Err: err}
	}
	local, err := s.transport().Listen(s, backlog)
	if err != nil {
		return &OpError{Op: "listen", Addr: s.local(), Err: errors.Join(err, s.undoListen(hadRing))}
	}
	s.setLocal(local)
	s.ring().listeners = append(s.ring().listeners, s)
	s.state = stateListening
	s.touched = true
	return s.startReading("listen", s.local())
}

// undoListen makes a socket that could not listen a stream again, on a ring only if it had one before.
func (s *Socket) undoListen(onRing bool) error {
	s.ring().drv.Detach(s)
	s.handle.Kind = KindStream
	if onRing {
		return s.ring().drv.Attach(s)
	}
	s.leaveRing()
	return nil
}

// Connect connects the socket. On TCP it only begins: EventOut reports that the connection stands, EventErr or EventHup with Err
// that it failed. A datagram socket is connected at once, receives from that peer only, and may be connected again.
func (s *Socket) Connect(remote netip.AddrPort) error {
	if err := s.mayUse("connect"); err != nil {
		return err
	}
	return traced(s, "connect", remote, s.connect(remote))
}

// connect is Connect for a caller that is the owner.
func (s *Socket) connect(remote netip.AddrPort) error {
	datagram := s.handle.Kind == KindDatagram && s.state < stateDead
	if !datagram && (s.handle.Kind != KindStream || s.state != stateNew) {
		return stateError("connect", s)
	}
	if err := s.ipOnly("connect"); err != nil {
		return err
	}
	if err := s.checkAddress(remote); err != nil {
		return &OpError{Op: "connect", Addr: remote, Err: err}
	}
	if s.family == IPv4 { // routes, claims and rules know IPv4 addresses in their short form only
		remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	}
	if !datagram {
		return s.connectStream(remote)
	}
	local, err := s.transport().Connect(s, remote)
	if err != nil {
		return &OpError{Op: "connect", Addr: remote, Err: err}
	}
	s.ends.set(local, remote)
	if s.state == stateOpen {
		s.describe()
		return s.notifyStack("connect")
	}
	return s.open("connect", remote)
}

// connectStream begins to connect a stream. With SetConfig.PlaceStreams the set is chosen first, because its transport makes the connection.
// The ring is joined when the transport has given the socket its local address. NotifyWritable has the driver report how connecting ended.
func (s *Socket) connectStream(remote netip.AddrPort) error {
	var err error
	switch {
	case s.ring() != nil: // BindToDevice gave it one
		err = s.beginConnect(remote)
	case s.set().config.PlaceStreams:
		err = s.placeAndConnect(remote)
	default:
		if err = s.beginConnect(remote); err == nil {
			err = s.joinRing()
		}
	}
	if err == nil {
		s.state = stateConnecting
		s.touched = true
		s.describe()
		err = s.ring().drv.NotifyWritable(s)
	}
	if err != nil {
		return &OpError{Op: "connect", Addr: remote, Err: err}
	}
	return nil
}

// beginConnect has the transport begin the connection.
func (s *Socket) beginConnect(remote netip.AddrPort) error {
	local, err := s.transport().Connect(s, remote)
	if err == nil {
		s.ends.set(local, remote)
	}
	return err
}

// placeAndConnect chooses the set of a stream, has its transport begin the connection, and gives the stream its ring. On an error the set and
// its transport are those of before.
func (s *Socket) placeAndConnect(remote netip.AddrPort) error {
	from, transport := s.placement(), s.transport()
	s.ends.set(s.local(), remote)
	err := s.chooseSet()
	if err == nil && s.set() != from.set {
		s.setTransport(s.set().config.Transport, s.handle.Conn)
	}
	if err == nil {
		err = s.beginConnect(remote)
	}
	if err == nil {
		err = s.joinChosenRing(from)
	}
	if err != nil {
		s.restore(from)
		s.setTransport(transport, s.handle.Conn)
		s.ends.set(s.local(), netip.AddrPort{})
	}
	return err
}

// SetConnectTimeout gives up connecting after d: the socket then ends with ETIMEDOUT. 0 leaves it to the kernel (about 2
// minutes: net.ipv4.tcp_syn_retries). After Connect.
func (s *Socket) SetConnectTimeout(d time.Duration) error {
	if err := s.mayUse("set connect timeout"); err != nil {
		return err
	}
	return traced(s, "set connect timeout", d, s.setConnectTimeout(d))
}

// setConnectTimeout is SetConnectTimeout for a caller that is the owner.
func (s *Socket) setConnectTimeout(d time.Duration) error {
	if d < 0 {
		return badArgument("set connect timeout", "time", d)
	}
	if s.state != stateConnecting {
		return stateError("set connect timeout", s)
	}
	at := clock.Never
	if d > 0 {
		at = s.ring().clock().Add(d)
	}
	s.setTimer(timerConnect, at)
	return nil
}

// BindToDevice ties the socket to an interface (SO_BINDTODEVICE). A TCP socket has its ring from here on (VMA: the same).
func (s *Socket) BindToDevice(name string) error {
	if err := s.mayUse("bind to device"); err != nil {
		return err
	}
	return traced(s, "bind to device", name, s.bindToDevice(name))
}

// bindToDevice is BindToDevice for a caller that is the owner.
func (s *Socket) bindToDevice(name string) error {
	if s.state != stateNew {
		return stateError("bind to device", s)
	}
	if err := s.ipOnly("bind to device"); err != nil {
		return err
	}
	index, err := s.transport().Interface(name)
	if err != nil {
		return &OpError{Op: "bind to device", Err: err}
	}
	if err := s.transport().SetDevice(s, name, index); err != nil {
		return &OpError{Op: "bind to device", Err: fmt.Errorf("%s: %w", name, err)}
	}
	s.activate().device = index
	if s.handle.Kind == KindStream {
		return s.joinRing()
	}
	return nil
}
