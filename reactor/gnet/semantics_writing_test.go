package gnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	errorx "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// fill writes until the kernel takes no more; it returns how much that was.
func fill(t *testing.T, c gnet.Conn, piece []byte) (total int) {
	for range 1000 {
		n, err := c.Write(piece)
		assert.NoError(t, err)
		assert.Equal(t, len(piece), n, "the whole length, though part of it waits")
		total += n
		if c.OutboundBuffered() > 0 {
			return total
		}
	}
	assert.Fail(t, "the kernel takes everything")
	return total
}

// sockopt is a socket option as the kernel has it.
func sockopt(t *testing.T, c gnet.Conn, level, option int) int {
	fd, err := c.Dup()
	assert.NoError(t, err)
	defer func() { _ = closeFD(fd) }()
	v, err := unix.GetsockoptInt(fd, level, option)
	assert.NoError(t, err)
	return v
}

// Writing, closing and the calls of other goroutines: gnet's semantics one by one, asked of gnet itself too.
func TestWriting(t *testing.T) {
	semantics(t, map[string]func(*testing.T, world){
		"Write returns the length when it keeps some; what follows stays in order": func(t *testing.T, w world) {
			piece := noise(64 << 10)
			total := make(chan int, 1)
			_, c := w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				n := fill(t, c, piece)
				before := c.OutboundBuffered()
				m, err := c.Writev([][]byte{[]byte("in "), []byte("order")})
				assert.NoError(t, err)
				assert.Equal(t, 8, m)
				assert.Equal(t, before+8, c.OutboundBuffered())
				total <- n
				return gnet.None
			})
			n := within(t, total, "the writes")
			got := make([]byte, n)
			_, err := io.ReadFull(c, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(bytes.Repeat(piece, n/len(piece)), got))
			expect(t, c, "in order")
		},
		"Writev": func(t *testing.T, w world) {
			pieces := 300
			if !w.gnet() {
				pieces = 3000 // gnet gives the kernel more than it takes, and closes the connection
			}
			_, c := w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				bs := make([][]byte, pieces)
				for i := range bs {
					bs[i] = []byte{byte(i)}
				}
				n, err := c.Writev(bs)
				assert.NoError(t, err)
				assert.Equal(t, pieces, n)
				return gnet.None
			})
			got := make([]byte, pieces)
			_, err := io.ReadFull(c, got)
			require.NoError(t, err)
			for i, b := range got {
				require.Equal(t, byte(i), b)
			}
		},
		"ReadFrom waits for Flush": func(t *testing.T, w world) {
			s, c := w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				assert.NoError(t, c.Flush(), "of nothing")
				n, err := c.ReadFrom(strings.NewReader("flushed,"))
				assert.NoError(t, err)
				assert.Equal(t, int64(8), n)
				assert.Equal(t, 8, c.OutboundBuffered())
				assert.NoError(t, c.Flush())
				assert.Zero(t, c.OutboundBuffered())
				_, err = c.ReadFrom(strings.NewReader("waiting"))
				assert.NoError(t, err)
				return gnet.None
			})
			expect(t, c, "flushed,")
			if w.exact {
				silent(t, c)
				require.NoError(t, s.end(t))
			}
			expect(t, c, "waiting") // exact: with the end; default: when the handler had returned
		},
		"AsyncWrite and AsyncWritev call back on the loop": func(t *testing.T, w world) {
			type called struct {
				c   gnet.Conn
				err error
			}
			calls, conns := make(chan called, 4), make(chan gnet.Conn, 1)
			_, c := w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				_, _ = c.Discard(-1)
				conns <- c
				return gnet.None
			})
			conn := within(t, conns, "the Conn")
			back := func(c gnet.Conn, err error) error {
				calls <- called{c, err}
				return errors.New("which nobody looks at")
			}
			require.NoError(t, conn.AsyncWrite([]byte("one "), back))
			require.NoError(t, conn.AsyncWritev([][]byte{[]byte("two "), []byte("three")}, back))
			expect(t, c, "one two three")
			require.Equal(t, called{conn, nil}, within(t, calls, "a callback"))
			require.Equal(t, called{conn, nil}, within(t, calls, "a callback"))

			require.NoError(t, conn.CloseWithCallback(back))
			require.NoError(t, within(t, calls, "the callback of closing").err)
			require.NoError(t, conn.AsyncWrite([]byte("late"), back), "the call itself knows nothing")
			require.Equal(t, net.ErrClosed, within(t, calls, "the callback of a closed connection").err)
			require.NoError(t, conn.AsyncWritev([][]byte{[]byte("late")}, back))
			require.Equal(t, net.ErrClosed, within(t, calls, "the callback of a closed connection").err)
			require.NoError(t, conn.Close(), "again")
			require.NoError(t, conn.CloseWithCallback(back), "again")
			require.NoError(t, within(t, calls, "the callback of closing again").err)
			require.NoError(t, conn.Wake(back))
			require.NoError(t, within(t, calls, "the callback of waking a closed connection").err)
		},
		"what other goroutines ask for is done in their order": func(t *testing.T, w world) {
			var j journal
			done := make(chan struct{})
			conns := make(chan gnet.Conn, 1)
			first := true
			a := &actor{}
			a.events.traffic = func(c gnet.Conn) gnet.Action {
				if first {
					first = false
					conns <- c
				} else {
					j.note("woken")
				}
				return gnet.None
			}
			a.events.close = func(gnet.Conn, error) gnet.Action { j.note("OnClose"); return gnet.None }
			c := w.serve(t, a, gnet.Options{}, loopback).dial(t)
			send(t, c, "x")
			conn := within(t, conns, "the Conn")
			back := func(s string) gnet.AsyncCallback {
				return func(gnet.Conn, error) error { j.note(s); return nil }
			}
			require.NoError(t, conn.EventLoop().Execute(t.Context(), runnable(func() error { j.note("executed"); return nil })))
			require.NoError(t, conn.AsyncWrite([]byte("x"), back("written")))
			require.NoError(t, conn.Wake(back("woke")))
			require.NoError(t, conn.CloseWithCallback(func(gnet.Conn, error) error { j.note("closed"); close(done); return nil }))
			within(t, done, "the last callback")
			require.Equal(t, []string{"executed", "written", "woken", "woke", "OnClose", "closed"}, j.all())
		},
		"OnOpen's bytes are sent before its action": func(t *testing.T, w world) {
			a := &actor{events: handler{open: func(gnet.Conn) ([]byte, gnet.Action) { return []byte("bye"), gnet.Close }}}
			c := w.serve(t, a, gnet.Options{}, loopback).dial(t)
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, "bye", string(got))
		},
		"Close after Write: OnClose, then what the kernel takes, then the end": func(t *testing.T, w world) {
			waiting := make(chan int, 1)
			total := make(chan int, 1)
			piece := noise(64 << 10)
			a := &actor{}
			a.events.close = func(c gnet.Conn, err error) gnet.Action {
				assert.NoError(t, err)
				waiting <- c.OutboundBuffered()
				return gnet.None
			}
			a.events.traffic = func(c gnet.Conn) gnet.Action {
				_, _ = c.Discard(-1)
				total <- fill(t, c, piece)
				return gnet.Close
			}
			c := w.serve(t, a, gnet.Options{}, loopback).dial(t)
			send(t, c, "x")
			require.Positive(t, within(t, waiting, "OnClose"))
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			n := within(t, total, "the sum")
			require.LessOrEqual(t, len(got), n)
			require.Greater(t, len(got), n/4)
			require.True(t, bytes.Equal(bytes.Repeat(piece, n/len(piece))[:len(got)], got))
		},
		"a last word from OnClose": func(t *testing.T, w world) {
			a := &actor{}
			a.events.traffic = func(c gnet.Conn) gnet.Action { _, _ = c.Discard(-1); return gnet.Close }
			a.events.close = func(c gnet.Conn, _ error) gnet.Action {
				n, err := c.Write([]byte("bye"))
				assert.NoError(t, err)
				assert.Equal(t, 3, n)
				return gnet.None
			}
			c := w.serve(t, a, gnet.Options{}, loopback).dial(t)
			send(t, c, "x")
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, "bye", string(got))
		},
		"a write that fails closes: at once, or when the handler has returned": func(t *testing.T, w world) {
			var j journal
			closed, gone := make(chan error, 1), make(chan struct{})
			a := &actor{}
			a.events.close = func(_ gnet.Conn, err error) gnet.Action { j.note("OnClose"); closed <- err; return gnet.None }
			entered := make(chan struct{})
			a.events.traffic = func(c gnet.Conn) gnet.Action {
				close(entered)
				<-gone
				n, err := c.Write([]byte("x"))
				assert.Error(t, err)
				assert.Zero(t, n)
				j.note("Write returned")
				return gnet.None
			}
			c := w.serve(t, a, gnet.Options{}, loopback).dial(t)
			send(t, c, "x")
			within(t, entered, "OnTraffic")
			require.NoError(t, c.(*net.TCPConn).SetLinger(0))
			require.NoError(t, c.Close())
			close(gone)
			err := within(t, closed, "OnClose")
			require.True(t, errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE), "%v", err)
			require.True(t, strings.HasPrefix(err.Error(), "write: "), "%v", err)
			want := []string{"Write returned", "OnClose"}
			if w.exact {
				want = []string{"OnClose", "Write returned"}
			}
			require.Eventually(t, func() bool { return len(j.all()) == 2 }, 5*time.Second, time.Millisecond)
			require.Equal(t, want, j.all())
		},
		"OnClose inside OnClose": func(t *testing.T, w world) {
			var j journal
			var conns []gnet.Conn
			both, done := make(chan struct{}), make(chan struct{}, 2)
			a := &actor{}
			a.events.open = func(c gnet.Conn) ([]byte, gnet.Action) {
				if conns = append(conns, c); len(conns) == 2 {
					close(both)
				}
				return nil, gnet.None
			}
			a.events.traffic = func(gnet.Conn) gnet.Action { return gnet.Close }
			a.events.close = func(c gnet.Conn, _ error) gnet.Action {
				j.note("begin")
				for _, other := range conns {
					assert.NoError(t, c.EventLoop().Close(other))
				}
				j.note("end")
				done <- struct{}{}
				return gnet.None
			}
			s := w.serve(t, a, gnet.Options{}, loopback)
			c := s.dial(t)
			s.dial(t)
			within(t, both, "two OnOpen")
			send(t, c, "x")
			within(t, done, "OnClose")
			within(t, done, "OnClose of the other")
			want := []string{"begin", "end", "begin", "end"}
			if w.exact {
				want = []string{"begin", "begin", "end", "end"}
			}
			require.Equal(t, want, j.all())
		},
		"CloseWithCallback is told that OnClose returned Shutdown": func(t *testing.T, w world) {
			result := make(chan error, 1)
			a := &actor{}
			a.events.traffic = func(c gnet.Conn) gnet.Action {
				assert.NoError(t, c.CloseWithCallback(func(_ gnet.Conn, err error) error { result <- err; return nil }))
				return gnet.None
			}
			a.events.close = func(gnet.Conn, error) gnet.Action { return gnet.Shutdown }
			s := w.serve(t, a, gnet.Options{}, loopback)
			send(t, s.dial(t), "x")
			require.Equal(t, errorx.ErrEngineShutdown, within(t, result, "the callback"))
			require.NoError(t, s.wait(t))
		},
		"Execute: errors are dropped, ErrEngineShutdown ends the engine": func(t *testing.T, w world) {
			ran := make(chan struct{}, 1)
			s, c := w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				el := c.EventLoop()
				assert.Equal(t, errorx.ErrNilRunnable, el.Execute(context.Background(), nil))
				assert.NoError(t, el.Execute(context.Background(), runnable(func() error { return io.ErrUnexpectedEOF })))
				assert.NoError(t, el.Execute(context.Background(), runnable(func() error { ran <- struct{}{}; return nil })))
				assert.NoError(t, el.Execute(context.Background(), runnable(func() error { return errorx.ErrEngineShutdown })))
				return gnet.None
			})
			within(t, ran, "the runnable after the one that failed")
			require.NoError(t, s.wait(t))
			_, err := io.ReadAll(c)
			_ = err // EOF, or a reset because of the unread byte
		},
		"the EventLoop's calls with nothing": func(t *testing.T, w world) {
			w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				_, err := c.EventLoop().Register(context.Background(), nil)
				assert.Equal(t, errorx.ErrInvalidNetworkAddress, err)
				_, err = c.EventLoop().Enroll(context.Background(), nil)
				assert.Equal(t, errorx.ErrInvalidNetConn, err)
				err = c.EventLoop().Schedule(context.Background(), nil, 0)
				if w.exact {
					assert.Equal(t, errorx.ErrUnsupportedOp, err)
				} else {
					assert.Equal(t, errorx.ErrNilRunnable, err)
				}
				return gnet.None
			})
		},
		"EventLoop.Close of another's Conn": func(t *testing.T, w world) {
			type foreign struct{ gnet.Conn }
			w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				closes := func() { assert.ErrorIs(t, c.EventLoop().Close(foreign{c}), errorx.ErrUnsupportedOp) }
				if w.gnet() {
					assert.Panics(t, closes)
				} else {
					closes()
				}
				return gnet.None
			})
		},
		"deadlines": func(t *testing.T, w world) {
			w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				for _, set := range []func(time.Time) error{c.SetDeadline, c.SetReadDeadline, c.SetWriteDeadline} {
					if err := set(time.Now().Add(time.Hour)); w.exact {
						assert.Equal(t, errorx.ErrUnsupportedOp, err)
					} else {
						assert.NoError(t, err)
					}
				}
				return gnet.None
			})
		},
		"socket options": func(t *testing.T, w world) {
			w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				get := func(level, option int) int { return sockopt(t, c, level, option) }
				assert.Greater(t, c.Fd(), 2)
				assert.NoError(t, c.SetNoDelay(false))
				assert.Zero(t, get(unix.IPPROTO_TCP, unix.TCP_NODELAY))
				assert.NoError(t, c.SetNoDelay(true))
				assert.NotZero(t, get(unix.IPPROTO_TCP, unix.TCP_NODELAY))
				assert.NoError(t, c.SetReadBuffer(20000))
				assert.Equal(t, 40000, get(unix.SOL_SOCKET, unix.SO_RCVBUF))
				assert.NoError(t, c.SetWriteBuffer(20000))
				assert.Equal(t, 40000, get(unix.SOL_SOCKET, unix.SO_SNDBUF))
				assert.NoError(t, c.SetLinger(1))
				assert.NoError(t, c.SetKeepAlive(true, 7*time.Second, 3*time.Second, 4))
				assert.Equal(t, []int{1, 7, 3, 4}, []int{get(unix.SOL_SOCKET, unix.SO_KEEPALIVE),
					get(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), get(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL),
					get(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)})
				assert.NoError(t, c.SetKeepAlivePeriod(10*time.Second))
				assert.Equal(t, 10, get(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE))
				assert.EqualError(t, c.SetKeepAlivePeriod(time.Millisecond), "invalid time duration")
				assert.EqualError(t, c.SetKeepAlive(true, time.Millisecond, time.Second, 1), "invalid time duration")
				assert.EqualError(t, c.SetKeepAlive(true, time.Second, time.Millisecond, 1), "invalid time duration")
				assert.EqualError(t, c.SetKeepAlive(true, time.Second, time.Second, 0), "invalid time duration")
				assert.NoError(t, c.SetKeepAlive(false, 0, 0, 0))
				assert.Zero(t, get(unix.SOL_SOCKET, unix.SO_KEEPALIVE))
				return gnet.None
			})
			w.inTraffic(t, unixAddress(t), "x", func(c gnet.Conn) gnet.Action {
				assert.Equal(t, errorx.ErrUnsupportedOp, c.SetKeepAlivePeriod(time.Second))
				assert.Equal(t, errorx.ErrUnsupportedOp, c.SetKeepAlive(true, time.Second, time.Second, 1))
				n, err := c.SendTo([]byte("x"), &net.UnixAddr{})
				assert.Equal(t, errorx.ErrUnsupportedOp, err, "SendTo on a stream")
				assert.Zero(t, n)
				return gnet.None
			})
		},
		"contexts": func(t *testing.T, w world) {
			w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				assert.Nil(t, c.Context())
				assert.Nil(t, c.SafeContext())
				c.SetContext(1)
				c.SetSafeContext("safe")
				assert.Equal(t, []any{1, "safe"}, []any{c.Context(), c.SafeContext()})
				return gnet.None
			})
		},
	})
}
