package gnet_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

func closeFD(fd int) error { return unix.Close(fd) }

// A Conn kept by another goroutine writes to its own peer, however many others have spoken since.
func TestKeptDatagramConnKeepsItsPeer(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
			const peers = 300
			kept := make(chan func(), peers)
			h := &handler{traffic: func(c gnet.Conn) gnet.Action {
				b, _ := c.Next(-1)
				answer := append([]byte("to "), b...)
				require.Nil(t, c.Context())
				c.SetContext(1)
				kept <- func() { require.NoError(t, c.AsyncWrite(answer, nil)) }
				return gnet.None
			}}
			s := serve(t, h, "udp://127.0.0.1:0", ring, mode)
			conns := make([]net.Conn, peers)
			var answers []func()
			for i := range conns {
				conns[i] = s.dial(t)
				_, err := fmt.Fprintf(conns[i], "%d", i)
				require.NoError(t, err)
				answers = append(answers, within(t, kept, "a datagram"))
			}
			for _, answer := range answers {
				answer()
			}
			for i, c := range conns {
				b := make([]byte, 64)
				n, err := c.Read(b)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("to %d", i), string(b[:n]))
			}
		})
	})
}

// What a datagram tells beside its bytes, and its packet held beyond the handler.
func TestDatagramX(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		type facts struct {
			destination string
			index       uint32
			held        string
		}
		got := make(chan facts, 1)
		h := &handler{traffic: func(c gnet.Conn) gnet.Action {
			x := c.(gnet.DatagramX)
			p := x.Hold()
			got <- facts{x.Destination().Addr().Unmap().String(), x.IfIndex(), string(p.Bytes())}
			require.True(t, x.Hold().IsZero())
			require.NoError(t, p.Release())
			require.NotEmpty(t, x.Path().String())
			return gnet.None
		}}
		s := serve(t, h, "udp://0.0.0.0:0", ring)
		c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", s.addr.(*net.UDPAddr).Port))
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		_, err = c.Write([]byte("held"))
		require.NoError(t, err)
		f := within(t, got, "the datagram")
		lo, err := net.InterfaceByName("lo")
		require.NoError(t, err)
		require.Equal(t, facts{"127.0.0.1", uint32(lo.Index), "held"}, f)
	})
}

// A client's UDP connection has OnOpen and OnClose, keeps its context and sees each datagram.
func TestClientUDP(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		s := serve(t, &handler{traffic: echo}, "udp://127.0.0.1:0", ring)
		got, closed := make(chan string, 8), make(chan error, 1)
		cli, err := gnet.NewClient(&handler{
			open: func(c gnet.Conn) ([]byte, gnet.Action) { return []byte(c.Context().(string)), gnet.None },
			traffic: func(c gnet.Conn) gnet.Action {
				b := make([]byte, 100)
				n, err := c.Read(b)
				require.NoError(t, err)
				got <- string(b[:n]) + "/" + c.Context().(string)
				return gnet.None
			},
			close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None },
		}, ring)
		require.NoError(t, err)
		require.NoError(t, cli.Start())
		c, err := cli.DialContext("udp", s.addr.String(), "first")
		require.NoError(t, err)
		require.Equal(t, "first/first", within(t, got, "the first"))
		n, err := c.Write([]byte("second"))
		require.NoError(t, err)
		require.Equal(t, 6, n)
		require.Equal(t, "second/first", within(t, got, "the second"))
		require.NoError(t, c.Close())
		require.NoError(t, within(t, closed, "OnClose"))
		require.NoError(t, cli.Stop())
		require.NoError(t, cli.Stop())
		_, err = cli.Dial("tcp", s.addr.String())
		require.Error(t, err)
	})
}

// Connections of package net on a server's loops.
func TestRegister(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		peer, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = peer.Close() }()
		contexts := make(chan any, 2)
		h := &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
			contexts <- c.Context()
			return []byte("hello"), gnet.None
		}}
		s := serve(t, h, loopback, ring, gnet.WithNumEventLoop(2))
		require.Eventually(t, func() bool { // until OnBoot has returned it is ErrEmptyEngine
			_, err = s.engine.Register(t.Context())
			return errors.Is(err, gnet.ErrInvalidNetworkAddress)
		}, 5*time.Second, time.Millisecond)

		dialled, err := net.Dial("tcp", peer.Addr().String())
		require.NoError(t, err)
		ctx := gnet.NewContext(t.Context(), 7)
		for _, ctx := range []interface {
			Deadline() (time.Time, bool)
			Done() <-chan struct{}
			Err() error
			Value(any) any
		}{gnet.NewNetConnContext(ctx, dialled), gnet.NewNetAddrContext(ctx, peer.Addr())} {
			answer, err := s.engine.Register(ctx)
			require.NoError(t, err)
			r := within(t, answer, "the result")
			require.NoError(t, r.Err)
			require.Equal(t, peer.Addr().String(), r.Conn.RemoteAddr().String())
			require.Equal(t, 7, within(t, contexts, "OnOpen"))
			accepted, err := peer.Accept()
			require.NoError(t, err)
			b := make([]byte, 5)
			_, err = io.ReadFull(accepted, b)
			require.NoError(t, err)
			require.Equal(t, "hello", string(b))
			_ = accepted.Close()
		}
	})
}
