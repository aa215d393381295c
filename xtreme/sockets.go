package xtreme

import (
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring"
)

// ListenTCP makes a listener on a; port 0 lets the kernel choose (Socket.LocalAddr tells). Its connections are accepted by the
// ring and come as EventNewConnection completions.
func (p *Poller) ListenTCP(a netip.AddrPort, opt ...Option) (*Socket, error) {
	return p.make("ListenTCP", forListener, ring.KindStream, a, opt, func(s *Socket, c *options) error {
		if err := s.Bind(a); err != nil {
			return err
		}
		return s.Listen(c.backlog)
	})
}

// DialTCP begins to connect to a and returns at once: Out reports that the connection stands, Err or Hup with Completion.Err that
// it failed.
func (p *Poller) DialTCP(a netip.AddrPort, opt ...Option) (*Socket, error) {
	return p.make("DialTCP", forDialer, ring.KindStream, a, opt, func(s *Socket, c *options) error {
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
func (p *Poller) OpenUDP(local netip.AddrPort, opt ...Option) (*Socket, error) {
	return p.make("OpenUDP", forDatagram, ring.KindDatagram, local, opt, func(s *Socket, c *options) error {
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
// calls of Socket follow. A ring exists only from the step on at which VMA has one: see Socket.Ring. Poller.Close closes a socket that has
// no ring yet as well.
func (p *Poller) NewTCP(ipv6 bool, opt ...Option) (*Socket, error) {
	return p.make("NewTCP", forBareTCP, ring.KindStream, anyOf(ipv6), opt, nil)
}

// NewUDP makes a UDP socket that is not bound yet, as NewTCP makes a TCP socket.
func (p *Poller) NewUDP(ipv6 bool, opt ...Option) (*Socket, error) {
	return p.make("NewUDP", forBareUDP, ring.KindDatagram, anyOf(ipv6), opt, nil)
}

func anyOf(ipv6 bool) netip.AddrPort {
	if ipv6 {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPort{}
}

// make is the common part: collect the options, make the socket, set what must be set before it is bound, go on.
func (p *Poller) make(call string, scope scope, kind ring.SocketKind, a netip.AddrPort, opt []Option,
	open func(*Socket, *options) error) (*Socket, error) {
	return p.openRings(call, scope, a.String(), opt, func(c *options) (*Socket, error) {
		family := a.Addr()
		if !family.IsValid() {
			family = c.remote.Addr()
		}
		return p.set.NewSocket(kind, family.Is6() && !family.Is4In6(), c.socket)
	}, open)
}

// openRings is make for a socket of whatever address.
func (p *Poller) openRings(call string, scope scope, address string, opt []Option, create func(*options) (*Socket, error),
	open func(*Socket, *options) error) (*Socket, error) {
	if err := p.mayUse(); err != nil {
		return nil, fmt.Errorf("xtreme: %s: %w", call, err)
	}
	c, err := collect(call, scope, opt)
	if err != nil {
		return nil, err
	}
	p.engine.fill(c)
	if err := p.possible(call, scope, address, c); err != nil {
		return nil, err
	}
	p.making = true
	defer func() { p.making = false }()
	s, err := create(c)
	if err != nil {
		return nil, fmt.Errorf("xtreme: %s: %w", call, err)
	}
	if err = p.engine.standard(s, scope); err == nil {
		err = c.apply(s)
	}
	if err == nil && open != nil {
		p.peer = c.remote
		err = open(s, c)
		p.peer = netip.AddrPort{}
	}
	if err == nil && c.offload && s.Ring() != nil {
		err = carried(s)
	}
	if err != nil {
		_ = s.Discard() // the error that matters is the one being returned
		dieOf(err)
		return nil, fmt.Errorf("xtreme: %s: %w", call, err)
	}
	p.engine.opened.Inc()
	return s, nil
}

// possible reports whether what the options require can be had, as far as that is known before there is a socket.
func (p *Poller) possible(call string, scope scope, address string, c *options) error {
	if !c.offload {
		return nil
	}
	c.socket.RequireOffload = true
	switch {
	case p.offloaded == nil:
		return fmt.Errorf("xtreme: %s %s: %w", call, address, required([]ring.Reason{notAsked(p.kind)}))
	case scope&forUDP == 0:
		return fmt.Errorf("xtreme: %s %s: %w", call, address, required([]ring.Reason{noTCP}))
	}
	return nil
}
