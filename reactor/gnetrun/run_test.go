package gnetrun_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	upstream "github.com/panjf2000/gnet/v2"
	errorx "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
	"github.com/socketxtreme/socketxtreme/reactor/gnetrun"
	sx "github.com/socketxtreme/socketxtreme/ring"
)

// echo is a handler as it is written for gnet.
type echo struct {
	upstream.BuiltinEventEngine
	engine upstream.Engine
	booted chan struct{}
	ended  chan int
	opened chan upstream.Conn
	paths  chan sx.Path // of those that are ours: the loop's to read
}

func newEcho() *echo {
	return &echo{booted: make(chan struct{}), ended: make(chan int, 1), opened: make(chan upstream.Conn, 16),
		paths: make(chan sx.Path, 16)}
}

func (e *echo) OnBoot(engine upstream.Engine) upstream.Action {
	e.engine = engine
	close(e.booted)
	return upstream.None
}

func (e *echo) OnShutdown(engine upstream.Engine) { e.ended <- engine.CountConnections() }

func (e *echo) OnOpen(c upstream.Conn) ([]byte, upstream.Action) {
	e.opened <- c
	if x, ok := c.(gnet.ConnX); ok {
		e.paths <- x.Path()
	}
	return nil, upstream.None
}

func (e *echo) OnTraffic(c upstream.Conn) upstream.Action {
	b, _ := c.Next(-1)
	if string(b) == "shutdown" {
		return upstream.Shutdown
	}
	_, _ = c.Write(b)
	return upstream.None
}

func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("it did not happen")
	}
	return v
}

// freeAddress is an address that was free a moment ago.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func exchange(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Write([]byte("hello"))
	require.NoError(t, err)
	b := make([]byte, 5)
	_, err = io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
}

// The handler is served on a ring, and stopping its Engine stops the server.
func TestRunAndStop(t *testing.T) {
	for _, ring := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(ring), func(t *testing.T) {
			h, address, result := newEcho(), freeAddress(t), make(chan error, 1)
			go func() {
				result <- gnetrun.RunWith(h, []string{"tcp://" + address}, gnetrun.Config{
					Gnet: []upstream.Option{upstream.WithNumEventLoop(2), upstream.WithReuseAddr(true)},
					Own:  []gnet.Option{gnet.WithRing(ring)}})
			}()
			within(t, h.booted)
			c, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer func() { _ = c.Close() }()
			exchange(t, c)
			_, ok := within(t, h.opened).(gnet.ConnX)
			require.True(t, ok, "the connection is one of ours")
			require.Equal(t, string(ring), within(t, h.paths).Kind)

			require.NoError(t, h.engine.Validate())
			require.NoError(t, h.engine.Stop(context.Background()))
			require.NoError(t, within(t, result))
			require.Zero(t, within(t, h.ended))
			_, err = io.ReadAll(c)
			require.NoError(t, err, "the connection was closed")
			require.Equal(t, errorx.ErrEngineInShutdown, h.engine.Stop(context.Background()))
			_, err = net.Dial("tcp", address)
			require.Error(t, err, "the listener was closed")
		})
	}
}

// A server that ends by itself takes the carrier with it.
func TestShutdownByAction(t *testing.T) {
	h, address, result := newEcho(), freeAddress(t), make(chan error, 1)
	go func() { result <- gnetrun.Run(h, "tcp://"+address) }()
	within(t, h.booted)
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	exchange(t, c)
	_, err = c.Write([]byte("shutdown"))
	require.NoError(t, err)
	require.NoError(t, within(t, result))
	require.Equal(t, errorx.ErrEngineInShutdown, h.engine.Validate())
}

// What the carrier's Engine knows is its own: the documentation's table.
func TestTheCarriersEngine(t *testing.T) {
	h, address, result := newEcho(), freeAddress(t), make(chan error, 1)
	go func() { result <- gnetrun.Rotate(h, []string{"tcp://" + address}) }()
	within(t, h.booted)
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	exchange(t, c)
	within(t, h.opened)
	require.Zero(t, h.engine.CountConnections())
	_, err = h.engine.DupListener("tcp", address)
	require.Equal(t, errorx.ErrInvalidNetworkAddress, err)
	//lint:ignore SA1019 it is what is tested
	require.Equal(t, errorx.ErrEngineInShutdown, upstream.Stop(t.Context(), "tcp://"+address))

	peer, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = peer.Close() }()
	var answer <-chan upstream.RegisteredResult
	require.Eventually(t, func() bool { // the carrier's loop starts beside ours
		answer, err = h.engine.Register(upstream.NewNetAddrContext(t.Context(), peer.Addr()))
		return err == nil
	}, 5*time.Second, time.Millisecond)
	r := within(t, answer)
	require.NoError(t, r.Err)
	_, ours := within(t, h.opened).(gnet.ConnX)
	require.False(t, ours)
	require.Equal(t, 1, h.engine.CountConnections())
	accepted, err := peer.Accept()
	require.NoError(t, err)
	exchange(t, accepted)
	require.NoError(t, h.engine.Stop(context.Background()))
	require.NoError(t, within(t, result))
}

// Without a carrier the Engine is empty, and a server that cannot start says why.
func TestNoCarrier(t *testing.T) {
	h, address, result := newEcho(), freeAddress(t), make(chan error, 1)
	go func() { result <- gnetrun.RunWith(h, []string{"tcp://" + address}, gnetrun.Config{NoCarrier: true}) }()
	within(t, h.booted)
	require.Equal(t, errorx.ErrEmptyEngine, h.engine.Validate())
	require.Equal(t, errorx.ErrEmptyEngine, h.engine.Stop(t.Context()))
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.Write([]byte("shutdown"))
	require.NoError(t, err)
	require.NoError(t, within(t, result))
	require.Equal(t, -1, within(t, h.ended))

	require.ErrorIs(t, gnetrun.Run(newEcho(), "nothing"), errorx.ErrInvalidNetworkAddress)
	require.Error(t, gnetrun.Run(nil, "tcp://"+address))
}
