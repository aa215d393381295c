package gnet_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// What Next and Peek gave stays good until the handler, a callback or a function of Execute returns, also when the connection is closed
// meanwhile, which exact gnet does at once. What was not read is not there any more, as in gnet.
func TestBytesStayWhenTheConnectionIsClosedInside(t *testing.T) {
	t.Setenv("SX_BUFFER_DEBUG", "on") // a buffer that returned to the pool is overwritten
	const text = "hello, world"
	rings(t, func(t *testing.T, ring gnet.Option) {
		modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
			for _, where := range []string{"OnTraffic", "Wake", "callback", "Execute", "OnTraffic of another"} {
				t.Run(where, func(t *testing.T) {
					type result struct {
						next, peek, after []byte
						closed            bool
					}
					got := make(chan result, 1)
					closed := false
					read := func(c gnet.Conn) {
						peek, _ := c.Peek(4)
						next, _ := c.Next(5)
						_ = c.EventLoop().Close(c)
						r := result{closed: closed, next: bytes.Clone(next), peek: bytes.Clone(peek)}
						if r.closed {
							r.after, _ = c.Next(-1)
						}
						got <- r
					}
					there, woken := make(chan gnet.Conn, 2), false
					h := &handler{close: func(gnet.Conn, error) gnet.Action { closed = true; return gnet.None }}
					var first gnet.Conn
					h.traffic = func(c gnet.Conn) gnet.Action {
						if c.InboundBuffered() < len(text) {
							return gnet.None
						}
						switch {
						case where == "OnTraffic", woken:
							read(c)
						case where == "OnTraffic of another" && first != nil:
							read(first)
						default:
							first = c
							there <- c
						}
						return gnet.None
					}
					s := serve(t, h, loopback, ring, mode)
					_, err := s.dial(t).Write([]byte(text))
					require.NoError(t, err)
					if where != "OnTraffic" {
						c := within(t, there, "OnTraffic")
						switch where {
						case "Wake":
							require.NoError(t, c.EventLoop().Execute(t.Context(), gnet.RunnableFunc(func(context.Context) error {
								woken = true
								return c.Wake(nil)
							})))
						case "callback":
							require.NoError(t, c.AsyncWrite([]byte("x"), func(c gnet.Conn, err error) error { read(c); return err }))
						case "Execute":
							require.NoError(t, c.EventLoop().Execute(t.Context(), gnet.RunnableFunc(func(context.Context) error {
								read(c)
								return nil
							})))
						default:
							_, err := s.dial(t).Write([]byte(text))
							require.NoError(t, err)
						}
					}
					r := within(t, got, where)
					require.Equal(t, exact, r.closed, "OnClose comes inside")
					require.Equal(t, text[:5], string(r.next))
					require.Equal(t, text[:4], string(r.peek))
					require.Empty(t, r.after)
					s.stop(t)
					require.NoError(t, s.wait(t), "every buffer returned to the pool")
				})
			}
		})
	})
}
