package epoll

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

func TestUDPEcho(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	peer := dialUDP(t, s.LocalAddr())
	for i := range 50 {
		sent := pattern(100+i, byte(i))
		_, err := peer.Write(sent)
		require.NoError(t, err)
		c := w.next(s, ring.EventPacket)
		require.Equal(t, ring.EventPacket, c.Events)
		require.Equal(t, sent, c.Packet.Bytes())
		require.Equal(t, peer.LocalAddr().(*net.UDPAddr).AddrPort(), c.Source)
		require.Equal(t, s.LocalAddr(), c.Destination)
		_, err = s.SendTo(c.Packet.Bytes(), c.Source)
		require.NoError(t, err)
		require.NoError(t, c.Packet.Release())
		back := make([]byte, 2000)
		n, err := peer.Read(back)
		require.NoError(t, err)
		require.Equal(t, sent, back[:n])
	}
	w.close(s)
}

func TestLargestDatagram(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	peer := dialUDP(t, s.LocalAddr())
	for i := range 3 {
		sent := pattern(65507, byte(i))
		_, err := peer.Write(sent)
		require.NoError(t, err)
		c := w.next(s, ring.EventPacket)
		require.NoError(t, c.Err)
		require.Equal(t, sent, c.Packet.Bytes())
		require.NoError(t, s.SendPacket(w.packet(sent, 2048), c.Source, 7))
		require.NoError(t, c.Packet.Release())
		c = w.next(s, ring.EventSent)
		require.NoError(t, c.Err)
		require.EqualValues(t, 7, c.Token)
		back := make([]byte, 65536)
		n, err := peer.Read(back)
		require.NoError(t, err)
		require.Equal(t, sent, back[:n])
	}
}

func TestDatagramThatIsTooLongIsMarked(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{LargestDatagram: 1000})
	peer := dialUDP(t, s.LocalAddr())
	_, err := peer.Write(pattern(9000, 1))
	require.NoError(t, err)
	c := w.next(s, ring.EventPacket)
	require.ErrorIs(t, c.Err, ring.ErrTruncated)
	require.Equal(t, pattern(9000, 1)[:c.Packet.Len()], c.Packet.Bytes())
	require.NoError(t, c.Packet.Release())
	require.EqualValues(t, 1, s.Ring().Stats().Truncated)
}

func TestEmptyDatagramThenANormalOne(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	peer := dialUDP(t, s.LocalAddr())
	for range 20 { // by way of epoll, then hot
		_, err := peer.Write(nil)
		require.NoError(t, err)
		_, err = peer.Write([]byte("full"))
		require.NoError(t, err)
		require.Empty(t, w.bytes(s))
		require.Equal(t, "full", string(w.bytes(s)))
	}
	// And out.
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	empty, err := w.pool.Alloc(0)
	require.NoError(t, err)
	require.NoError(t, s.SendPacket(empty, to, 1))
	require.NoError(t, w.next(s, ring.EventSent).Err)
	n, err := peer.Read(make([]byte, 10))
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestICMPErrorOfAConnectedSocket(t *testing.T) {
	w := newWorld(t)
	dead := w.udp(ring.Config{})
	to := dead.LocalAddr()
	w.close(dead)
	s := w.udp(ring.Config{})
	require.NoError(t, s.Connect(to))
	_, err := s.Send([]byte("anybody?"))
	require.NoError(t, err)
	c := w.next(s, ring.EventErr)
	require.Equal(t, ring.EventErr, c.Events)
	require.ErrorIs(t, c.Err, unix.ECONNREFUSED)

	// It goes on receiving.
	peer, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(to), net.UDPAddrFromAddrPort(s.LocalAddr()))
	require.NoError(t, err)
	defer func() { _ = peer.Close() }()
	_, err = peer.Write([]byte("me"))
	require.NoError(t, err)
	require.Equal(t, "me", string(w.bytes(s)))

	// When reading is stopped an error does not keep the ring awake; it is told on Resume, once.
	require.NoError(t, s.Suspend())
	require.NoError(t, peer.Close())
	_, err = s.Send([]byte("anybody?"))
	require.NoError(t, err)
	w.quiet(s, ^ring.Event(0))
	requireRests(t, w)
	require.NoError(t, s.Resume())
	require.ErrorIs(t, w.next(s, ring.EventErr).Err, unix.ECONNREFUSED)
	w.quiet(s, ^ring.Event(0))
}

