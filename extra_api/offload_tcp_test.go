package extraapi_test

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A TCP connection that the library's stack carries (SX_OFFLOAD_TCP=1) is offloaded: the kernel copies nothing of it. What it cannot do, it does
// not put down to the kernel, and the statistics have nothing of the kernel's socket that reserves its port.
func TestCallsOnOwnTCP(t *testing.T) {
	n, _, p := cabled(t, func(s *conf.Settings) { s.Offload.TCP = true })
	var l net.Listener
	n.InPeer(func() {
		var err error
		l, err = net.Listen("tcp4", netip.AddrPortFrom(n.Peer(0), 0).String())
		require.NoError(t, err)
	})
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	s, err := p.DialTCP(l.Addr().(*net.TCPAddr).AddrPort(), xtreme.DialConfig{SocketConfig: extraapi.Pull()})
	require.NoError(t, err)
	require.Equal(t, "bypass", s.Path().Tier, s.Path())
	require.True(t, s.IsOffloaded())

	done := make([]xtreme.Completion, 8)
	until := func(holds func() bool) {
		for end := time.Now().Add(patience); !holds(); {
			require.True(t, time.Now().Before(end))
			_, err := p.Poll(done)
			require.NoError(t, err)
		}
	}
	var peer net.Conn
	until(func() bool {
		select {
		case peer = <-accepted:
		default:
		}
		return peer != nil
	})
	require.NotNil(t, peer)
	defer peer.Close()
	_, err = peer.Write([]byte("data"))
	require.NoError(t, err)
	until(func() bool { _, bytes := s.Waiting(); return bytes == 4 })
	packets, bytes, err := extraapi.RecvFromZeroCopy(s, done, 0, extraapi.ZeroCopyForce)
	require.NoError(t, err)
	require.Equal(t, 4, bytes)
	_, err = extraapi.FreeCompletions(s, done[:packets])
	require.NoError(t, err)

	because := func(err error, code string) {
		t.Helper()
		require.ErrorIs(t, err, ring.ErrNotSupported)
		var f *ring.FeatureError
		require.ErrorAs(t, err, &f)
		require.Equal(t, code, f.Code)
	}
	because(extraapi.DummySend(s, []byte("x"), netip.AddrPort{}), "warm.own_tcp")
	_, err = extraapi.SocketNetworkHeader(s, nil, netip.AddrPort{})
	because(err, "header.own_tcp")
	for _, rate := range []xtreme.PacingRate{{Rate: 1e6}, {Rate: 1e6, Burst: 5000}} {
		because(s.SetPacing(rate), "tcp.no_pacing")
	}
	f, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, s.SendFile(f, 0, 1, 1), ring.ErrNotSupported)
	for feature, want := range map[extraapi.Feature]string{extraapi.ZeroCopyReceive: "", extraapi.WarmSend: "warm.own_tcp",
		extraapi.NetworkHeader: "header.own_tcp"} {
		c, err := extraapi.Query(s, feature)
		require.NoError(t, err)
		require.Equal(t, want, c.Reason.Code, c)
		require.Equal(t, want == "", c.Support == extraapi.Yes, c)
	}
	var dump strings.Builder
	require.NoError(t, extraapi.DumpSocket(&dump, s))
	require.Contains(t, dump.String(), "rx: packets 1, bytes 4")
	require.NotContains(t, dump.String(), "round trip")
}

// On a ring that carries TCP not all sockets can the same: what Query says of one is what its path can, and what the call does.
func TestCapabilitiesBesideOwnTCP(t *testing.T) {
	n, _, p := cabled(t, func(s *conf.Settings) { s.Offload.TCP = true })
	l, err := p.ListenTCP(netip.AddrPortFrom(n.Local(0), 0), xtreme.ListenConfig{})
	require.NoError(t, err)
	u, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{})
	require.NoError(t, err)
	done := make([]xtreme.Completion, 8)
	accept := func() (child *xtreme.Socket) {
		for end := time.Now().Add(patience); child == nil; {
			require.True(t, time.Now().Before(end))
			k, err := p.Poll(done)
			require.NoError(t, err)
			for i := range done[:k] {
				if done[i].Events.Has(xtreme.EventNewConnection) {
					child = done[i].Socket
				}
			}
		}
		return child
	}
	far := make(chan net.Conn, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		var c net.Conn
		if n.EnterPeer() == nil {
			c, _ = net.DialTimeout("tcp4", l.LocalAddr().String(), patience)
		}
		far <- c
	}()
	ours := accept()
	c := <-far
	require.NotNil(t, c)
	defer c.Close()
	near, err := net.DialTimeout("tcp4", l.LocalAddr().String(), patience) // the kernel's listener has it at once
	require.NoError(t, err)
	defer near.Close()
	kernels := accept()
	require.True(t, ours.IsOffloaded())
	require.Equal(t, "tcp.same_host", kernels.Path().Lost)
	require.Same(t, ours.Ring(), kernels.Ring())

	const yes = "" // otherwise the code of the reason
	for _, c := range []struct {
		name                          string
		s                             *xtreme.Socket
		out, window, shared, zeroCopy string
	}{
		{"a connection of our own", ours, yes, yes, "socket.stream", yes},
		{"a connection of the kernel's", kernels, "os.no_ack_events", "os.kernel_window", "socket.stream", "epoll.copies_sends"},
		{"UDP", u, "socket.datagram", "socket.datagram", yes, yes},
		{"the listener", l, "socket.listener", yes, "socket.stream", yes},
	} {
		for feature, want := range map[extraapi.Feature]string{extraapi.OutPerAck: c.out, extraapi.WindowAtRelease: c.window,
			extraapi.SharedMulticast: c.shared, extraapi.ZeroCopySend: c.zeroCopy} {
			about, err := extraapi.Query(c.s, feature)
			require.NoError(t, err)
			require.Equal(t, want, about.Reason.Code, "%s: %v", c.name, about)
			require.Equal(t, want == yes, about.Support == extraapi.Yes, "%s: %v", c.name, about)
		}
		err := c.s.SetOutPerAck(true)
		if c.out == yes {
			require.NoError(t, err, c.name)
			continue
		}
		var f *ring.FeatureError
		require.ErrorAs(t, err, &f, c.name)
		require.Equal(t, c.out, f.Code, c.name)
	}
}
