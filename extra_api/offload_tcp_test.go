package extraapi_test

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
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

// ownTCP is a poller that carries TCP by the library's stack, and what it delivered and nobody has asked for yet.
type ownTCP struct {
	*require.Assertions
	net    *testnet.Net
	poller *xtreme.Poller
	kept   []xtreme.Completion
}

func newOwnTCP(t *testing.T) *ownTCP {
	n, _, p := cabled(t, func(s *conf.Settings) { s.Offload.TCP = true })
	return &ownTCP{Assertions: require.New(t), net: n, poller: p}
}

func (o *ownTCP) poll() {
	var done [8]xtreme.Completion
	n, err := o.poller.Poll(done[:])
	o.NoError(err)
	o.kept = append(o.kept, done[:n]...)
}

func (o *ownTCP) until(what string, holds func() bool) {
	for end := time.Now().Add(patience); !holds(); {
		o.True(time.Now().Before(end), "waiting for %s", what)
		o.poll()
	}
}

// next takes the next completion with an event.
func (o *ownTCP) next(e xtreme.Event) (c xtreme.Completion) {
	o.until(e.String(), func() bool {
		at := slices.IndexFunc(o.kept, func(c xtreme.Completion) bool { return c.Events.Has(e) })
		if at >= 0 {
			c = o.kept[at]
			o.kept = slices.Delete(o.kept, at, at+1)
		}
		return at >= 0
	})
	return c
}

// accept connects a socket of the peer's kernel to a listener: the two ends.
func (o *ownTCP) accept(t *testing.T, l *xtreme.Socket) (child *xtreme.Socket, peer net.Conn) {
	far := make(chan net.Conn, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		var c net.Conn
		if o.net.EnterPeer() == nil {
			c, _ = net.DialTimeout("tcp4", l.LocalAddr().String(), patience)
		}
		far <- c
	}()
	child = o.next(xtreme.EventNewConnection).Socket
	peer = <-far
	o.NotNil(peer)
	t.Cleanup(func() { _ = peer.Close() })
	o.True(child.IsOffloaded())
	return child, peer
}

// A connection that our own TCP has accepted: it has its listener's callback and mode, its stream can be taken in parts, a held packet raises no
// event, and its ID, which no descriptor has, is its user data.
func TestCallsOnAcceptedOwnTCP(t *testing.T) {
	o := newOwnTCP(t)
	verdict, seen, held := extraapi.PacketRecv, "", []xtreme.Packet(nil)
	l, err := o.poller.ListenTCP(netip.AddrPortFrom(o.net.Local(0), 0), xtreme.ListenConfig{
		SocketConfig: extraapi.RecvCallback(func(_ extraapi.Info, p xtreme.Packet) xtreme.Verdict {
			if seen += string(p.Bytes()); verdict == extraapi.PacketHold {
				held = append(held, p)
			}
			return verdict
		}, true)})
	o.NoError(err)
	s, peer := o.accept(t, l)
	o.Equal(uint64(s.ID()), s.UserData())
	o.GreaterOrEqual(s.ID(), 1<<30, "no descriptor")
	_, err = unix.FcntlInt(uintptr(l.ID()), unix.F_GETFD, 0)
	o.NoError(err, "a listener's ID is one")
	o.Equal(1, extraapi.SocketRingsNum(s))
	r, err := extraapi.SocketTxRing(s, netip.AddrPort{})
	o.NoError(err)
	o.Same(s.Ring(), r)

	write := func(text string) {
		_, err := peer.Write([]byte(text))
		o.NoError(err)
	}
	write("abcdef")
	o.Same(s, o.next(xtreme.EventIn).Socket)
	o.Equal("abcdef", seen)
	done := make([]xtreme.Completion, 4)
	for _, flags := range []extraapi.Flags{extraapi.Peek, extraapi.WaitAll} {
		_, _, err = extraapi.RecvFromZeroCopy(s, done, 0, flags)
		o.ErrorIs(err, ring.ErrNotSupported)
	}
	b := make([]byte, 4)
	n, _, err := extraapi.Recv(s, b)
	o.NoError(err)
	o.Equal("abcd", string(b[:n]))
	_, _, err = extraapi.RecvFromZeroCopy(s, done, 1, 0)
	o.ErrorIs(err, unix.ENOBUFS)
	packets, bytes, err := extraapi.RecvFromZeroCopy(s, done, 0, 0)
	o.NoError(err)
	o.Equal([]int{1, 2}, []int{packets, bytes})
	first := done[0].Packet.Buffer()
	o.NoError(first.Retain())
	freed, err := extraapi.FreeCompletions(s, done[:packets])
	o.NoError(err)
	o.Equal(1, freed)
	o.Equal("ef", string(first.Bytes()), "a reference keeps the buffer")
	o.NoError(first.Release())
	o.ErrorIs(first.Release(), buffers.ErrStale)
	_, _, err = extraapi.RecvFromZeroCopy(s, done, 0, 0)
	o.ErrorIs(err, unix.EAGAIN)

	verdict = extraapi.PacketHold
	write("held")
	o.until("the callback", func() bool { return len(held) == 1 })
	verdict = extraapi.PacketDrop
	write("dropped")
	o.until("the callback again", func() bool { return s.Stats().CallbackDrops == 1 })
	for range 20 {
		o.poll()
	}
	o.Empty(o.kept)
	o.Equal("held", string(held[0].Bytes()))
	_, err = extraapi.FreePackets(s, held...)
	o.NoError(err)
	o.NoError(s.Close())
	o.next(xtreme.EventClosed)
	o.Zero(extraapi.SocketRingsNum(s))
}

// On a ring that carries TCP not all sockets can the same: what Query says of one is what its path can, and what the call does.
func TestCapabilitiesBesideOwnTCP(t *testing.T) {
	o := newOwnTCP(t)
	at := netip.AddrPortFrom(o.net.Local(0), 0)
	l, err := o.poller.ListenTCP(at, xtreme.ListenConfig{})
	require.NoError(t, err)
	u, err := o.poller.OpenUDP(at, xtreme.UDPConfig{})
	require.NoError(t, err)
	ours, _ := o.accept(t, l)
	near, err := net.DialTimeout("tcp4", l.LocalAddr().String(), patience) // the kernel's listener has it at once
	require.NoError(t, err)
	defer near.Close()
	kernels := o.next(xtreme.EventNewConnection).Socket
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
