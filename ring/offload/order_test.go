package offload_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
)

// What a ring found to be sent when it was about to sleep is reported before what is sent after it.
func TestSentInOrderAroundARest(t *testing.T) {
	e := newEnds(t, memory.Config{})
	a, _ := e.connect(ring.Config{LargestDatagram: 2048})
	e.poll(0)
	_, err := a.Send([]byte("the neighbour is known after this"))
	require.NoError(t, err)
	drop := func(i int) {
		for _, c := range e.poll(i) {
			require.NoError(t, c.Packet.Release())
		}
	}
	for range 3 {
		drop(0)
		drop(1)
	}
	send := func(token uint64) {
		p, err := e.pools[0].Alloc(1)
		require.NoError(t, err)
		require.NoError(t, p.SetLen(copy(p.Room(), "x")))
		require.NoError(t, a.SendPacket(p, netip.AddrPort{}, token))
	}
	send(1)
	require.NoError(t, a.Ring().Flush())
	pending, err := a.Ring().Arm()
	require.NoError(t, err)
	require.True(t, pending, "SENT is there")
	send(2)
	var tokens []uint64
	for range 3 {
		for _, c := range e.poll(0) {
			if c.Events.Has(ring.EventSent) {
				tokens = append(tokens, c.Token)
			}
		}
	}
	require.Equal(t, []uint64{1, 2}, tokens)
	drop(1)
}

// Datagrams arrive in the order in which they were sent, whether they leave as frames or by the kernel: long ones that it cuts, and those to a
// group whose members on this host receive them too.
func TestOrderOfFramesAndTheKernels(t *testing.T) {
	c, _, s := veth(t, 1, xdp.Config{})
	group := netip.MustParseAddrPort(sameHostGroup)
	peer := c.Net.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), group.Port()))
	c.Net.InPeer(func() { joinKernel(t, peer, "p0") })
	unicast := netip.AddrPortFrom(c.Net.Peer(0), group.Port())
	require.NoError(t, s.JoinGroup(group.Addr(), "v0", netip.Addr{})) // its interface is the way to the group
	b := make([]byte, 4096)
	read := func() string {
		n, err := peer.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
	sendTo := func(text string, to netip.AddrPort) {
		_, err := s.SendTo([]byte(text), to)
		require.NoError(t, err)
	}
	packet := func(text string, to netip.AddrPort) {
		p, err := s.Ring().Pool().Alloc(len(text))
		require.NoError(t, err)
		require.NoError(t, p.SetLen(copy(p.Room(), text)))
		require.NoError(t, s.SendPacket(p, to, 1))
	}
	sendTo("the neighbour is known after this", unicast)
	require.NoError(t, s.Ring().Flush())
	read()
	long := strings.Repeat("long ", 600)
	dst := make([]ring.Completion, 64)
	for name, steps := range map[string][]func() string{
		"a long one between": {
			func() string { sendTo("first", unicast); return "first" },
			func() string { sendTo(long, unicast); return long },
			func() string { sendTo("third", unicast); return "third" },
		},
		"packets": {
			func() string { packet("first", unicast); return "first" },
			func() string { packet(long, unicast); return long },
			func() string { packet("third", unicast); return "third" },
		},
		"to a group between": {
			func() string { sendTo("first", unicast); return "first" },
			func() string { sendTo("second", group); return "second" },
			func() string { sendTo("third", unicast); return "third" },
			func() string { packet("fourth", unicast); return "fourth" },
			func() string { sendTo("fifth", group); return "fifth" },
		},
	} {
		before := counter(s.Ring(), "offload.os_sends")
		var want, got []string
		for _, step := range steps {
			want = append(want, step()[:5])
		}
		require.NoError(t, s.Ring().Flush())
		for range want {
			got = append(got, read()[:5])
		}
		require.Equal(t, want, got, name)
		if name != "to a group between" { // those need no ring
			require.Equal(t, before+1, counter(s.Ring(), "offload.os_sends"))
		}
		n, err := s.Ring().Poll(dst)
		require.NoError(t, err)
		for i := range dst[:n] {
			if !dst[i].Packet.IsZero() {
				require.NoError(t, dst[i].Packet.Release())
			}
		}
	}
	require.EqualValues(t, 1+2+2+3, counter(s.Ring(), "v0.tx_frames"), "all others were frames")
}
