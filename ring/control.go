package ring

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Bind binds the socket to a local address; port 0 lets the kernel choose. A UDP socket has its ring from here on and receives;
// a TCP socket has none before Listen or Connect. Before the ring's first Poll from any one goroutine, then owner only.
func (s *Socket) Bind(local netip.AddrPort) error {
	if err := s.mayUse("bind"); err != nil {
		return err
	}
	if s.state != stateNew || s.local.IsValid() {
		return stateError("bind", s)
	}
	if err := s.ipOnly("bind"); err != nil {
		return err
	}
	var a sys.Sockaddr
	if err := a.Set(local, s.family); err != nil {
		return &OpError{Op: "bind", Addr: local, Err: err}
	}
	if s.handle.Kind == Datagram {
		if err := s.askPacketInfo(local.Addr()); err != nil {
			return err
		}
	}
	if n := s.set.config.Network; n != nil {
		var err error
		if s.local, err = n.Bind(s.handle.FD, local); err != nil {
			return &OpError{Op: "bind", Addr: local, Err: err}
		}
	} else {
		if e := sys.Bind(s.handle.FD, &a); e != 0 {
			return &OpError{Op: "bind", Addr: local, Err: e}
		}
		s.local = sys.SockName(s.handle.FD)
	}
	s.publish()
	if s.handle.Kind != Datagram {
		return nil
	}
	return s.open("bind", local)
}

// open makes a datagram socket receive.
func (s *Socket) open(op string, a netip.AddrPort) error {
	if err := s.join(); err != nil {
		return &OpError{Op: op, Addr: a, Err: err}
	}
	s.state = stateOpen
	s.touched = true
	return s.begin(op, a)
}

// begin starts reading for the call that makes the socket receive. A failure is the call's; failures that wait for Poll are not.
func (s *Socket) begin(op string, a netip.AddrPort) error {
	s.stops &^= stopEnded
	if s.stops != 0 {
		return nil
	}
	if err := s.ring.drv.Receive(s, true); err != nil {
		return &OpError{Op: op, Addr: a, Err: err}
	}
	return nil
}

