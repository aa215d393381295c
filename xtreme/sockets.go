package xtreme

import (
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring"
)

// ListenTCP makes a listener on a; port 0 lets the kernel choose (Socket.LocalAddr tells). Its connections are accepted by the
// ring and come as NewConnection completions.
func (o *Owner) ListenTCP(a netip.AddrPort, opt ...Option) (*Socket, error) {
	return o.make("ListenTCP", forListener, ring.Stream, a, opt, func(s *Socket, c *options) error {
		if err := s.Bind(a); err != nil {
			return err
		}
		return s.Listen(c.backlog)
	})
}

// DialTCP begins to connect to a and returns at once: Out tells that the connection stands, Err or Hup with Completion.Err that
// it failed.
func (o *Owner) DialTCP(a netip.AddrPort, opt ...Option) (*Socket, error) {
	return o.make("DialTCP", forDialer, ring.Stream, a, opt, func(s *Socket, c *options) error {
		if c.local.IsValid() {
			if err := s.Bind(c.local); err != nil {
				return err
			}
		}
		if err := s.Connect(a); err != nil {
			return err
		}
		if c.connectTimeout != 0 {
			return s.SetConnectTimeout(c.connectTimeout)
		}
		return nil
	})
}

// OpenUDP makes a UDP socket bound to local, which may be a multicast group (Join says on which interface; an address that is a
// group is joined even without). The zero AddrPort leaves it unbound: it has no ring before Connect or the first SendTo. Remote
// connects it.
func (o *Owner) OpenUDP(local netip.AddrPort, opt ...Option) (*Socket, error) {
	return o.make("OpenUDP", forDatagram, ring.Datagram, local, opt, func(s *Socket, c *options) error {
		if c.multicastAll == nil && local.Addr().IsMulticast() {
			// A group-bound socket that also got what others joined would see lines of interfaces it never asked for.
			if err := s.SetMulticastAll(false); err != nil {
				return err
			}
		}
		if err := c.joinGroups(s, local.Addr()); err != nil {
			return err
		}
		if local.IsValid() {
			if err := s.Bind(local); err != nil {
				return err
			}
		}
		if c.remote.IsValid() {
			return s.Connect(c.remote)
		}
		return nil
	})
}

// NewTCP and NewUDP make sockets in the steps of the sockets API, for code that is ported: Bind, Listen, Connect and the set
// calls of Socket follow. A ring exists only from the step on at which VMA has one: see Socket.Ring. Owner.Close closes a socket that has
// no ring yet as well.
func (o *Owner) NewTCP(ipv6 bool, opt ...Option) (*Socket, error) {
	return o.make("NewTCP", forBareTCP, ring.Stream, anyOf(ipv6), opt, nil)
}

// NewUDP makes a UDP socket that is not bound yet, as NewTCP makes a TCP socket.
func (o *Owner) NewUDP(ipv6 bool, opt ...Option) (*Socket, error) {
	return o.make("NewUDP", forBareUDP, ring.Datagram, anyOf(ipv6), opt, nil)
}

func anyOf(ipv6 bool) netip.AddrPort {
	if ipv6 {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPort{}
}

// make is the common part: collect the options, make the socket, set what must be set before it is bound, go on.
func (o *Owner) make(call string, scope scope, kind ring.SocketKind, a netip.AddrPort, opt []Option,
	open func(*Socket, *options) error) (*Socket, error) {
	return o.build(call, scope, a.String(), opt, func(c *options) (*Socket, error) {
		family := a.Addr()
		if !family.IsValid() {
			family = c.remote.Addr()
		}
		return o.set.NewSocket(kind, family.Is6() && !family.Is4In6(), c.socket)
	}, open)
}

// build is make for a socket of whatever address.
func (o *Owner) build(call string, scope scope, address string, opt []Option, create func(*options) (*Socket, error),
	open func(*Socket, *options) error) (*Socket, error) {
	if err := o.mayUse(); err != nil {
		return nil, fmt.Errorf("xtreme: %s: %w", call, err)
	}
	c, err := collect(call, scope, opt)
	if err != nil {
		return nil, err
	}
	o.engine.fill(c)
	if err := o.possible(call, scope, address, c); err != nil {
		return nil, err
	}
	o.making = true
	defer func() { o.making = false }()
	s, err := create(c)
	if err != nil {
		return nil, fmt.Errorf("xtreme: %s: %w", call, err)
	}
	if err = o.engine.standard(s, scope); err == nil {
		err = c.apply(s)
	}
	if err == nil && open != nil {
		o.peer = c.remote
		err = open(s, c)
		o.peer = netip.AddrPort{}
	}
	if err == nil && c.offload && s.Ring() != nil {
		err = carried(s)
	}
	if err != nil {
		_ = s.Discard() // the error that matters is the one being returned
		dieOf(err)
		return nil, fmt.Errorf("xtreme: %s: %w", call, err)
	}
	o.engine.opened.Inc()
	return s, nil
}

// possible tells whether what the options require can be had, as far as that is known before there is a socket.
func (o *Owner) possible(call string, scope scope, address string, c *options) error {
	if !c.offload {
		return nil
	}
	c.socket.RequireOffload = true
	switch {
	case o.off == nil:
		return fmt.Errorf("xtreme: %s %s: %w", call, address, required([]ring.Reason{notAsked(o.kind)}))
	case scope&forUDP == 0:
		return fmt.Errorf("xtreme: %s %s: %w", call, address, required([]ring.Reason{noTCP}))
	}
	return nil
}
