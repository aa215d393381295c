package xtreme

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// ListenConfig is what ListenTCP makes a listener with. Its connections inherit what Linux lets them inherit, and the fields of SocketConfig but
// UserData.
type ListenConfig struct {
	SocketConfig
	IPConfig
	// NoDelay turns Nagle's algorithm off, or leaves it on where the setting VMA_TCP_NODELAY turns it off. (TCP_NODELAY)
	NoDelay Switch
	// KeepAlive probes idle peers. (SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT)
	KeepAlive KeepAlive
	// UserTimeout ends a connection whose sent data stays unacknowledged for so long; 0 leaves it to the kernel. (TCP_USER_TIMEOUT)
	UserTimeout time.Duration
	// Linger says what Close does, as Socket.SetLinger: 0 resets the connection, more waits so long for the peer's FIN; nil sends FIN.
	// (SO_LINGER)
	Linger *time.Duration
	// LargeStream receives into 64 KiB buffers, for bulk transfers.
	LargeStream bool

	// Backlog is the length of the accept queue; 0 means the kernel's maximum (net.core.somaxconn).
	Backlog int
	// AcceptTo is the first to be notified of each connection that the listener accepts, on the poller inside Poll (or Resume). False: it
	// goes on as usual. True: the descriptor is AcceptTo's; it is open, non-blocking and close-on-exec, nothing was read from it, and
	// no completion will speak of it. Typically it goes to another poller, by Post and Adopt there, or is closed because there
	// are connections enough. A poller that is closed does not run what was posted to it: a program that closes pollers while others
	// accept for them keeps count of the descriptors under way. peer is the zero AddrPort on unix-domain listeners.
	//
	// It must not block. A panic in it is contained as a callback's is: that connection is reset, the Poll it happened in (or the next)
	// returns it as an error. What it took is counted in RingStats.AcceptedAway, not in Accepted.
	AcceptTo func(fd int, peer netip.AddrPort) (taken bool)
}

func (c *ListenConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, IPConfig: c.IPConfig, noDelay: c.NoDelay, keepAlive: c.KeepAlive,
		userTimeout: c.UserTimeout, linger: c.Linger, largeStream: c.LargeStream, backlog: c.Backlog, acceptTo: c.AcceptTo}
}

// ListenTCP makes a listener on a; port 0 lets the kernel choose (Socket.LocalAddr tells). Its connections are accepted by the
// ring and come as EventNewConnection completions.
func (p *Poller) ListenTCP(a netip.AddrPort, c ListenConfig) (*Socket, error) {
	o := c.options()
	return p.makeIP(making{call: "ListenTCP", protocol: protocolTCP, kind: ring.KindStream, options: o}, a, func(s *Socket) error {
		if err := s.Bind(a); err != nil {
			return err
		}
		return listen(s, o)
	})
}

func listen(s *Socket, o *options) error {
	if o.backlog < 0 {
		return badField("Backlog", o.backlog)
	}
	return s.Listen(o.backlog)
}

// DialConfig is what DialTCP makes a connection with. NoDelay, KeepAlive, UserTimeout, Linger and LargeStream are as in ListenConfig.
type DialConfig struct {
	SocketConfig
	IPConfig
	NoDelay     Switch
	KeepAlive   KeepAlive
	UserTimeout time.Duration
	Linger      *time.Duration
	LargeStream bool

	// Local is the address that the connection is bound to first; the zero AddrPort leaves it to the kernel.
	Local netip.AddrPort
	// Timeout gives up connecting after so long: the connection ends with ETIMEDOUT. 0 leaves it to the kernel, which takes about two minutes
	// (net.ipv4.tcp_syn_retries).
	Timeout time.Duration
}

func (c *DialConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, IPConfig: c.IPConfig, noDelay: c.NoDelay, keepAlive: c.KeepAlive,
		userTimeout: c.UserTimeout, linger: c.Linger, largeStream: c.LargeStream}
}

