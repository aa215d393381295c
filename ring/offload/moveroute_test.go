package offload_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
)

// until polls until a condition holds; see is given each completion.
func (m *movable) until(t *testing.T, s *ring.Socket, what string, see func(*ring.Completion), holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		require.True(t, time.Now().Before(end), "%s; %s %v", what, s.Path().Explain(), s.Ring().Stats().Driver)
		n, err := s.Ring().Poll(m.dst)
		require.NoError(t, err)
		for i := range m.dst[:n] {
			see(&m.dst[i])
		}
	}
}

// A connection whose route leads over an interface that is no link of the ring moves into the kernel, and returns with its route.
func TestConnectionMovesWithItsRoute(t *testing.T) {
	m := newMovable(t)
	l := listenTCP(t, m.set, "10.0.0.1:7000")
	s, peer := m.accepted(t, l)
	defer peer.Close()
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "x0"}, PeerName: "x1"}))
	for _, name := range []string{"x0", "x1"} {
		require.NoError(t, netlink.LinkSetUp(linkOf(t, name)))
	}
	elsewhere := &netlink.Route{LinkIndex: linkOf(t, "x0").Attrs().Index, Scope: netlink.SCOPE_LINK,
		Dst: &net.IPNet{IP: m.Peer(0).AsSlice(), Mask: net.CIDRMask(32, 32)}}
	require.NoError(t, netlink.RouteAdd(elsewhere))
	paths := 0
	see := func(c *ring.Completion) {
		require.Equal(t, ring.EventPath, c.Events)
		paths++
	}
	m.until(t, s, "it moves", see, func() bool { return s.Path().Lost == "tcp.moved" })
	require.Contains(t, s.Path().Explain(), "its route leads over x0")
	require.NoError(t, netlink.RouteDel(elsewhere))
	m.until(t, s, "it returns", see, func() bool { return s.Path().Tier == "bypass" && s.Path().Lost == "" })
	require.GreaterOrEqual(t, paths, 2)
	newFullStream(t, m, s, peer, 1<<20).finish()
	require.NoError(t, s.Close())
}

// Packets that SendPacket has queued, and that nobody has acknowledged yet, move with their connection: each arrives, and each completes once.
func TestSentPacketsMove(t *testing.T) {
	m := newMovable(t)
	l := listenTCP(t, m.set, "10.0.0.1:7000")
	s, peer := m.accepted(t, l)
	defer peer.Close()
	const size = 1000
	sent, completed, last := 0, map[uint64]int{}, 0
	see := func(c *ring.Completion) {
		if c.Events.Has(ring.EventSent) {
			require.NoError(t, c.Err)
			completed[c.Token]++
		}
	}
	send := func() {
		for range 2000 {
			p, err := m.pool.Alloc(size)
			require.NoError(t, err)
			binary.BigEndian.PutUint32(p.Bytes(), uint32(sent))
			if err := s.SendPacket(p, netip.AddrPort{}, uint64(sent)); err != nil {
				require.ErrorIs(t, err, ring.ErrWouldBlock)
				require.NoError(t, p.Release())
				return
			}
			sent++
		}
	}
	read := func() { // all that was sent so far
		for b := make([]byte, size); last < sent; last++ {
			for got := 0; got < size; {
				require.NoError(t, peer.SetReadDeadline(time.Now().Add(time.Millisecond)))
				n, err := peer.Read(b[got:])
				if got += n; err != nil {
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				}
				n, err = s.Ring().Poll(m.dst)
				require.NoError(t, err)
				for i := range m.dst[:n] {
					see(&m.dst[i])
				}
			}
			require.EqualValues(t, last, binary.BigEndian.Uint32(b))
		}
	}
	for _, move := range []struct {
		to   func(ring.Driver, *ring.Socket) error
		tier string
	}{{offload.MoveToKernel, ring.TierKernel}, {offload.MoveToStack, ring.TierBypass}} {
		send()
		require.NoError(t, s.Ring().Flush())
		send() // some of them have not left
		require.NoError(t, move.to(m.driver, s))
		m.until(t, s, "it moves", see, func() bool { return s.Path().Tier == move.tier })
		read()
		m.until(t, s, "all complete", see, func() bool { return len(completed) == sent })
	}
	for token, n := range completed {
		require.Equal(t, 1, n, "packet %d", token)
	}
	require.Greater(t, sent, 200)
	require.Zero(t, counter(s.Ring(), "tcp.not_moved"))
	require.NoError(t, s.Close())
}
