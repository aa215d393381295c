package gnet_test

import (
	"context"
	"fmt"
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

// offloaded answers datagrams and tells by which path they came, and what Fd and Dup are.
type offloaded struct {
	gnet.BuiltinEventEngine
	engine chan gnet.Engine
	paths  chan string
	fds    chan error
}

func (h *offloaded) OnBoot(e gnet.Engine) gnet.Action { h.engine <- e; return gnet.None }

func (h *offloaded) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = c.Write(b)
	p := c.(gnet.DatagramX).Path()
	select {
	case h.paths <- p.Tier + " " + p.Kind:
		fd, err := c.Dup()
		if err == nil {
			a, e := unix.Getsockname(fd) // of the shadow: the kernel's socket that reserves the port
			if in, ok := a.(*unix.SockaddrInet4); e != nil || !ok || in.Port == 0 {
				err = fmt.Errorf("Dup is a socket of %v: %v", a, e)
			}
			_ = unix.Close(fd)
		}
		h.fds <- err
	default:
	}
	return gnet.None
}

// A handler written for gnet serves UDP over our own stack by naming the kind of ring.
func TestOffloadedUDPServer(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	h := &offloaded{engine: make(chan gnet.Engine, 1), paths: make(chan string, 1), fds: make(chan error, 1)}
	at := netip.AddrPortFrom(n.Local(0), 7777)
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
	peer := n.Dial(at)
	b := make([]byte, 64)
	for i := range 100 {
		_, err := peer.Write([]byte{byte(i)})
		require.NoError(t, err)
		k, err := peer.Read(b)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, b[:k])
	}
	require.Equal(t, "offload offload", <-h.paths)
	require.NoError(t, <-h.fds)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, engine.Stop(ctx))
	require.NoError(t, <-result)
}
