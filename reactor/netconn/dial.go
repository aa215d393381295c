package netconn

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Dial is DialContext without a context.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// DialContext connects to "host:port" on "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6", or to a path or "@" name on "unix".
// The result is a *Conn, or a *PacketConn for udp. A host name is looked up with Config.Resolver. Its addresses are
// tried as net.Dialer tries them: those of one family one after the other, each with its share of the time that ctx leaves, and on "tcp"
// those of the other family beside them after Config.FallbackDelay. It fits net/http's Transport.DialContext.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	switch {
	case network == "unix":
		return n.DialUnix(ctx, address, xtreme.UnixDialConfig{})
	case strings.HasPrefix(network, "u"):
		return n.DialUDP(ctx, network, address, xtreme.UDPConfig{})
	}
	return n.DialTCP(ctx, network, address, xtreme.DialConfig{})
}

// DialTCP is DialContext for "tcp", "tcp4" or "tcp6" with a configuration: Local, BindToDevice, TOS … Fields that are zero are as package net
// has them: NoDelay is on, and KeepAlive, every 15 s. Timeout bounds the attempt at each address. ReceiveMode, ReceiveCallback and UserData
// are the Network's.
func (n *Network) DialTCP(ctx context.Context, network, address string, c xtreme.DialConfig) (net.Conn, error) {
	return n.dial(ctx, network, address, "tcp", &c.SocketConfig, func(all []netip.AddrPort) (net.Conn, error) {
		return n.connectAny(ctx, network, all, c)
	})
}

// DialUDP is DialContext for "udp", "udp4" or "udp6" with a configuration, whose Remote is not used. ReceiveMode, ReceiveCallback and
// UserData are the Network's.
func (n *Network) DialUDP(ctx context.Context, network, address string, c xtreme.UDPConfig) (net.Conn, error) {
	return n.dial(ctx, network, address, "udp", &c.SocketConfig, func(all []netip.AddrPort) (net.Conn, error) {
		return n.connectUDP(network, all[0], c)
	})
}

// DialUnix is DialContext for "unix" with a configuration. ReceiveMode, ReceiveCallback and UserData are the Network's.
func (n *Network) DialUnix(ctx context.Context, name string, c xtreme.UnixDialConfig) (net.Conn, error) {
	const prefix = "" // the name is not looked up
	return n.dial(ctx, "unix", name, prefix, &c.SocketConfig, func([]netip.AddrPort) (net.Conn, error) {
		to := &net.UnixAddr{Name: name, Net: "unix"}
		return n.connect(ctx, "unix", to, func(l *loop) (*xtreme.Socket, error) {
			c := c
			l.configure(&c.SocketConfig)
			c.LargeStream = c.LargeStream || n.config.LargeStream
			return l.poller.DialUnix(name, c)
		})
	})
}

// dial opens a connection for one of the public calls. prefix is the protocol of the network, "tcp" or "udp", whose address is looked up;
// with "" the address is a name that is not looked up. connect connects to one of the addresses found.
func (n *Network) dial(ctx context.Context, network, address, prefix string, socket *xtreme.SocketConfig,
	connect func([]netip.AddrPort) (net.Conn, error)) (net.Conn, error) {
	c, err := n.resolveAndConnect(ctx, network, address, prefix, socket, connect)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			return nil, err // names the address that was tried
		}
		return nil, errorOf("dial", network, nil, nil, dialEnded(err)) // there is no address yet
	}
	return c, nil
}

// resolveAndConnect checks the configuration, looks up the address, and calls connect; see dial.
func (n *Network) resolveAndConnect(ctx context.Context, network, address, prefix string, socket *xtreme.SocketConfig,
	connect func([]netip.AddrPort) (net.Conn, error)) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, errorOf("dial", network, nil, textAddr{network, address}, dialEnded(err))
	}
	if err := refuseReserved(socket, nil); err != nil {
		return nil, err
	}
	if prefix == "" { // a unix-domain name needs no look-up
		return connect(nil)
	}
	fam, err := family(network, prefix)
	if err != nil {
		return nil, err
	}
	all, err := n.resolve(ctx, network, fam, address, toDial)
	if err != nil {
		return nil, err
	}
	return connect(all)
}

// connectFirst tries the addresses in order, each with its share of the time that is left. If all fail it returns the first error, as package
// net does.
func (n *Network) connectFirst(ctx context.Context, network string, all []netip.AddrPort,
	config xtreme.DialConfig) (net.Conn, error) {
	var first error
	for i, a := range all {
		try, cancel := share(ctx, len(all)-i)
		c, err := n.connect(try, network, net.TCPAddrFromAddrPort(a), func(l *loop) (*xtreme.Socket, error) {
			c := config
			l.configure(&c.SocketConfig)
			orElse(&c.NoDelay, xtreme.On)
			orElse(&c.KeepAlive, defaultKeepAlive)
			c.LargeStream = c.LargeStream || n.config.LargeStream
			return l.poller.DialTCP(a, c)
		})
		cancel()
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// leastShare is what an address gets even if others follow.
const leastShare = 2 * time.Second

// share returns a context for trying the next address, with its share of the time until ctx's deadline; left counts the addresses to be
// tried.
func share(ctx context.Context, left int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok || left == 1 {
		return ctx, func() {}
	}
	d := max(time.Until(end)/time.Duration(left), leastShare)
	return context.WithTimeout(ctx, d)
}

// connect makes a connection on a loop, and waits until it is established, has failed, ctx ends or the network closes. open runs on the loop and
// starts the connection.
func (n *Network) connect(ctx context.Context, network string, to net.Addr,
	open func(*loop) (*xtreme.Socket, error)) (net.Conn, error) {
	l := n.pick()
	c := newConn(l, network)
	dialled := make(chan error, 1)
	c.dialled = dialled
	err := l.reactor.Post(func() {
		failed := errPanicked
		defer func() {
			if failed != nil {
				c.socketClosed, c.dialled = true, nil
				dialled <- failed
			}
		}()
		s, err := open(l)
		if err != nil {
			failed = asNetError("connect", err)
			return
		}
		failed = nil
		c.open(s)
		c.serveCalls() // an abort before there was a socket had nothing to close: it takes effect now
	})
	if err != nil {
		err = net.ErrClosed
	} else {
		select {
		case err = <-dialled:
		case <-ctx.Done():
			err = ctx.Err()
		case <-n.ended:
			err = net.ErrClosed
		}
	}
	if err != nil {
		c.abort()
		return nil, errorOf("dial", network, nil, to, dialEnded(err))
	}
	return c, nil
}

// connected completes a dialled connection that is established. Loop only.
func (c *Conn) connected() {
	c.establish()
	if c.local.String() == c.remote.String() && c.network != "unix" {
		// A port of the kernel's choice met itself (RFC 793, simultaneous open): nobody listens there.
		c.refuse(unix.ECONNREFUSED)
		return
	}
	c.dialled <- nil
	c.dialled = nil
	c.serveCalls()
}

// refuse completes a dialled connection that has failed. Loop only.
func (c *Conn) refuse(cause error) {
	c.dialled <- cause
	c.dialled = nil
	c.closeSocket()
}
