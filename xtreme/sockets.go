package xtreme

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// ListenConfig configures a TCP listener. Its connections inherit the fields of SocketConfig except UserData, and those options of IPConfig
// and of TCP that Linux lets them inherit.
type ListenConfig struct {
	SocketConfig
	IPConfig
	// NoDelay On turns Nagle's algorithm off; Off keeps it on, even where the setting VMA_TCP_NODELAY turns it off. (TCP_NODELAY)
	NoDelay Switch
	// KeepAlive probes idle peers. (SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT)
	KeepAlive KeepAlive
	// UserTimeout ends a connection whose sent data stays unacknowledged for so long; 0 leaves it to the kernel. (TCP_USER_TIMEOUT)
	UserTimeout time.Duration
	// Linger says what Close does, as Socket.SetLinger: nil sends FIN; 0 resets the connection; a longer time sends FIN and waits that long for
	// the peer's. (SO_LINGER)
	Linger *time.Duration
	// LargeStream receives into 64 KiB buffers, for bulk transfers.
	LargeStream bool

	// Backlog is the length of the accept queue; 0 means the kernel's maximum (net.core.somaxconn).
	Backlog int
	// AcceptTo is called for each connection that the listener accepts, on the owner's goroutine inside Poll or Resume, before there is a
	// Socket for it. If it returns false, the connection becomes a Socket of this poller as usual. If it returns true, the descriptor fd belongs
	// to the program: it is open, non-blocking and close-on-exec, nothing was read from it, and no completion announces it. Usually the
	// program gives it to another poller, whose Post runs Adopt, or closes it because there are too many connections. peer is the zero AddrPort
	// on unix-domain listeners.
	//
	// A poller that is closed does not run functions that were posted to it. A program that closes pollers while others accept for them must
	// therefore keep a list of the descriptors that are under way.
	//
	// A connection of our own TCP (SX_OFFLOAD_TCP) has no descriptor: fd is a number from 2^30 on that Adopt of a poller of this engine takes.
	// Engine.CloseAccepted ends one that nobody is to have, and closes descriptors too.
	//
	// AcceptTo must not block. If it panics, the connection is reset, and this Poll or the next one returns the panic as an error. Connections
	// for which it returns true are counted in RingStats.AcceptedAway, not in Accepted.
	AcceptTo func(fd int, peer netip.AddrPort) (taken bool)
}

// options converts the configuration to the common form.
func (c *ListenConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, IPConfig: c.IPConfig, noDelay: c.NoDelay, keepAlive: c.KeepAlive,
		userTimeout: c.UserTimeout, linger: c.Linger, largeStream: c.LargeStream, backlog: c.Backlog, acceptTo: c.AcceptTo}
}

// ListenTCP makes a listener on the address a. With port 0 the kernel chooses a port; Socket.LocalAddr returns it. The ring accepts connections
// by itself and announces each with an EventNewConnection completion.
//
// On a poller of kind offload the first socket that needs an interface opens it, as DialTCP says.
func (p *Poller) ListenTCP(a netip.AddrPort, c ListenConfig) (*Socket, error) {
	o := c.options()
	return p.makeIP(makeCall{name: "ListenTCP", protocol: protocolTCP, kind: ring.KindStream, options: o}, a, func(s *Socket) error {
		if err := s.Bind(a); err != nil {
			return err
		}
		return listen(s, o)
	})
}

// listen turns a bound socket into a listener with the backlog of its configuration.
func listen(s *Socket, o *options) error {
	if o.backlog < 0 {
		return badField("Backlog", o.backlog)
	}
	return s.Listen(o.backlog)
}

// DialConfig configures a TCP connection. NoDelay, KeepAlive, UserTimeout, Linger and LargeStream are as in ListenConfig.
type DialConfig struct {
	SocketConfig
	IPConfig
	NoDelay     Switch
	KeepAlive   KeepAlive
	UserTimeout time.Duration
	Linger      *time.Duration
	LargeStream bool

	// Local is the address that the socket is bound to before it connects; the zero AddrPort lets the kernel choose.
	Local netip.AddrPort
	// Timeout is how long connecting may take: after it the connection ends with ETIMEDOUT. 0 leaves it to the kernel, which tries for about two
	// minutes (net.ipv4.tcp_syn_retries).
	Timeout time.Duration
}

// options converts the configuration to the common form.
func (c *DialConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, IPConfig: c.IPConfig, noDelay: c.NoDelay, keepAlive: c.KeepAlive,
		userTimeout: c.UserTimeout, linger: c.Linger, largeStream: c.LargeStream}
}

