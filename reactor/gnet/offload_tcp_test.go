package gnet_test

import (
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// streamServer echoes, and gives away its engine and the first connection.
type streamServer struct {
	gnet.BuiltinEventEngine
	engine chan gnet.Engine
	conns  chan gnet.Conn
	tiers  chan string
	closed chan error
}

func (h *streamServer) OnBoot(e gnet.Engine) gnet.Action { h.engine <- e; return gnet.None }

func (h *streamServer) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	h.tiers <- c.(gnet.ConnX).Path().Tier
	h.conns <- c
	return nil, gnet.None
}

func (h *streamServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = c.Write(b)
	return gnet.None
}

func (h *streamServer) OnClose(_ gnet.Conn, err error) gnet.Action { h.closed <- err; return gnet.None }

// A handler written for gnet serves TCP over our own stack by a setting alone. Options are set on the loop, and there is no descriptor.
func TestOffloadedTCPServer(t *testing.T) {
	t.Setenv("SX_OFFLOAD_TCP", "1")
	n := testnet.New(t, testnet.Pair{})
	at := netip.AddrPortFrom(n.Local(0), 7778)
	h := &streamServer{engine: make(chan gnet.Engine, 1), conns: make(chan gnet.Conn, 9), tiers: make(chan string, 9), closed: make(chan error, 9)}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: a thread that was moved is not given back
		if err := n.Enter(); err != nil {
			result <- err
			return
		}
		result <- gnet.Run(h, "tcp://"+at.String(), gnet.WithRing(conf.RingOffload), gnet.WithTCPKeepAlive(time.Minute))
	}()
	var engine gnet.Engine
	select {
	case engine = <-h.engine:
	case err := <-result:
		require.FailNow(t, "it did not start", "%v", err)
	}
	dial := func() (c *net.TCPConn) {
		n.InPeer(func() {
			x, err := net.DialTimeout("tcp4", at.String(), 20*time.Second)
			require.NoError(t, err)
			c = x.(*net.TCPConn)
		})
		require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
		require.Equal(t, "bypass", <-h.tiers)
		return c
	}
	peer := dial()
	defer peer.Close()
	c := <-h.conns
	b := make([]byte, 2)
	for i := range 100 {
		_, err := peer.Write([]byte{byte(i), 'x'})
		require.NoError(t, err)
		_, err = io.ReadFull(peer, b)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i), 'x'}, b)
	}
	require.Equal(t, -1, c.Fd())
	_, err := c.Dup()
	require.ErrorIs(t, err, gnet.ErrUnsupportedOp)
	for _, set := range []func() error{func() error { return c.SetNoDelay(false) }, func() error { return c.SetReadBuffer(1 << 20) },
		func() error { return c.SetWriteBuffer(1 << 20) }, func() error { return c.SetKeepAlivePeriod(time.Minute) }} {
		require.NoError(t, set())
	}

	// A transfer that is larger than all buffers on the way, both ways at once.
	data := make([]byte, 16<<20)
	for i := range data {
		data[i] = byte(i * 31 >> 7)
	}
	sent := make(chan error, 1)
	go func() { _, err := peer.Write(data); sent <- err }()
	sum := sha256.New()
	_, err = io.CopyN(sum, peer, int64(len(data)))
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Equal(t, sha256.Sum256(data), [32]byte(sum.Sum(nil)))

	second := dial() // its peer resets it
	require.NoError(t, second.SetLinger(0))
	require.NoError(t, second.Close())
	require.Error(t, <-h.closed)
	require.NoError(t, peer.CloseWrite())
	_, err = io.ReadFull(peer, b)
	require.ErrorIs(t, err, io.EOF)
	<-h.closed
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(t, engine.Stop(ctx))
	require.NoError(t, <-result)
}
