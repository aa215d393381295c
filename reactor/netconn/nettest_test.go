package netconn

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/socketxtreme/socketxtreme/conf"
)

// TestConn is golang.org/x/net's suite for a net.Conn, over TCP and unix, with both ends ours and with one of package net.
func TestConn(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		for _, network := range []string{"tcp", "unix"} {
			dialNet := func(a net.Addr) (net.Conn, error) { return net.Dial(a.Network(), a.String()) }
			dialOurs := func(a net.Addr) (net.Conn, error) { return n.Dial(a.Network(), a.String()) }
			listenNet := func() (net.Listener, error) { return net.Listen(network, address(t, network)) }
			listenOurs := func() (net.Listener, error) { return n.Listen(network, address(t, network)) }
			t.Run(network, func(t *testing.T) {
				t.Run("both ends", func(t *testing.T) { nettest.TestConn(t, pipe(listenOurs, dialOurs)) })
				t.Run("server", func(t *testing.T) { nettest.TestConn(t, pipe(listenOurs, dialNet)) })
				t.Run("client", func(t *testing.T) { nettest.TestConn(t, pipe(listenNet, dialOurs)) })
			})
		}
	})
}

func TestConnOnTwoLoops(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{Loops: 2})
		for _, network := range []string{"tcp", "unix"} {
			t.Run(network, func(t *testing.T) {
				nettest.TestConn(t, pipe(func() (net.Listener, error) { return n.Listen(network, address(t, network)) },
					func(a net.Addr) (net.Conn, error) { return n.Dial(a.Network(), a.String()) }))
			})
		}
	})
}

func pipe(listen func() (net.Listener, error), dial func(net.Addr) (net.Conn, error)) nettest.MakePipe {
	return func() (c1, c2 net.Conn, stop func(), err error) {
		ln, err := listen()
		if err != nil {
			return nil, nil, nil, err
		}
		if c1, err = dial(ln.Addr()); err != nil {
			return nil, nil, nil, err
		}
		if c2, err = ln.Accept(); err != nil {
			return nil, nil, nil, err
		}
		return c1, c2, func() { _ = c1.Close(); _ = c2.Close(); _ = ln.Close() }, nil
	}
}