func TestSendPacketErrorsOfDatagrams(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	peer := dialUDP(t, s.LocalAddr())
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	for _, bad := range []struct {
		name string
		p    []byte
		n    int
		to   netip.AddrPort
		e    unix.Errno
	}{
		{"longer than UDP carries", pattern(65508, 1), 65508, to, unix.EMSGSIZE},
		{"in more buffers than one message carries", pattern(65, 1), 1, to, unix.EMSGSIZE},
		{"address of another family", []byte("x"), 1, netip.MustParseAddrPort("[2001:db8::1]:5"), unix.EAFNOSUPPORT},
		{"zone that does not exist", []byte("x"), 1, netip.MustParseAddrPort("[fe80::1%nowhere0]:5"), unix.ENODEV},
		{"no destination", []byte("x"), 1, netip.AddrPort{}, unix.EDESTADDRREQ},
	} {
		require.NoError(t, s.SendPacket(w.packet(bad.p, bad.n), bad.to, 9), bad.name)
		c := w.next(s, ring.EventSent)
		require.ErrorIs(t, c.Err, bad.e, bad.name)
		require.EqualValues(t, 9, c.Token)
	}
	// The next one goes out, in as many buffers as one message carries.
	sent := pattern(64, 5)
	require.NoError(t, s.SendPacket(w.packet(sent, 1), to, 10))
	require.NoError(t, w.next(s, ring.EventSent).Err)
	back := make([]byte, 100)
	n, err := peer.Read(back)
	require.NoError(t, err)
	require.Equal(t, sent, back[:n])
}

func TestIPv6SocketSendsToBothFamilies(t *testing.T) {
	w := newWorld(t)
	s, err := w.set.NewSocket(ring.KindDatagram, ring.IPv6, ring.Config{})
	require.NoError(t, err)
	if err := s.Bind(netip.MustParseAddrPort("[::]:0")); err != nil {
		require.NoError(t, s.Close())
		testnet.Missing(t, "ipv6", err)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		peer, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host)})
		if err != nil {
			testnet.Missing(t, "ipv6", err)
		}
		to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
		to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
		require.NoError(t, s.SendPacket(w.packet([]byte(host), 100), to, 1))
		require.NoError(t, w.next(s, ring.EventSent).Err)
		b := make([]byte, 100)
		n, from, err := peer.ReadFromUDPAddrPort(b)
		require.NoError(t, err)
		require.Equal(t, host, string(b[:n]))
		_, err = peer.WriteToUDPAddrPort([]byte("back"), from)
		require.NoError(t, err)
		c := w.next(s, ring.EventPacket)
		require.Equal(t, to, c.Source)
		require.Equal(t, to.Addr(), c.Destination.Addr(), "on loopback a peer writes to its own address")
		require.NoError(t, c.Packet.Release())
		require.NoError(t, peer.Close())
	}
}

func TestFloodComesInBatches(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{LargestDatagram: 100})
	peer := dialUDP(t, s.LocalAddr())
	const n = 100
	for i := range n {
		_, err := peer.Write([]byte{byte(i)})
		require.NoError(t, err)
	}
	turns := 0
	for limit := time.Now().Add(patience); len(w.kept) < n; turns++ {
		require.True(t, time.Now().Before(limit))
		w.poll(64)
	}
	require.Less(t, turns, 30)
	for i := range n {
		require.Equal(t, []byte{byte(i)}, w.bytes(s))
	}
}