// askPacketInfo asks for destination and interface where the kernel alone knows them: on a wildcard or a group.
func (s *Socket) askPacketInfo(local netip.Addr) error {
	if s.set.config.Network != nil {
		return nil // a stack of our own tells without being asked
	}
	if err := s.reportDrops(); err != nil {
		return err
	}
	s.handle.Stamped = s.config.Timestamps
	if s.config.Timestamps {
		s.handle.PktInfo = true
	}
	if flags := s.config.stampFlags(); flags != 0 {
		if s.handle.Foreign { // the kernel's numbering begins when it is switched on
			if err := s.setInt("timestamping", unix.SOL_SOCKET, unix.SO_TIMESTAMPING, 0); err != nil {
				return err
			}
		}
		if err := s.setInt("timestamping", unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags); err != nil {
			return err
		}
	}
	if s.config.Timestamps {
		// Also beside SO_TIMESTAMPING, which leaves a datagram without a stamp that was under way when stamping began.
		if err := s.setInt("timestamps", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return err
		}
	}
	if !s.config.PacketInfo && !local.IsUnspecified() && !local.IsMulticast() {
		return nil
	}
	s.handle.PktInfo = true
	if s.family == unix.AF_INET6 {
		return s.setInt("packet info", unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}
	return s.setInt("packet info", unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
}

// Listen makes a TCP or unix-domain socket accept by itself: connections come as NEW_CONNECTION completions. The backlog is the kernel's; 0 or
// less takes its maximum (net.core.somaxconn).
func (s *Socket) Listen(backlog int) error {
	if err := s.mayUse("listen"); err != nil {
		return err
	}
	if s.handle.Kind != Stream || s.state != stateNew {
		return stateError("listen", s)
	}
	if backlog <= 0 {
		backlog = 1<<16 - 1
	}
	if err := unix.Listen(s.handle.FD, backlog); err != nil {
		return &OpError{Op: "listen", Addr: s.local, Err: err}
	}
	s.local = sys.SockName(s.handle.FD)
	s.publish()
	s.handle.Kind = Listener
	if s.ring != nil {
		// BindToDevice introduced it to the driver as a connection. Nothing of it is armed yet, so the driver lets go at once.
		s.ring.drv.Detach(s)
		if err := s.ring.drv.Attach(s); err != nil {
			return &OpError{Op: "listen", Addr: s.local, Err: err}
		}
	}
	if err := s.join(); err != nil {
		return &OpError{Op: "listen", Addr: s.local, Err: err}
	}
	s.ring.listeners = append(s.ring.listeners, s)
	s.state = stateListening
	s.touched = true
	return s.begin("listen", s.local)
}

// Connect connects the socket. On TCP it only begins: EventOut tells that the connection stands, EventErr or EventHup with Err
// that it failed. A datagram socket is connected at once, receives from that peer only, and may be connected again.
func (s *Socket) Connect(remote netip.AddrPort) error {
	if err := s.mayUse("connect"); err != nil {
		return err
	}
	datagram := s.handle.Kind == Datagram && s.state < stateDead
	if !datagram && (s.handle.Kind != Stream || s.state != stateNew) {
		return stateError("connect", s)
	}
	if err := s.ipOnly("connect"); err != nil {
		return err
	}
	var a sys.Sockaddr
	if err := a.Set(remote, s.family); err != nil {
		return &OpError{Op: "connect", Addr: remote, Err: err}
	}
	if datagram && (s.config.Timestamps || s.config.TransmitTime || s.config.PacketInfo) && s.ring == nil && !s.handle.PktInfo {
		if err := s.askPacketInfo(remote.Addr()); err != nil {
			return err
		}
	}
	if n := s.set.config.Network; n != nil {
		local, err := n.Connect(s.handle.FD, remote)
		if err != nil {
			return &OpError{Op: "connect", Addr: remote, Err: err}
		}
		s.local = local
	} else {
		e := sys.Connect(s.handle.FD, &a)
		if e != 0 && e != unix.EINPROGRESS {
			return &OpError{Op: "connect", Addr: remote, Err: e}
		}
		s.local = sys.SockName(s.handle.FD)
	}
	s.remote = remote
	s.publish()
	if datagram {
		if s.state == stateOpen {
			return s.changed("connect")
		}
		return s.open("connect", remote)
	}
	if err := s.join(); err != nil {
		return &OpError{Op: "connect", Addr: remote, Err: err}
	}
	s.state = stateConnecting
	s.touched = true
	if err := s.ring.drv.NotifyWritable(s); err != nil {
		return &OpError{Op: "connect", Addr: remote, Err: err}
	}
	return nil
}

// SetConnectTimeout gives up connecting after d: the socket then ends with ETIMEDOUT. 0 leaves it to the kernel (about 2
// minutes: net.ipv4.tcp_syn_retries). After Connect.
func (s *Socket) SetConnectTimeout(d time.Duration) error {
	if err := s.mayUse("set connect timeout"); err != nil {
		return err
	}
	if d < 0 {
		return badArgument("set connect timeout", "time", d)
	}
	if s.state != stateConnecting {
		return stateError("set connect timeout", s)
	}
	at := clock.Never
	if d > 0 {
		at = s.ring.clock().Add(d)
	}
	s.setTimer(timerConnect, at)
	return nil
}

// BindToDevice ties the socket to an interface (SO_BINDTODEVICE). A TCP socket has its ring from here on (VMA: the same).
func (s *Socket) BindToDevice(name string) error {
	if err := s.mayUse("bind to device"); err != nil {
		return err
	}
	if s.state != stateNew {
		return stateError("bind to device", s)
	}
	if err := s.ipOnly("bind to device"); err != nil {
		return err
	}
	index, err := s.set.interfaceIndex(name)
	if err != nil {
		return &OpError{Op: "bind to device", Err: err}
	}
	tie := func() error { return unix.BindToDevice(s.handle.FD, name) }
	if n := s.set.config.Network; n != nil {
		tie = func() error { return n.Device(s.handle.FD, index) }
	}
	if err := tie(); err != nil {
		return &OpError{Op: "bind to device", Err: fmt.Errorf("%s: %w", name, err)}
	}
	s.device = index
	if s.handle.Kind == Stream {
		return s.join()
	}
	return nil
}