// DialTCP begins to connect to a and returns at once, whatever the peer does: EventOut reports that the connection stands, EventErr or EventHup
// with Completion.Err that it failed. Names are not looked up: a resolver blocks, and has its place before this call
// (net.Resolver.LookupNetIP), or package netconn's dials.
func (p *Poller) DialTCP(a netip.AddrPort, c DialConfig) (*Socket, error) {
	return p.makeIP(making{call: "DialTCP", protocol: protocolTCP, kind: ring.KindStream, options: c.options()}, a, func(s *Socket) error {
		if c.Timeout < 0 {
			return badField("Timeout", c.Timeout)
		}
		if c.Local.IsValid() {
			if err := s.Bind(c.Local); err != nil {
				return err
			}
		}
		if err := s.Connect(a); err != nil {
			return err
		}
		if c.Timeout != 0 {
			return s.SetConnectTimeout(c.Timeout)
		}
		return nil
	})
}

// TCPConfig is what NewTCP makes a socket with; what else there is has a call on Socket.
type TCPConfig struct {
	SocketConfig
	LargeStream bool // as in ListenConfig
}

func (c *TCPConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largeStream: c.LargeStream}
}

// NewTCP and NewUDP make sockets in the steps of the sockets API, for code that is ported: Bind, Listen, Connect and the set
// calls of Socket follow. A ring exists only from the step on at which VMA has one: see Socket.Ring. Poller.Close closes a socket that has
// no ring yet as well.
func (p *Poller) NewTCP(ipv6 bool, c TCPConfig) (*Socket, error) {
	return p.makeIP(making{call: "NewTCP", protocol: protocolTCP, kind: ring.KindStream, options: c.options()}, anyOf(ipv6), nil)
}

func anyOf(ipv6 bool) netip.AddrPort {
	if ipv6 {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPort{}
}

// protocol is what a socket speaks.
type protocol uint8

const (
	protocolTCP protocol = iota
	protocolUDP
	protocolUnix
)

// making is one call that makes a socket.
type making struct {
	call     string
	protocol protocol
	kind     ring.SocketKind
	options  *options
}

// makeIP makes a TCP or UDP socket. open, which may be nil, goes on from a socket that has its options.
func (p *Poller) makeIP(m making, a netip.AddrPort, open func(*Socket) error) (*Socket, error) {
	return p.make(m, a.String(), func(c ring.Config) (*Socket, error) {
		family := a.Addr()
		if !family.IsValid() {
			family = m.options.remote.Addr()
		}
		return p.set.NewSocket(m.kind, family.Is6() && !family.Is4In6(), c)
	}, open)
}

// make makes the socket, sets what must be set before it is bound, goes on.
func (p *Poller) make(m making, address string, create func(ring.Config) (*Socket, error), open func(*Socket) error) (*Socket, error) {
	if err := p.mayUse(); err != nil {
		return nil, fmt.Errorf("xtreme: %s: %w", m.call, err)
	}
	if err := p.possible(m.protocol, m.options); err != nil {
		return nil, fmt.Errorf("xtreme: %s %s: %w", m.call, address, err)
	}
	p.making = true
	defer func() { p.making = false }()
	s, err := create(p.engine.ringConfig(m.options))
	if err != nil {
		return nil, fmt.Errorf("xtreme: %s: %w", m.call, err)
	}
	if err = p.engine.standard(s, m.protocol); err == nil {
		err = m.options.apply(s)
	}
	if err == nil && open != nil {
		p.peer = m.options.remote
		err = open(s)
		p.peer = netip.AddrPort{}
	}
	if err == nil && m.options.RequireOffload && s.Ring() != nil {
		err = carried(s)
	}
	if err != nil {
		_ = s.Discard() // the error that matters is the one being returned
		dieOf(err)
		return nil, fmt.Errorf("xtreme: %s: %w", m.call, err)
	}
	p.engine.opened.Inc()
	return s, nil
}

// possible reports whether what a configuration requires can be had, as far as that is known before there is a socket.
func (p *Poller) possible(of protocol, o *options) error {
	switch {
	case !o.RequireOffload:
		return nil
	case p.offloaded == nil:
		return required([]ring.Reason{notAsked(p.kind)})
	case of != protocolUDP:
		return required([]ring.Reason{noTCP})
	}
	return nil
}
