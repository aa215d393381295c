package simnet

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
)

// Frames of a switched network go where they belong once the switch knows.
func TestSwitchLearns(t *testing.T) {
	w := New(3)
	lan := w.Switch("lan")
	var sockets []*ring.Socket
	for i := range 3 {
		h, err := w.Host(fmt.Sprint("h", i), HostConfig{Addrs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", i+1))}})
		require.NoError(t, err)
		_, err = w.Connect(h.NIC(0), lan)
		require.NoError(t, err)
		s, err := h.OpenUDP(netip.AddrPortFrom(h.Addr(), 7), ring.Config{})
		require.NoError(t, err)
		sockets = append(sockets, s)
	}
	for range 5 {
		_, err := sockets[0].SendTo([]byte("x"), sockets[1].LocalAddr())
		require.NoError(t, err)
		require.NoError(t, w.Run(w.Now()+time.Second))
	}
	require.Equal(t, []string{"h0.eth0>lan", "lan>h0.eth0", "h1.eth0>lan", "lan>h1.eth0", "h2.eth0>lan", "lan>h2.eth0"}, names(w.Lines()))
	require.Equal(t, uint64(1), w.Lines()[5].Stats().Arrived, "the question only")
	require.Equal(t, SwitchStats{Received: 7, Copies: 1}, lan.Stats())
	require.NoError(t, lan.Query(time.Second))
	require.NoError(t, w.Run(10*time.Second))
	require.NoError(t, w.Close())
	require.ErrorContains(t, w.Run(time.Hour), "closed")
	require.ErrorContains(t, w.Close(), "closed")
}

func names(list []*Line) (all []string) {
	for _, l := range list {
		all = append(all, l.Name())
	}
	return all
}

// Members answer a query, and a group reaches the members of two hosts.
func TestQueryIsAnswered(t *testing.T) {
	w := New(3)
	lan := w.Switch("lan")
	group := netip.MustParseAddr("233.252.0.1")
	got := 0
	var from *ring.Socket
	for i := range 3 {
		h, err := w.Host(fmt.Sprint("h", i), HostConfig{Addrs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", i+1))}})
		require.NoError(t, err)
		_, err = w.Connect(h.NIC(0), lan)
		require.NoError(t, err)
		h.Handle(func(c *ring.Completion) { got++; require.NoError(t, c.Packet.Release()) })
		if i == 0 {
			from, err = h.OpenUDP(netip.AddrPortFrom(h.Addr(), 0), ring.Config{})
			require.NoError(t, err)
			continue
		}
		s, err := h.OpenUDP(netip.AddrPortFrom(group, 7), ring.Config{})
		require.NoError(t, err)
		require.NoError(t, s.JoinGroup(group, "eth0", netip.Addr{}))
	}
	require.NoError(t, w.Run(5*time.Second))
	reports := w.Lines()[2].Stats().Sent
	require.Equal(t, uint64(2), reports, "a change is reported twice")
	_, err := from.SendTo([]byte("to both"), netip.AddrPortFrom(group, 7))
	require.NoError(t, err)
	require.NoError(t, lan.Query(time.Second))
	require.NoError(t, w.Run(10*time.Second))
	require.Equal(t, reports+1, w.Lines()[2].Stats().Sent)
	require.Equal(t, 2, got)
	require.NoError(t, w.Close())
}

// A frame that waits at two hosts that stand still is one frame in two places.
func TestSharedFramesAreCountedOnce(t *testing.T) {
	w, sockets := lan(t, 3)
	group := netip.MustParseAddrPort("233.252.0.1:7")
	for _, h := range w.hosts[1:] {
		h.Pause(time.Minute)
	}
	_, err := sockets[0].SendTo([]byte("x"), group)
	require.NoError(t, err)
	require.NoError(t, w.Run(time.Second))
	require.Equal(t, 1, w.alive)
	require.NoError(t, w.Run(2*time.Minute))
	require.Zero(t, w.alive)
	require.NoError(t, w.Close())
}

// lan is hosts at one switch, each with a socket.
func lan(t *testing.T, n int) (w *World, sockets []*ring.Socket) {
	w = New(3)
	s := w.Switch("lan")
	for i := range n {
		h, err := w.Host(fmt.Sprint("h", i), HostConfig{Addrs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", i+1))}})
		require.NoError(t, err)
		_, err = w.Connect(h.NIC(0), s)
		require.NoError(t, err)
		k, err := h.OpenUDP(netip.AddrPortFrom(h.Addr(), 7), ring.Config{})
		require.NoError(t, err)
		sockets = append(sockets, k)
	}
	return w, sockets
}
