package xtreme_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A connection moves into the kernel and back on request, and is told both; other sockets are refused.
func TestMoveOnRequest(t *testing.T) {
	w := newTCPCabled(t, unchanged, testnet.Pair{})
	w.ErrorIs(w.poller.MoveToKernel(nil), unix.EINVAL)
	l := w.listenTCP(w.world, w.at(0))
	peer := w.dialFromPeer(w.world, l.LocalAddr())
	c := w.accept(l)
	w.echo(c, peer, 3)
	w.ErrorIs(w.poller.MoveToKernel(l), unix.EINVAL)
	w.ErrorIs(w.poller.MoveToStack(c), unix.EINVAL)
	for range 2 {
		w.NoError(w.poller.MoveToKernel(c))
		w.event(c, xtreme.EventPath)
		w.Equal("kernel", c.Path().Tier, c.Path().Explain())
		w.Contains(codes(c.Path()), "tcp.moved")
		w.Equal(1, w.kernelConnections())
		w.echo(c, peer, 3)
		w.NoError(w.poller.MoveToStack(c))
		w.event(c, xtreme.EventPath)
		w.Equal("bypass", c.Path().Tier, c.Path().Explain())
		w.Zero(w.kernelConnections())
		w.echo(c, peer, 3)
	}
	other := w.newPoller("other")
	w.ErrorIs(other.MoveToKernel(c), unix.EINVAL)
	w.close(c)
	w.close(l)
}
