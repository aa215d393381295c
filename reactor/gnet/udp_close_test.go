package gnet_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// Closing a connected UDP socket inside OnTraffic is as closing a stream there: OnClose comes when that has returned, what Next gave
// stays, and what is written in between says that it is over. In exact gnet OnClose comes inside.
func TestCloseOfConnectedUDPInTraffic(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for _, network := range []string{"tcp", "udp"} {
			for _, exact := range []bool{false, true} {
				w := world{kind, exact}
				t.Run(network+" "+w.String(), func(t *testing.T) {
					var address string
					if network == "tcp" {
						address = peer(t, "hello")
					} else {
						server, err := net.ListenPacket("udp", "127.0.0.1:0")
						require.NoError(t, err)
						defer func() { _ = server.Close() }()
						address = server.LocalAddr().String()
						go func() {
							b := make([]byte, 16)
							if _, from, err := server.ReadFrom(b); err == nil {
								_, _ = server.WriteTo([]byte("hello"), from)
							}
						}()
					}
					type result struct {
						inside, again bool
						data          string
						closed, write error
						suspend       error
					}
					got := make(chan result, 1)
					var r result
					inside, closes := false, 0
					a := &actor{}
					a.events.traffic = func(c gnet.Conn) gnet.Action {
						inside = true
						b, _ := c.Next(-1)
						r.closed = c.EventLoop().Close(c)
						_ = c.EventLoop().Close(c) // once is enough
						_, r.write = c.Write([]byte("late"))
						r.suspend = c.(gnet.ConnX).SuspendRead()
						r.data = string(b)
						inside = false
						if closes > 0 {
							got <- r
						}
						return gnet.None
					}
					a.events.close = func(c gnet.Conn, err error) gnet.Action {
						closes++
						r.inside, r.again = inside, closes > 1
						if !inside {
							got <- r
						}
						return gnet.None
					}
					cli := w.client(t, a, gnet.Options{})
					c, err := cli.Dial(network, address)
					require.NoError(t, err)
					require.NoError(t, c.AsyncWrite([]byte("q"), nil))
					r = within(t, got, "OnClose")
					require.Equal(t, exact, r.inside, "OnClose inside OnTraffic")
					require.False(t, r.again)
					require.NoError(t, r.closed)
					require.Equal(t, net.ErrClosed, r.write)
					require.Equal(t, net.ErrClosed, r.suspend)
					if network == "udp" {
						require.Equal(t, "hello", r.data)
					}
				})
			}
		}
	}
}

// CloseWithCallback, and Wake whose OnTraffic says Close, have closed a connected UDP socket when they call back.
func TestCallbacksOfConnectedUDPComeAfterOnClose(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		for _, by := range []string{"close", "wake"} {
			closes, calls := 0, make(chan int, 1)
			h := &handler{
				traffic: func(gnet.Conn) gnet.Action { return gnet.Close },
				close:   func(gnet.Conn, error) gnet.Action { closes++; return gnet.None },
			}
			cli, err := gnet.NewClient(h, ring)
			require.NoError(t, err)
			require.NoError(t, cli.Start())
			server, err := net.ListenPacket("udp", "127.0.0.1:0")
			require.NoError(t, err)
			c, err := cli.Dial("udp", server.LocalAddr().String())
			require.NoError(t, err)
			callback := func(gnet.Conn, error) error { calls <- closes; return nil }
			if by == "close" {
				require.NoError(t, c.CloseWithCallback(callback))
			} else {
				require.NoError(t, c.Wake(callback))
			}
			require.Equal(t, 1, within(t, calls, "the callback"), by)
			require.NoError(t, cli.Stop())
			require.NoError(t, server.Close())
		}
	})
}

// Several datagrams come in one batch, and OnTraffic of the first closes the connected socket: the packets of the others return to the pool.
func TestDatagramsBehindTheCloseGoHome(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		peer, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = peer.Close() }()
		require.NoError(t, peer.SetDeadline(time.Now().Add(20*time.Second)))
		closed := make(chan error, 1)
		seen := 0
		h := &handler{
			traffic: func(c gnet.Conn) gnet.Action { seen++; return gnet.Close },
			close:   func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None },
		}
		cli, err := gnet.NewClient(h, ring, gnet.WithNumEventLoop(1), gnet.WithBuffers(64, 8))
		require.NoError(t, err)
		require.NoError(t, cli.Start())
		const rounds, datagrams = 10, 16
		for range rounds {
			c, err := cli.Dial("udp", peer.LocalAddr().String())
			require.NoError(t, err)
			_, err = c.Write([]byte("hi"))
			require.NoError(t, err)
			_, from, err := peer.ReadFrom(make([]byte, 10))
			require.NoError(t, err)
			held, hold := make(chan struct{}), make(chan struct{})
			require.NoError(t, c.EventLoop().Execute(t.Context(), gnet.RunnableFunc(func(context.Context) error {
				close(held)
				<-hold // what comes meanwhile is one batch
				return nil
			})))
			within(t, held, "Execute")
			for range datagrams {
				_, err = peer.WriteTo([]byte("x"), from)
				require.NoError(t, err)
			}
			close(hold)
			require.NoError(t, within(t, closed, "OnClose"))
		}
		require.NoError(t, cli.Stop(), "every buffer returned to the pool")
		require.Equal(t, rounds, seen)
	})
}
