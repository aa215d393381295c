package gnet_test

import (
	"io"
	"net"
	"testing"
	"time"

	errorx "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

const datagrams = "udp://127.0.0.1:0"

// UDP, clients and registered connections: gnet's semantics one by one, asked of gnet itself too.
func TestUDPAndClients(t *testing.T) {
	semantics(t, map[string]func(*testing.T, world){
		"a UDP server: OnTraffic only, each datagram for itself, Close ignored": func(t *testing.T, w world) {
			conns := make(chan gnet.Conn, 4)
			seen := make(chan string, 4)
			a := &actor{}
			a.events.open = func(gnet.Conn) ([]byte, gnet.Action) { t.Error("OnOpen"); return nil, gnet.None }
			a.events.close = func(gnet.Conn, error) gnet.Action { t.Error("OnClose"); return gnet.None }
			a.events.traffic = func(c gnet.Conn) gnet.Action {
				assert.Nil(t, c.Context())
				assert.Nil(t, c.SafeContext())
				c.SetContext("kept?")
				c.SetSafeContext("kept?")
				b, _ := c.Peek(-1)
				seen <- string(b)
				conns <- c
				_, _ = c.Discard(1) // the rest is dropped
				return gnet.Close
			}
			s := w.serve(t, a, gnet.Options{}, datagrams)
			c := s.dial(t)
			for _, message := range []string{"one", "two"} {
				send(t, c, message)
				require.Equal(t, message, within(t, seen, "OnTraffic"))
			}
			first, second := within(t, conns, "a Conn"), within(t, conns, "a Conn")
			require.Equal(t, !w.exact, first == second, "a Conn for each datagram in gnet, for each peer by default")
			require.Equal(t, 0, s.engine.CountConnections())
			require.NoError(t, s.end(t))
		},
		"a UDP server: Shutdown is honoured": func(t *testing.T, w world) {
			a := &actor{events: handler{traffic: func(gnet.Conn) gnet.Action { return gnet.Shutdown }}}
			s := w.serve(t, a, gnet.Options{}, datagrams)
			send(t, s.dial(t), "x")
			require.NoError(t, s.wait(t))
		},
		"a UDP server: writing": func(t *testing.T, w world) {
			other, err := net.ListenPacket("udp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = other.Close() }()
			conns := make(chan gnet.Conn, 1)
			_, c := w.inTraffic(t, datagrams, "x", func(c gnet.Conn) gnet.Action {
				n, err := c.Write([]byte("one"))
				assert.NoError(t, err)
				assert.Equal(t, 3, n)
				called := false
				assert.NoError(t, c.AsyncWrite([]byte("two"), func(c gnet.Conn, err error) error {
					called = c == nil && err == nil
					return nil
				}))
				assert.True(t, called, "at once, with nothing")
				_, err = c.Writev([][]byte{[]byte("x")})
				assert.Equal(t, errorx.ErrUnsupportedOp, err)
				assert.Equal(t, errorx.ErrUnsupportedOp, c.AsyncWritev(nil, nil))
				_, err = c.SendTo([]byte("x"), nil)
				assert.Equal(t, errorx.ErrInvalidNetworkAddress, err)
				n, err = c.SendTo([]byte("elsewhere"), other.LocalAddr())
				assert.NoError(t, err)
				assert.Equal(t, 9, n)
				assert.Equal(t, errorx.ErrUnsupportedOp, c.SetKeepAlivePeriod(1e9))
				assert.Equal(t, errorx.ErrUnsupportedOp, c.SetKeepAlive(true, 1e9, 1e9, 1))
				assert.Zero(t, c.OutboundBuffered())
				conns <- c
				return gnet.None
			})
			expect(t, c, "one")
			expect(t, c, "two")
			b := make([]byte, 64)
			n, _, err := other.ReadFrom(b)
			require.NoError(t, err)
			require.Equal(t, "elsewhere", string(b[:n]))
			conn := within(t, conns, "the Conn")
			if !w.gnet() { // its own, when the handler has returned, has lost the peer's address under the race detector's eyes
				require.NoError(t, conn.AsyncWrite([]byte("afterwards"), nil))
				expect(t, c, "afterwards")
			}
		},
		"a UDP server: reading": func(t *testing.T, w world) {
			w.inTraffic(t, datagrams, "0123", func(c gnet.Conn) gnet.Action {
				b, err := c.Next(5)
				assert.Nil(t, b)
				assert.Equal(t, io.ErrShortBuffer, err)
				b, err = c.Next(1)
				assert.NoError(t, err)
				assert.Equal(t, "0", string(b))
				n, err := c.Read(make([]byte, 2))
				assert.NoError(t, err)
				assert.Equal(t, 2, n)
				n, err = c.Discard(0)
				assert.NoError(t, err)
				assert.Equal(t, 1, n)
				_, err = c.Read(make([]byte, 1))
				assert.Equal(t, io.ErrShortBuffer, err)
				return gnet.None
			})
		},
		"a client: Dial returns after OnOpen, with its context, and its Engine is empty": func(t *testing.T, w world) {
			s := w.serve(t, &actor{events: handler{traffic: echo}}, gnet.Options{}, loopback, datagrams, unixAddress(t))
			var j journal
			got := make(chan string, 4)
			closed := make(chan error, 4)
			a := &actor{}
			a.boot = func(e anEngine) gnet.Action {
				_, err := e.Dup()
				assert.Equal(t, errorx.ErrEmptyEngine, err)
				assert.Equal(t, errorx.ErrEmptyEngine, e.Validate())
				return gnet.Shutdown // which says nothing to a client
			}
			a.events.open = func(c gnet.Conn) ([]byte, gnet.Action) {
				j.note("OnOpen " + c.RemoteAddr().Network())
				assert.Equal(t, "context", c.Context())
				assert.Equal(t, "context", c.SafeContext())
				return []byte("hello"), gnet.None
			}
			a.events.traffic = func(c gnet.Conn) gnet.Action {
				b, _ := c.Next(-1)
				got <- c.Context().(string) + " " + string(b)
				return gnet.None
			}
			a.events.close = func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }
			cli := w.client(t, a, gnet.Options{})
			for i, address := range s.addrs {
				c, err := cli.DialContext(s.network[i], address, "context")
				require.NoError(t, err)
				j.note("Dial returned")
				require.Equal(t, "context hello", within(t, got, "the answer"))
				require.NoError(t, c.Close())
				require.NoError(t, within(t, closed, "OnClose"))
			}
			require.Equal(t, []string{"OnOpen tcp", "Dial returned", "OnOpen udp", "Dial returned", "OnOpen unix",
				"Dial returned"}, j.all())
			_, err := cli.Dial("tcp", "127.0.0.1:1")
			require.Error(t, err)
		},
		"a client: Enroll": func(t *testing.T, w world) {
			s := w.serve(t, &actor{events: handler{traffic: echo}}, gnet.Options{}, loopback)
			got := make(chan string, 1)
			cli := w.client(t, &actor{events: handler{
				open:    func(gnet.Conn) ([]byte, gnet.Action) { return []byte("hello"), gnet.None },
				traffic: func(c gnet.Conn) gnet.Action { b, _ := c.Next(-1); got <- string(b); return gnet.None },
			}}, gnet.Options{})
			nc, err := net.Dial("tcp", s.addrs[0])
			require.NoError(t, err)
			_, err = cli.Enroll(nc)
			require.NoError(t, err)
			require.Equal(t, "hello", within(t, got, "the answer"))
			_, err = nc.Write([]byte("x"))
			require.ErrorIs(t, err, net.ErrClosed, "the descriptor was duplicated")
		},
		"Register with a server": func(t *testing.T, w world) {
			peer, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = peer.Close() }()
			contexts := make(chan any, 1)
			loop := make(chan gnet.EventLoop, 1)
			a := &actor{boot: func(e anEngine) gnet.Action {
				_, err := e.Register(t.Context())
				assert.Equal(t, errorx.ErrEmptyEngine, err, "there are no loops yet")
				return gnet.None
			}}
			a.events.open = func(c gnet.Conn) ([]byte, gnet.Action) {
				if c.Context() == nil {
					loop <- c.EventLoop()
				} else {
					contexts <- c.Context()
				}
				return []byte("!"), gnet.None
			}
			s := w.serve(t, a, gnet.Options{LB: gnet.LeastConnections}, loopback)
			expect(t, s.dial(t), "!")
			el := within(t, loop, "OnOpen")
			_, err = s.engine.Register(t.Context())
			require.Equal(t, errorx.ErrInvalidNetworkAddress, err)

			ctx := gnet.NewContext(t.Context(), 7)
			nowhere := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
			for name, register := range map[string]func() (<-chan gnet.RegisteredResult, error){
				"a net.Conn wins over an address": func() (<-chan gnet.RegisteredResult, error) {
					nc, err := net.Dial("tcp", peer.Addr().String())
					require.NoError(t, err)
					return s.engine.Register(gnet.NewNetAddrContext(gnet.NewNetConnContext(ctx, nc), nowhere))
				},
				"an address": func() (<-chan gnet.RegisteredResult, error) {
					return s.engine.Register(gnet.NewNetAddrContext(ctx, peer.Addr()))
				},
				"an address, with a loop": func() (<-chan gnet.RegisteredResult, error) {
					return el.Register(ctx, peer.Addr())
				},
			} {
				answer, err := register()
				require.NoError(t, err, name)
				result := within(t, answer, name)
				require.NoError(t, result.Err, name)
				require.Equal(t, peer.Addr().String(), result.Conn.RemoteAddr().String())
				require.Equal(t, 7, within(t, contexts, name), "OnOpen came first")
				_, open := <-answer
				require.False(t, open, "the channel is closed after the one result")
				accepted, err := peer.Accept()
				require.NoError(t, err)
				require.NoError(t, accepted.SetDeadline(time.Now().Add(10*time.Second)))
				expect(t, accepted, "!")
				_ = accepted.Close()
			}
			answer, err := el.Register(ctx, nowhere)
			require.NoError(t, err)
			require.Error(t, within(t, answer, "the answer").Err, "nobody listens there")
		},
	})
}
