package gnet_test

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// A panic in a datagram's OnTraffic costs that datagram: its buffer returns to the pool and its contexts do not stay.
func TestDatagramPanicKeepsNothing(t *testing.T) {
	const large = 8
	rings(t, func(t *testing.T, ring gnet.Option) {
		panicked := make(chan struct{}, 1)
		h := &handler{traffic: func(c gnet.Conn) gnet.Action {
			b, _ := c.Next(-1)
			require.Nil(t, c.Context())
			require.Nil(t, c.SafeContext())
			if string(b) == "panic" {
				c.SetContext(1)
				c.SetSafeContext(2)
				panicked <- struct{}{}
				panic("in OnTraffic")
			}
			_, _ = c.Write(b)
			return gnet.None
		}}
		s := serve(t, h, "udp://127.0.0.1:0", ring, gnet.WithBuffers(512, large), gnet.WithReadBufferCap(64<<10))
		c := s.dial(t)
		for range 3 * large {
			send(t, c, "panic")
			within(t, panicked, "OnTraffic")
		}
		send(t, c, "fine")
		expect(t, c, "fine")
		send(t, c, "panic") // and nothing after it
		within(t, panicked, "OnTraffic")
		s.stop(t)
		require.NoError(t, s.wait(t), "a packet was still held")
	})
}

// A panic in OnClose costs neither the socket of its connection nor the OnClose of another, whichever side closed it.
func TestPanicInOnCloseEndsTheConnection(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		closes := make(chan gnet.Conn, 8)
		h := &handler{}
		h.open = func(c gnet.Conn) ([]byte, gnet.Action) {
			require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Millisecond)))
			return nil, gnet.None
		}
		h.close = func(c gnet.Conn, err error) gnet.Action {
			closes <- c
			panic("in OnClose")
		}
		s := serve(t, h, loopback, ring)
		for range 2 {
			peer := s.dial(t)
			c := within(t, closes, "OnClose")
			_, err := io.ReadAll(peer)
			if err != nil {
				require.ErrorIs(t, err, unix.ECONNRESET)
			}
			require.Eventually(t, func() bool { return c.Fd() == -1 }, 5*time.Second, time.Millisecond)
		}
		require.Zero(t, s.engine.CountConnections())
		s.stop(t)
		require.Empty(t, closes)
	})
}

// A panic in the OnOpen of a connection that a client dials is Dial's error.
func TestPanicInOnOpenOfDial(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		for _, network := range []string{"tcp", "udp"} {
			s := serve(t, &handler{traffic: echo}, network+"://127.0.0.1:0", ring)
			closed := make(chan error, 1)
			cli, err := gnet.NewClient(&handler{
				open:  func(gnet.Conn) ([]byte, gnet.Action) { panic("in OnOpen") },
				close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None },
			}, ring)
			require.NoError(t, err)
			require.NoError(t, cli.Start())
			dialled := make(chan error, 1)
			go func() { _, err := cli.Dial(network, s.addr.String()); dialled <- err }()
			require.ErrorIs(t, within(t, dialled, "Dial's return"), gnet.ErrHandlerPanic)
			require.ErrorIs(t, within(t, closed, "OnClose"), gnet.ErrHandlerPanic)
			require.NoError(t, cli.Stop())
		}
	})
}

// nobody is a UDP address where nobody listens.
func nobody(t *testing.T) string {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.LocalAddr().String()
}

// What ICMP reports a connected UDP socket is the next Write's error, once; exact gnet closes the connection.
func TestConnectedUDPRefused(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
			closed := make(chan error, 1)
			cli, err := gnet.NewClient(&handler{
				close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }}, ring, mode)
			require.NoError(t, err)
			require.NoError(t, cli.Start())
			defer func() { require.NoError(t, cli.Stop()) }()
			c, err := cli.Dial("udp", nobody(t))
			require.NoError(t, err)
			_, err = c.Write([]byte("x"))
			require.NoError(t, err)
			if exact {
				require.Equal(t, io.EOF, within(t, closed, "OnClose"))
				require.Eventually(t, func() bool { return c.Fd() == -1 }, 5*time.Second, time.Millisecond)
				_, err = c.Write([]byte("x"))
				require.Error(t, err)
				return
			}
			time.Sleep(100 * time.Millisecond) // for the ring to take it from the socket: the kernel would tell as well
			_, err = c.Write([]byte("x"))
			require.ErrorIs(t, err, unix.ECONNREFUSED)
			_, err = c.Write([]byte("x"))
			require.NoError(t, err)
			require.Empty(t, closed)
		})
	})
}

// The action Close of a connected UDP Conn's OnTraffic closes it, as in gnet.
func TestConnectedUDPActionClose(t *testing.T) {
	semantics(t, map[string]func(t *testing.T, w world){"close": func(t *testing.T, w world) {
		s := w.serve(t, &actor{events: handler{traffic: echo}}, gnet.Options{}, "udp://127.0.0.1:0")
		closed := make(chan error, 1)
		a := &actor{events: handler{
			traffic: func(gnet.Conn) gnet.Action { return gnet.Close },
			close:   func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None },
		}}
		c, err := w.client(t, a, gnet.Options{}).Dial("udp", s.addrs[0])
		require.NoError(t, err)
		send(t, c, "x")
		require.NoError(t, within(t, closed, "OnClose"))
	}})
}

// A connected UDP Conn is a ConnX: idle times and suspension work, what comes meanwhile waits in order.
func TestConnectedUDPIsConnX(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		s := serve(t, &handler{traffic: func(c gnet.Conn) gnet.Action {
			_, is := c.(gnet.ConnX)
			require.False(t, is, "a server's")
			return echo(c)
		}}, "udp://127.0.0.1:0", ring)
		var suspended atomic.Bool
		got, closed := make(chan string, 8), make(chan error, 1)
		cli, err := gnet.NewClient(&handler{
			traffic: func(c gnet.Conn) gnet.Action {
				require.False(t, suspended.Load())
				x := c.(gnet.ConnX)
				require.NotNil(t, x.Socket())
				b, _ := c.Next(-1)
				got <- string(b)
				if string(b) == "1" {
					suspended.Store(true)
					require.NoError(t, x.SuspendRead())
				}
				return gnet.None
			},
			close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None },
		}, ring, gnet.WithIdleTimeout(600*time.Millisecond))
		require.NoError(t, err)
		require.NoError(t, cli.Start())
		defer func() { require.NoError(t, cli.Stop()) }()
		c, err := cli.Dial("udp", s.addr.String())
		require.NoError(t, err)
		for _, m := range []string{"1", "2", "3"} {
			send(t, c, m)
		}
		require.Equal(t, "1", within(t, got, "the first"))
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, got)
		require.NoError(t, c.EventLoop().Execute(t.Context(), runnable(func() error {
			suspended.Store(false)
			require.NoError(t, c.(gnet.ConnX).ResumeRead())
			return nil
		})))
		require.Equal(t, "2", within(t, got, "the second"))
		require.Equal(t, "3", within(t, got, "the third"))
		begin := time.Now()
		send(t, c, "4") // from here on it is idle
		require.Equal(t, "4", within(t, got, "the fourth"))
		require.ErrorIs(t, within(t, closed, "the idle end"), os.ErrDeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(begin), 590*time.Millisecond)
	})
}
