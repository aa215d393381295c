package gnet_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// onLoop runs f on a connection's loop and waits for it.
func onLoop(t *testing.T, c gnet.Conn, f func() error) error {
	t.Helper()
	result := make(chan error, 1)
	require.NoError(t, c.EventLoop().Execute(context.Background(), runnable(func() error { result <- f(); return nil })))
	return within(t, result, "Execute")
}

// SuspendRead closes the peer's window and hides what has come; ResumeRead shows it in order, and the end after it.
func TestSuspendRead(t *testing.T) {
	data := bytes.Repeat(noise(1<<20), 16) // more than the buffers of two sockets hold
	rings(t, func(t *testing.T, ring gnet.Option) {
		modes(t, func(t *testing.T, _ bool, mode gnet.Option) {
			conns, closed, got := make(chan gnet.Conn, 1), make(chan error, 1), make(chan []byte, 1)
			var all []byte
			suspended := false
			h := &handler{close: func(_ gnet.Conn, err error) gnet.Action { got <- all; closed <- err; return gnet.None }}
			h.open = func(c gnet.Conn) ([]byte, gnet.Action) {
				assert.NoError(t, c.SetReadBuffer(256<<10), "so that the kernel's does not grow")
				return nil, gnet.None
			}
			h.traffic = func(c gnet.Conn) gnet.Action {
				assert.False(t, suspended, "OnTraffic while reading is suspended")
				b, _ := c.Next(-1)
				if all == nil {
					suspended = true
					assert.NoError(t, c.(gnet.ConnX).SuspendRead())
					conns <- c
				}
				all = append(all, b...)
				return gnet.None
			}
			s := serve(t, h, loopback, ring, mode)
			client := s.dial(t)
			written := make(chan error, 1)
			go func() {
				_, err := client.Write(data)
				if err == nil {
					err = client.(*net.TCPConn).CloseWrite()
				}
				written <- err
			}()
			c := within(t, conns, "OnTraffic").(gnet.ConnX)
			time.Sleep(100 * time.Millisecond)
			require.Empty(t, written, "the window is closed")
			other := s.dial(t)
			require.NoError(t, onLoop(t, c, func() error { suspended = false; return nil }))
			require.NoError(t, onLoop(t, c, c.SuspendRead), "again")
			require.NoError(t, onLoop(t, c, c.ResumeRead))
			require.NoError(t, within(t, written, "the client's write"))
			require.True(t, bytes.Equal(data, within(t, got, "OnClose")))
			require.ErrorIs(t, within(t, closed, "OnClose"), io.EOF)
			require.ErrorIs(t, onLoop(t, c, c.SuspendRead), net.ErrClosed)
			require.ErrorIs(t, onLoop(t, c, c.ResumeRead), net.ErrClosed)
			require.NoError(t, other.Close())
		})
	})
}

// While the outbound buffer holds a connection's reading up, SuspendRead and ResumeRead do not let it go on too early.
func TestSuspendReadAndHighWater(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		conns, drained := make(chan gnet.Conn, 1), make(chan int, 8)
		traffic := make(chan int, 1000)
		piece := noise(64 << 10)
		h := &handler{drained: func(c gnet.Conn) gnet.Action { drained <- c.OutboundBuffered(); return gnet.None }}
		h.traffic = func(c gnet.Conn) gnet.Action {
			n, _ := c.Discard(-1)
			traffic <- n
			if n == 4 { // "fill"
				for c.OutboundBuffered() <= 256<<10 {
					_, _ = c.Write(piece)
				}
				conns <- c
			}
			return gnet.None
		}
		s := serve(t, h, loopback, ring, gnet.WithOutboundLimits(256<<10, 0))
		client := s.dial(t)
		send(t, client, "fill")
		c := within(t, conns, "OnTraffic").(gnet.ConnX)
		require.Equal(t, 4, within(t, traffic, "OnTraffic"))
		require.NoError(t, onLoop(t, c, c.SuspendRead))
		require.NoError(t, onLoop(t, c, c.ResumeRead))
		send(t, client, "more than four")
		time.Sleep(30 * time.Millisecond)
		require.Empty(t, traffic, "too much waits to be sent")
		require.NoError(t, onLoop(t, c, c.SuspendRead))
		go func() { _, _ = io.Copy(io.Discard, client) }() // ends with the connection
		require.Less(t, within(t, drained, "OnDrained"), 128<<10)
		time.Sleep(30 * time.Millisecond)
		require.Empty(t, traffic, "the handler has suspended it")
		require.NoError(t, onLoop(t, c, c.ResumeRead))
		require.Equal(t, 14, within(t, traffic, "OnTraffic"))
	})
}
