package gnet_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// fanIn is a server whose first connection is the sink: what the others send is written to it. It reports how much waited for the sink
// at most, and how many bytes came from the others.
type fanIn struct {
	sink          gnet.ConnX
	sources       []gnet.Conn
	most, came    atomic.Int64
	opened, ended chan gnet.Conn
}

func serveFanIn(t *testing.T, ring gnet.Option) (*fanIn, *server) {
	f := &fanIn{opened: make(chan gnet.Conn, 8), ended: make(chan gnet.Conn, 8)}
	h := &handler{}
	h.open = func(c gnet.Conn) ([]byte, gnet.Action) {
		if f.sink == nil {
			f.sink = c.(gnet.ConnX)
		} else {
			f.sources = append(f.sources, c)
			assert.NoError(t, f.sink.SetProducers(f.sources...))
		}
		f.opened <- c
		return nil, gnet.None
	}
	h.traffic = func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		if c != gnet.Conn(f.sink) {
			f.came.Add(int64(len(b)))
			_, _ = f.sink.Write(b)
			f.most.Store(max(f.most.Load(), int64(f.sink.OutboundBuffered())))
		}
		return gnet.None
	}
	h.close = func(c gnet.Conn, _ error) gnet.Action { f.ended <- c; return gnet.None }
	return f, serve(t, h, loopback, ring, gnet.WithOutboundLimits(producersHigh, 0), gnet.WithSocketSendBuffer(64<<10))
}

const producersHigh = 256 << 10

// Two connections whose input is written to a third are not read from while that is full, and lose nothing.
func TestProducersArePaused(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		f, s := serveFanIn(t, ring)
		sink := s.dial(t)
		within(t, f.opened, "OnOpen")
		const size = 32 << 20
		var sent atomic.Int64
		for range 2 {
			c := s.dial(t)
			within(t, f.opened, "OnOpen")
			go func() {
				for b := make([]byte, 64<<10); sent.Load() < 2*size; {
					n, err := c.Write(b)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			}()
		}
		before := int64(-1)
		require.Eventually(t, func() bool { // until nothing is read any more
			now := f.came.Load()
			calm := now == before && f.most.Load() > producersHigh
			before = now
			return calm
		}, 10*time.Second, 100*time.Millisecond)
		require.Less(t, f.most.Load(), int64(producersHigh+512<<10), "one batch more than the mark at the most")
		got, err := io.CopyN(io.Discard, sink, 2*size)
		require.NoError(t, err, "after %d bytes", got)
	})
}

// A full connection that ends leaves its producers reading.
func TestProducersOfAConnectionThatEnds(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		f, s := serveFanIn(t, ring)
		sink := s.dial(t)
		within(t, f.opened, "OnOpen")
		c := s.dial(t)
		within(t, f.opened, "OnOpen")
		data := noise(32 << 20)
		written := make(chan error, 1)
		go func() { _, err := c.Write(data); written <- err }()
		require.Eventually(t, func() bool { return f.most.Load() > producersHigh }, 10*time.Second, time.Millisecond)
		require.NoError(t, sink.(*net.TCPConn).SetLinger(0))
		require.NoError(t, sink.Close())
		within(t, f.ended, "OnClose of the sink")
		require.NoError(t, within(t, written, "the rest being read"))
		require.Eventually(t, func() bool { return f.came.Load() == int64(len(data)) }, 10*time.Second, time.Millisecond)
	})
}

// What SetProducers refuses, and that CloseWhenSent loses nothing.
func TestProducersArgumentsAndCloseWhenSent(t *testing.T) {
	data := noise(16 << 20)
	rings(t, func(t *testing.T, ring gnet.Option) {
		loops := make(chan error, 8)
		var first atomic.Pointer[gnet.Conn]
		h := &handler{}
		h.open = func(c gnet.Conn) ([]byte, gnet.Action) {
			if !first.CompareAndSwap(nil, &c) {
				loops <- c.(gnet.ConnX).SetProducers(*first.Load())
			}
			return nil, gnet.None
		}
		h.traffic = func(c gnet.Conn) gnet.Action {
			_, _ = c.Discard(-1)
			x := c.(gnet.ConnX)
			assert.NoError(t, x.SetProducers())
			assert.NoError(t, x.SetProducers(c, c))
			_, err := c.Write(data)
			assert.NoError(t, errors.Join(err, x.CloseWhenSent()))
			return gnet.None
		}
		s := serve(t, h, loopback, ring, gnet.WithNumEventLoop(2))
		a, _ := s.dial(t), s.dial(t)
		require.ErrorIs(t, within(t, loops, "OnOpen"), gnet.ErrUnsupportedOp, "on another loop")
		_, err := a.Write([]byte("go"))
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond)
		got, err := io.ReadAll(a)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))

		without := make(chan error, 1)
		h = &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
			without <- c.(gnet.ConnX).SetProducers(c)
			return nil, gnet.None
		}}
		serve(t, h, loopback, ring, gnet.WithOutboundLimits(-1, 0)).dial(t)
		require.ErrorIs(t, within(t, without, "OnOpen"), gnet.ErrUnsupportedOp, "without a high-water mark")
	})
}
