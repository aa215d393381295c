package gnet_test

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// offloaded answers datagrams, and gives away its engine and the first Conn.
type offloaded struct {
	gnet.BuiltinEventEngine
	engine chan gnet.Engine
	conns  chan gnet.Conn
	paths  chan string
}

func (h *offloaded) OnBoot(e gnet.Engine) gnet.Action { h.engine <- e; return gnet.None }

func (h *offloaded) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = c.Write(b)
	p := c.(gnet.DatagramX).Path()
	select {
	case h.paths <- p.Tier + " " + p.Kind:
		h.conns <- c
	default:
	}
	return gnet.None
}

// serveOffloaded serves on a network of the test's own until the test's end.
func serveOffloaded(t *testing.T, n *testnet.Net, at netip.AddrPort) (*offloaded, gnet.Engine) {
	t.Helper()
	h := &offloaded{engine: make(chan gnet.Engine, 1), conns: make(chan gnet.Conn, 1), paths: make(chan string, 1)}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: a thread that was moved is not given back
		if err := n.Enter(); err != nil {
			result <- err
			return
		}
		result <- gnet.Run(h, "udp://"+at.String(), gnet.WithRing(conf.RingOffload))
	}()
	var engine gnet.Engine
	select {
	case engine = <-h.engine:
	case err := <-result:
		require.FailNow(t, "it did not start", "%v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, engine.Stop(ctx))
		require.NoError(t, <-result)
	})
	return h, engine
}

// A handler written for gnet serves UDP over our own stack by naming the kind of ring. There is no descriptor there that anything could
// be done with, and Fd and Dup say so.
func TestOffloadedUDPServer(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	at := netip.AddrPortFrom(n.Local(0), 7777)
	h, engine := serveOffloaded(t, n, at)
	peer := n.Dial(at)
	b := make([]byte, 64)
	for i := range 100 {
		_, err := peer.Write([]byte{byte(i)})
		require.NoError(t, err)
		k, err := peer.Read(b)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, b[:k])
	}
	require.Equal(t, "bypass offload", <-h.paths)
	c := <-h.conns
	require.Equal(t, -1, c.Fd())
	for _, dup := range []func() (int, error){c.Dup, engine.Dup, func() (int, error) { return engine.DupListener("udp", at.String()) }} {
		fd, err := dup()
		require.Equal(t, -1, fd)
		require.ErrorIs(t, err, gnet.ErrUnsupportedOp)
		require.ErrorContains(t, err, "offloaded ring")
	}
}

// What other goroutines write goes out by the ring as well, each one's in its order, and nothing past it by the kernel.
func TestOffloadedUDPWritesFromOtherGoroutines(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	at := netip.AddrPortFrom(n.Local(0), 7777)
	h, _ := serveOffloaded(t, n, at)
	peer := n.Dial(at)
	b := make([]byte, 64)
	_, err := peer.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = peer.Read(b)
	require.NoError(t, err)
	require.Equal(t, "bypass offload", <-h.paths)
	c := <-h.conns

	const writers, each, window = 3, 500, 32
	failed := make(chan error, writers)
	var credit [writers]chan struct{} // what the peer has not read yet must fit its socket
	for w := range writers {
		credit[w] = make(chan struct{}, window)
		go func() {
			data := make([]byte, 3)
			for i := range each {
				credit[w] <- struct{}{}
				data[0], data[1], data[2] = byte(w), byte(i>>8), byte(i)
				if _, err := c.Write(data); err != nil { // the slice is ours again when it returns
					failed <- err
					return
				}
				clear(data)
			}
			failed <- nil
		}()
	}
	require.NoError(t, peer.SetReadDeadline(time.Now().Add(20*time.Second)))
	var next [writers]int
	for range writers * each {
		k, err := peer.Read(b)
		require.NoError(t, err)
		require.Equal(t, 3, k)
		w := b[0]
		require.Equal(t, next[w], int(b[1])<<8|int(b[2]))
		next[w]++
		<-credit[w]
	}
	for range writers {
		require.NoError(t, <-failed)
	}
	type sums struct{ sent, byKernel uint64 }
	counts := make(chan sums, 1)
	require.NoError(t, c.EventLoop().Execute(t.Context(), gnet.RunnableFunc(func(context.Context) error {
		s := c.(gnet.DatagramX).Socket()
		sum := sums{sent: s.Stats().SentMessages}
		for _, count := range s.Ring().Stats().Driver {
			if count.Name == "offload.os_sends" {
				sum.byKernel = count.Value
			}
		}
		counts <- sum
		return nil
	})))
	require.Equal(t, sums{sent: writers*each + 1}, <-counts)
	_, err = c.Write(make([]byte, 65_508)) // what can be known without the loop is an error at once
	require.ErrorIs(t, err, unix.EMSGSIZE)
	_, err = c.SendTo([]byte("x"), &net.UDPAddr{IP: net.IPv6loopback, Port: 7777})
	require.Error(t, err)
}
