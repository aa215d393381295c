package gnet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

func noise(n int) []byte {
	b := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rand.Uint64())
	}
	return b[:n:n]
}

// A peer that takes nothing is given up at the hard limit; exact gnet buffers without end.
func TestOutboundHardLimit(t *testing.T) {
	const hard = 1 << 20
	rings(t, func(t *testing.T, ring gnet.Option) {
		modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
			closed := make(chan error, 1)
			waiting := make(chan int, 1)
			writeErr := make(chan error, 1)
			piece := noise(64 << 10)
			h := &handler{close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }}
			h.traffic = func(c gnet.Conn) gnet.Action {
				_, _ = c.Discard(-1)
				for range 160 { // 10 MiB
					if _, err := c.Write(piece); err != nil {
						writeErr <- err
						require.NotEmpty(t, writeErr)
						break
					}
				}
				waiting <- c.OutboundBuffered()
				return gnet.None
			}
			s := serve(t, h, loopback, ring, mode, gnet.WithOutboundLimits(hard/2, hard), gnet.WithSocketSendBuffer(64<<10))
			c := s.dial(t)
			require.NoError(t, c.(*net.TCPConn).SetReadBuffer(64<<10))
			_, err := c.Write([]byte("go"))
			require.NoError(t, err)
			n := within(t, waiting, "the handler's return")
			if exact {
				require.Greater(t, n, 4*hard)
				_, err = io.ReadFull(c, make([]byte, 160*len(piece)))
				require.NoError(t, err, "everything is sent in the end")
				require.Empty(t, closed)
				return
			}
			why := within(t, closed, "OnClose")
			require.ErrorIs(t, why, gnet.ErrOutboundLimit)
			var limit *gnet.OutboundLimitError
			require.ErrorAs(t, why, &limit)
			require.Equal(t, hard, limit.Limit)
			require.ErrorIs(t, within(t, writeErr, "Write's error"), gnet.ErrOutboundLimit)
		})
	})
}

// Above the high-water mark a connection is not read from, and goes on below half of it; others are not concerned.
func TestOutboundHighWaterStopsReading(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		var most, drained atomic.Int64
		h := &handler{}
		h.traffic = func(c gnet.Conn) gnet.Action {
			b, _ := c.Next(-1)
			for range 4 { // four times as much as came
				_, _ = c.Write(b)
			}
			most.Store(max(most.Load(), int64(c.OutboundBuffered())))
			return gnet.None
		}
		h.drained = func(gnet.Conn) gnet.Action { drained.Add(1); return gnet.None }
		const high = 256 << 10
		s := serve(t, h, loopback, ring, gnet.WithOutboundLimits(high, 4<<20))
		slow, other := s.dial(t), s.dial(t)
		data := noise(8 << 20)
		go func() { _, _ = slow.Write(data) }()

		deadline := time.Now().Add(300 * time.Millisecond) // nobody reads slow
		answer := make([]byte, 4*5)
		for time.Now().Before(deadline) {
			_, err := other.Write([]byte("hello"))
			require.NoError(t, err)
			_, err = io.ReadFull(other, answer)
			require.NoError(t, err)
		}
		require.Greater(t, most.Load(), int64(high))
		require.Less(t, most.Load(), int64(high+4*128<<10+1), "one read more than the mark at the most")
		require.Zero(t, drained.Load())

		got := make([]byte, 4*len(data))
		_, err := io.ReadFull(slow, got)
		require.NoError(t, err)
		require.Positive(t, drained.Load(), "how often depends on how fast the reader is; it was above the mark once at the least")
	})
}

// A handler may wait for a message larger than all buffers of the loop, on more connections than there are buffers.
func TestLongMessagesWithFewBuffers(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		const size, clients = 300_000, 40
		h := &handler{traffic: func(c gnet.Conn) gnet.Action {
			if c.InboundBuffered() < size {
				if b, err := c.Peek(size); b != nil || !errors.Is(err, io.ErrShortBuffer) {
					return gnet.Close
				}
				return gnet.None
			}
			b, err := c.Peek(size)
			if err != nil {
				return gnet.Close
			}
			_, _ = c.Write(b)
			_, _ = c.Discard(size)
			return gnet.None
		}}
		s := serve(t, h, loopback, ring, gnet.WithBuffers(64, 16))
		conns := make([]net.Conn, clients)
		messages := make([][]byte, clients)
		for i := range conns {
			conns[i], messages[i] = s.dial(t), noise(size)
			_, err := conns[i].Write(messages[i][:size/2])
			require.NoError(t, err)
		}
		for i, c := range conns {
			_, err := c.Write(messages[i][size/2:])
			require.NoError(t, err)
		}
		got := make([]byte, size)
		for i, c := range conns {
			_, err := io.ReadFull(c, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(messages[i], got))
		}
	})
}