// DialTCP begins to connect to the address a and does not wait for the peer. A completion with EventOut reports that the connection is
// established; one with EventErr or EventHup that it failed, with the error in Completion.Err. DialTCP takes addresses and no names, because
// looking up a name blocks: call net.Resolver.LookupNetIP before, or use package netconn.
//
// On a poller of kind offload the first socket that needs an interface opens it. That takes milliseconds, and some hundreds while the kernel's
// configuration is busy or a queue was just released. The first socket of our own TCP also resets the peers of earlier processes that were
// killed, where there are such, which takes two seconds at the most. Poller.OpenInterface does all of it beforehand.
func (p *Poller) DialTCP(a netip.AddrPort, c DialConfig) (*Socket, error) {
	return p.makeIP(makeCall{name: "DialTCP", protocol: protocolTCP, kind: ring.KindStream, options: c.options()}, a, func(s *Socket) error {
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

// TCPConfig configures the socket of NewTCP: what must be known when it is made. Socket has calls for everything else.
type TCPConfig struct {
	SocketConfig
	LargeStream bool // as in ListenConfig
}

// options converts the configuration to the common form.
func (c *TCPConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largeStream: c.LargeStream}
}

// NewTCP makes a TCP socket that is neither bound nor connected, for code that was written for the sockets API: Bind, Listen, Connect and the
// setters of Socket follow. ListenTCP and DialTCP do it all in one call. The socket gets its ring when VMA would give it one, at Listen or
// Connect: see Socket.Ring. Poller.Close closes a socket without a ring too. The family is IPv4 or IPv6.
func (p *Poller) NewTCP(family Family, c TCPConfig) (*Socket, error) {
	return p.makeUnbound(makeCall{name: "NewTCP", protocol: protocolTCP, kind: ring.KindStream, options: c.options()}, family)
}

// protocol is the protocol of a socket.
type protocol uint8

const (
	protocolTCP protocol = iota
	protocolUDP
	protocolUnix
)

// makeCall describes the public call that makes a socket.
type makeCall struct {
	name     string // for errors
	protocol protocol
	kind     ring.SocketKind // not of unix-domain sockets
	options  *options
}

// makeIP is makeSocket for a TCP or UDP socket with an address. Its family is that of the address a, or, if a is the zero AddrPort, of the peer.
func (p *Poller) makeIP(m makeCall, a netip.AddrPort, open func(*Socket) error) (*Socket, error) {
	return p.makeSocket(m, a.String(), func(c ring.Config) (*Socket, error) {
		named := a.Addr()
		if !named.IsValid() {
			named = m.options.remote.Addr()
		}
		return p.set.NewSocket(m.kind, ring.FamilyOfAddr(named), c)
	}, open)
}

// makeUnbound is makeSocket for a TCP or UDP socket that has no address yet.
func (p *Poller) makeUnbound(m makeCall, family Family) (*Socket, error) {
	const address = "without an address"
	return p.makeSocket(m, address, func(c ring.Config) (*Socket, error) { return p.set.NewSocket(m.kind, family, c) }, nil)
}

// makeSocket is what all calls that make a socket have in common: it creates the socket with create, applies the settings and then its options,
// and binds, connects or listens with open, which may be nil. On an error the socket is closed. address is for the error.
func (p *Poller) makeSocket(m makeCall, address string, create func(ring.Config) (*Socket, error), open func(*Socket) error) (*Socket, error) {
	s, err := p.makeUntraced(m, address, create, open)
	p.tracer.made(m.name, address, s, err)
	return s, err
}

// makeUntraced is makeSocket without a line in the log.
func (p *Poller) makeUntraced(m makeCall, address string, create func(ring.Config) (*Socket, error), open func(*Socket) error) (*Socket, error) {
	if err := p.mayUse(); err != nil {
		return nil, fmt.Errorf("xtreme: %s: %w", m.name, err)
	}
	if err := p.offloadPossible(m.protocol, m.options); err != nil {
		return nil, fmt.Errorf("xtreme: %s %s: %w", m.name, address, err)
	}
	p.making = true
	defer func() { p.making = false }()
	s, err := create(p.engine.ringConfig(m.options))
	if err != nil {
		return nil, fmt.Errorf("xtreme: %s: %w", m.name, err)
	}
	if err = p.engine.applySettings(s, m.protocol); err == nil {
		err = m.options.apply(s)
	}
	if err == nil && open != nil {
		p.peer = m.options.remote
		err = open(s)
		p.peer = netip.AddrPort{}
	}
	switch {
	case err != nil || s.Ring() == nil:
	case m.options.RequireOffload:
		err = checkOffloaded(s)
	default:
		err = p.checkRules(s, m.options.remote)
	}
	if err != nil {
		_ = s.Discard() // the error that matters is the one being returned
		panicIfFatal(err)
		return nil, fmt.Errorf("xtreme: %s: %w", m.name, err)
	}
	p.engine.opened.Inc()
	return s, nil
}

// offloadPossible returns an error if a configuration requires an offloaded socket and this poller cannot offload the protocol at all. What
// depends on the socket's addresses is decided later, by place.
func (p *Poller) offloadPossible(of protocol, o *options) error {
	switch {
	case !o.RequireOffload:
		return nil
	case p.offloaded == nil:
		return notOffloadedError([]ring.Reason{notAsked(p.kind)})
	case of == protocolTCP && !p.offloaded.tcp():
		return notOffloadedError([]ring.Reason{noTCP})
	case of == protocolUnix:
		return notOffloadedError([]ring.Reason{noUnix})
	}
	return nil
}
