package gnet_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// stopsShort takes only n bytes.
type stopsShort struct {
	bytes.Buffer
	n int
}

var errShort = errors.New("no more")

func (w *stopsShort) Write(p []byte) (int, error) {
	k := min(w.n, len(p))
	w.n -= k
	_, _ = w.Buffer.Write(p[:k]) // never fails
	if k < len(p) {
		return k, errShort
	}
	return k, nil
}

// Reading and the end of it: gnet's semantics one by one, asked of gnet itself too.
func TestReading(t *testing.T) {
	semantics(t, map[string]func(*testing.T, world){
		"Peek, Next, Discard, Read and their limits": func(t *testing.T, w world) {
			w.inTraffic(t, loopback, "0123456789", func(c gnet.Conn) gnet.Action {
				assert.Equal(t, 10, c.InboundBuffered())
				for _, read := range []func(int) ([]byte, error){c.Peek, c.Next} {
					b, err := read(11)
					assert.Nil(t, b)
					assert.Equal(t, io.ErrShortBuffer, err)
				}
				for _, n := range []int{0, -1, 10} {
					b, err := c.Peek(n)
					assert.NoError(t, err)
					assert.Equal(t, "0123456789", string(b))
				}
				first, err := c.Next(2)
				assert.NoError(t, err)
				n, err := c.Discard(1)
				assert.NoError(t, err)
				assert.Equal(t, 1, n)
				next, _ := c.Next(2)
				assert.Equal(t, "01 34", string(first)+" "+string(next), "the bytes of Next stay until the handler returns")
				p := make([]byte, 2)
				n, err = c.Read(p)
				assert.NoError(t, err)
				assert.Equal(t, "56", string(p[:n]))
				n, err = c.Discard(99)
				assert.NoError(t, err)
				assert.Equal(t, 3, n, "the total")
				n, err = c.Discard(-1)
				assert.NoError(t, err)
				assert.Zero(t, n)
				n, err = c.Read(p)
				assert.Equal(t, io.ErrShortBuffer, err)
				assert.Zero(t, n)
				n, err = c.Read(nil)
				assert.NoError(t, err)
				assert.Zero(t, n)
				b, err := c.Next(-1)
				assert.NoError(t, err)
				assert.Empty(t, b)
				assert.Zero(t, c.InboundBuffered())
				return gnet.None
			})
		},
		"WriteTo leaves what its writer did not take": func(t *testing.T, w world) {
			w.inTraffic(t, loopback, "0123456789", func(c gnet.Conn) gnet.Action {
				short := &stopsShort{n: 4}
				n, err := c.WriteTo(short)
				assert.Equal(t, errShort, err)
				assert.Equal(t, int64(4), n)
				assert.Equal(t, 6, c.InboundBuffered())
				n, err = c.WriteTo(&short.Buffer)
				assert.NoError(t, err)
				assert.Equal(t, int64(6), n)
				assert.Equal(t, "0123456789", short.String())
				return gnet.None
			})
		},
		"what is left stays, and OnTraffic waits for new bytes or Wake": func(t *testing.T, w world) {
			seen := make(chan string, 8)
			conns := make(chan gnet.Conn, 8)
			a := &actor{events: handler{traffic: func(c gnet.Conn) gnet.Action {
				b, err := c.Peek(-1)
				assert.NoError(t, err)
				assert.Equal(t, len(b), c.InboundBuffered())
				seen <- string(b)
				conns <- c
				if len(b) == 5 {
					_, _ = c.Discard(2)
				}
				return gnet.None
			}}}
			s := w.serve(t, a, gnet.Options{}, loopback)
			client := s.dial(t)
			send(t, client, "abc")
			require.Equal(t, "abc", within(t, seen, "OnTraffic"))
			time.Sleep(20 * time.Millisecond)
			require.Empty(t, seen, "OnTraffic is not called again")
			send(t, client, "de")
			require.Equal(t, "abcde", within(t, seen, "OnTraffic"))
			woken := make(chan error, 1)
			require.NoError(t, within(t, conns, "a Conn").Wake(func(_ gnet.Conn, err error) error { woken <- err; return nil }))
			require.Equal(t, "cde", within(t, seen, "OnTraffic of Wake"))
			require.NoError(t, within(t, woken, "Wake's callback"))
		},
		"Wake with nothing to read": func(t *testing.T, w world) {
			buffered := make(chan int, 1)
			a := &actor{}
			a.events.traffic = func(c gnet.Conn) gnet.Action { buffered <- c.InboundBuffered(); return gnet.None }
			a.events.open = func(c gnet.Conn) ([]byte, gnet.Action) { assert.NoError(t, c.Wake(nil)); return nil, gnet.None }
			w.serve(t, a, gnet.Options{}, loopback).dial(t)
			require.Zero(t, within(t, buffered, "OnTraffic"))
		},
		"unread bytes can be read in OnClose; the end is read: EOF": func(t *testing.T, w world) {
			type end struct {
				rest string
				err  error
			}
			closed := make(chan end, 1)
			a := &actor{events: handler{close: func(c gnet.Conn, err error) gnet.Action {
				b, _ := c.Next(-1)
				closed <- end{string(b), err}
				return gnet.None
			}}}
			c := w.serve(t, a, gnet.Options{}, loopback).dial(t)
			send(t, c, "unread")
			time.Sleep(10 * time.Millisecond)
			require.NoError(t, c.Close())
			got := within(t, closed, "OnClose")
			require.Equal(t, "unread", got.rest)
			require.EqualError(t, got.err, "read: EOF")
			require.ErrorIs(t, got.err, io.EOF)
			var call *os.SyscallError
			require.ErrorAs(t, got.err, &call)
		},
		"data that comes with the end is shown before OnClose": func(t *testing.T, w world) {
			for _, address := range []string{loopback, unixAddress(t)} {
				var j journal
				closed := make(chan struct{})
				a := &actor{}
				a.events.traffic = func(c gnet.Conn) gnet.Action { b, _ := c.Next(-1); j.note(string(b)); return gnet.None }
				a.events.close = func(gnet.Conn, error) gnet.Action { close(closed); return gnet.None }
				c := w.serve(t, a, gnet.Options{}, address).dial(t)
				send(t, c, "last")
				require.NoError(t, c.Close())
				within(t, closed, "OnClose")
				require.Equal(t, []string{"last"}, j.all(), address)
			}
		},
		"OnClose's reason: a reset": func(t *testing.T, w world) {
			closed, opened := make(chan error, 1), make(chan struct{})
			a := &actor{}
			a.events.open = func(gnet.Conn) ([]byte, gnet.Action) { close(opened); return nil, gnet.None }
			a.events.close = func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }
			c := w.serve(t, a, gnet.Options{}, loopback).dial(t)
			within(t, opened, "OnOpen")
			require.NoError(t, c.(*net.TCPConn).SetLinger(0))
			require.NoError(t, c.Close())
			err := within(t, closed, "OnClose")
			require.ErrorIs(t, err, syscall.ECONNRESET)
			require.EqualError(t, err, "read: connection reset by peer")
		},
		"OnClose's reason: none for what this side closed": func(t *testing.T, w world) {
			for name, closes := range map[string]func(c gnet.Conn) gnet.Action{
				"Close action": func(gnet.Conn) gnet.Action { return gnet.Close },
				"Close":        func(c gnet.Conn) gnet.Action { assert.NoError(t, c.Close()); return gnet.None },
				"EventLoop.Close": func(c gnet.Conn) gnet.Action {
					assert.NoError(t, c.EventLoop().Close(c))
					return gnet.None
				},
			} {
				closed := make(chan error, 2)
				a := &actor{events: handler{traffic: closes,
					close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }}}
				s := w.serve(t, a, gnet.Options{}, loopback)
				c := s.dial(t)
				send(t, c, "x")
				require.NoError(t, within(t, closed, "OnClose"), name)
				_, err := io.ReadAll(c)
				_ = err // a reset where bytes were left unread, as gnet leaves it to the kernel
				require.NoError(t, s.end(t))
				require.Empty(t, closed, "once")
			}
		},
		"actions that do not exist are None": func(t *testing.T, w world) {
			closed := make(chan struct{}, 1)
			a := &actor{}
			a.events.open = func(gnet.Conn) ([]byte, gnet.Action) { return []byte("!"), gnet.Action(-1) }
			a.events.traffic = func(c gnet.Conn) gnet.Action { echo(c); return gnet.Action(99) }
			a.events.close = func(gnet.Conn, error) gnet.Action { closed <- struct{}{}; return gnet.Action(-1) }
			s := w.serve(t, a, gnet.Options{}, loopback)
			c := s.dial(t)
			expect(t, c, "!")
			send(t, c, "x")
			expect(t, c, "x")
			require.Empty(t, closed)
			require.NoError(t, c.Close())
			within(t, closed, "OnClose")
			expect(t, s.dial(t), "!")
		},
		"a small ReadBufferCap": func(t *testing.T, w world) {
			const total = 200_000
			var most int
			var got bytes.Buffer
			done := make(chan struct{})
			a := &actor{events: handler{traffic: func(c gnet.Conn) gnet.Action {
				most = max(most, c.InboundBuffered())
				_, _ = c.WriteTo(&got)
				if got.Len() == total {
					close(done)
				}
				return gnet.None
			}}}
			s := w.serve(t, a, gnet.Options{ReadBufferCap: 1000}, loopback)
			data := noise(total)
			_, err := s.dial(t).Write(data)
			require.NoError(t, err)
			within(t, done, "everything")
			require.True(t, bytes.Equal(data, got.Bytes()))
			if w.gnet() {
				require.Equal(t, 1024, most)
			} else {
				require.LessOrEqual(t, most, 1000+2240, "one small buffer beyond it at the most, 2,240 bytes on io_uring")
			}
		},
		"edge-triggered": func(t *testing.T, w world) {
			s := w.serve(t, &actor{events: handler{traffic: echo}}, gnet.Options{EdgeTriggeredIO: true, EdgeTriggeredIOChunk: 5000},
				loopback)
			c := s.dial(t)
			data := noise(1 << 20)
			go func() { _, _ = c.Write(data) }() // what is lost the reader misses
			got := make([]byte, len(data))
			_, err := io.ReadFull(c, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, got))
		},
	})
}