// Unread bytes come again with the next ones, in order, however they are read.
func TestEveryWayOfReading(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		for _, inbound := range []int{-1, 0, 8 << 10} {
			r := rand.New(rand.NewPCG(1, uint64(inbound)))
			var got bytes.Buffer
			const total = 3 << 20
			complete := make(chan struct{})
			h := &handler{traffic: func(c gnet.Conn) gnet.Action {
				for range r.IntN(6) {
					n := c.InboundBuffered()
					if n == 0 {
						break
					}
					k := 1 + r.IntN(n)
					switch r.IntN(5) {
					case 0:
						b, err := c.Next(k)
						if err != nil || len(b) != k {
							return gnet.Close
						}
						got.Write(b)
					case 1:
						b, err := c.Peek(k)
						if err != nil || len(b) != k {
							return gnet.Close
						}
						half := max(1, k/2)
						if d, _ := c.Discard(half); d != half {
							return gnet.Close
						}
						got.Write(b[:half])
					case 2:
						b := make([]byte, k)
						m, err := c.Read(b)
						if err != nil || m != k {
							return gnet.Close
						}
						got.Write(b)
					case 3:
						if _, err := c.WriteTo(&got); err != nil {
							return gnet.Close
						}
					case 4: // leave it
					}
				}
				if got.Len()+c.InboundBuffered() == total {
					_, _ = c.WriteTo(&got)
					close(complete)
				}
				return gnet.None
			}}
			s := serve(t, h, loopback, ring, gnet.WithInboundCap(inbound), gnet.WithReadBufferCap(2048))
			c := s.dial(t)
			want := noise(total)
			_, err := c.Write(want)
			require.NoError(t, err)
			within(t, complete, "the end of the data")
			s.stop(t)
			require.True(t, bytes.Equal(want, got.Bytes()))
		}
	})
}

// Connections beyond the maximum are closed unseen, and one that goes makes room.
func TestMaxConnections(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		var opened atomic.Int64
		h := &handler{traffic: echo, open: func(gnet.Conn) ([]byte, gnet.Action) {
			opened.Add(1)
			return []byte("!"), gnet.None
		}}
		s := serve(t, h, loopback, ring, gnet.WithMaxConnections(3), gnet.WithNumEventLoop(2))
		b := make([]byte, 1)
		var conns []net.Conn
		for range 3 {
			c := s.dial(t)
			_, err := io.ReadFull(c, b)
			require.NoError(t, err)
			conns = append(conns, c)
		}
		_, err := io.ReadFull(s.dial(t), b)
		require.Error(t, err)
		require.Equal(t, int64(3), opened.Load())
		require.Equal(t, 3, s.engine.CountConnections())
		require.NoError(t, conns[1].Close())
		require.Eventually(t, func() bool {
			_, err := io.ReadFull(s.dial(t), b)
			return err == nil
		}, 10*time.Second, 10*time.Millisecond)
	})
}

// Deadlines end a connection; the reason is in OnClose.
func TestDeadlines(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		for name, set := range map[string]func(c gnet.Conn) error{
			"read": func(c gnet.Conn) error { return c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)) },
			"both": func(c gnet.Conn) error { return c.SetDeadline(time.Now().Add(30 * time.Millisecond)) },
			"idle": func(c gnet.Conn) error { return c.(gnet.ConnX).SetIdleTimeout(30 * time.Millisecond) },
			"moved": func(c gnet.Conn) error {
				return errors.Join(c.SetDeadline(time.Now().Add(time.Hour)), c.SetReadDeadline(time.Now().Add(time.Millisecond)))
			},
			"elsewhere": func(c gnet.Conn) error {
				result := make(chan error)
				go func() { result <- c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)) }()
				return <-result
			},
			"write": func(c gnet.Conn) error {
				err := c.SetWriteDeadline(time.Now().Add(30 * time.Millisecond))
				_, e := c.Write(make([]byte, 16<<20)) // more than the kernel takes
				return errors.Join(err, e)
			},
		} {
			t.Run(name, func(t *testing.T) {
				closed := make(chan error, 1)
				failed := make(chan error, 1)
				h := &handler{close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }}
				h.open = func(c gnet.Conn) ([]byte, gnet.Action) { failed <- set(c); return nil, gnet.None }
				s := serve(t, h, loopback, ring)
				s.dial(t)
				require.NoError(t, within(t, failed, "OnOpen"))
				require.ErrorIs(t, within(t, closed, "OnClose"), os.ErrDeadlineExceeded)
			})
		}
	})
}

// Traffic keeps an idle timeout from firing.
func TestIdleTimeoutIsMovedByTraffic(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		closed := make(chan error, 1)
		h := &handler{traffic: echo, close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }}
		const idle = time.Second // a busy machine may hold up the test for many times its naps
		s := serve(t, h, loopback, ring, gnet.WithIdleTimeout(idle))
		c := s.dial(t)
		b := make([]byte, 1)
		for begun := time.Now(); time.Since(begun) < 3*idle/2; {
			_, err := c.Write([]byte("x"))
			require.NoError(t, err)
			_, err = io.ReadFull(c, b)
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond)
		}
		require.Empty(t, closed)
		require.ErrorIs(t, within(t, closed, "OnClose"), os.ErrDeadlineExceeded)
	})
}

// Exact gnet has no deadlines and no Schedule.
func TestExactGnetHasNoDeadlines(t *testing.T) {
	result := make(chan []error, 1)
	h := &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
		result <- []error{c.SetDeadline(time.Now()), c.SetReadDeadline(time.Now()), c.SetWriteDeadline(time.Now()),
			c.EventLoop().Schedule(t.Context(), nil, 0)}
		return nil, gnet.None
	}}
	s := serve(t, h, loopback, gnet.WithExactGnet())
	s.dial(t)
	for _, err := range within(t, result, "OnOpen") {
		require.ErrorIs(t, err, gnet.ErrUnsupportedOp)
	}
}
