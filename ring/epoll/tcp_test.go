package epoll

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

const (
	fin     = ring.EventIn | ring.EventRdHup
	rst     = ring.EventIn | ring.EventErr | ring.EventHup | ring.EventRdHup
	refused = ring.EventIn | ring.EventErr | ring.EventHup
)

func TestTCPEcho(t *testing.T) {
	for _, large := range []bool{false, true} {
		w := newWorld(t)
		s, peer := w.connected(ring.Config{LargeStream: large})
		for _, n := range []int{1, 64, 2048, 2300, 30000} {
			sent := pattern(n, byte(n))
			_, err := peer.Write(sent)
			require.NoError(t, err)
			got := w.stream(s, n)
			require.Equal(t, sent, got)
			m, err := s.Send(got)
			require.NoError(t, err)
			require.Equal(t, n, m)
			back := make([]byte, n)
			_, err = io.ReadFull(peer, back)
			require.NoError(t, err)
			require.Equal(t, sent, back)
		}
		w.close(s)
	}
}

func TestFINComesAfterTheData(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	sent := pattern(20000, 1)
	_, err := peer.Write(sent)
	require.NoError(t, err)
	require.NoError(t, peer.CloseWrite())
	c := w.next(s, ring.EventIn) // packets before it are kept
	require.True(t, c.Events.Has(fin), "%v", c.Events)
	require.False(t, c.Events.Any(ring.EventErr|ring.EventHup), "%v", c.Events)
	require.NoError(t, c.Err)
	var got []byte
	for _, k := range append(w.kept, c) {
		got = append(got, k.Packet.Bytes()...)
	}
	require.Equal(t, sent, got)
	_ = c.Packet.Release()
	w.release()

	// The other direction is open still, and the FIN is not told twice.
	_, err = s.Send([]byte("bye"))
	require.NoError(t, err)
	back, err := func() ([]byte, error) { b := make([]byte, 3); _, err := io.ReadFull(peer, b); return b, err }()
	require.NoError(t, err)
	require.Equal(t, "bye", string(back))
	w.quiet(s, ^ring.Event(0))
	w.close(s)
	n, err := peer.Read(back)
	require.Zero(t, n)
	require.ErrorIs(t, err, io.EOF)
}

func TestFINComesInTheTurnOfTheLastData(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	_, err := peer.Write([]byte("last"))
	require.NoError(t, err)
	require.NoError(t, peer.CloseWrite())
	time.Sleep(5 * time.Millisecond)
	w.poll(4)
	var events ring.Event
	for _, c := range w.kept {
		require.Same(t, s, c.Socket)
		events |= c.Events
	}
	require.True(t, events.Has(ring.EventPacket|fin), "%v", events)
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	_, err := peer.Write([]byte("last words"))
	require.NoError(t, err)
	require.Equal(t, "last words", string(w.bytes(s)))
	reset(t, peer)
	c := w.next(s, ring.EventErr)
	require.True(t, c.Events.Has(rst), "%v", c.Events)
	require.ErrorIs(t, c.Err, unix.ECONNRESET)
	w.quiet(s, ^ring.Event(0))
	w.close(s)
}

func TestResetAfterFIN(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	// Unread data at the peer makes its close a reset, after the FIN of its CloseWrite.
	_, err := s.Send([]byte("never read"))
	require.NoError(t, err)
	require.NoError(t, peer.CloseWrite())
	c := w.next(s, ring.EventIn)
	require.True(t, c.Events.Has(fin), "%v", c.Events)
	require.False(t, c.Events.Any(ring.EventErr|ring.EventHup), "%v", c.Events)
	w.quiet(s, ^ring.Event(0))
	reset(t, peer)
	c = w.next(s, ring.EventErr)
	require.True(t, c.Events.Has(rst), "%v", c.Events)
	require.ErrorIs(t, c.Err, unix.ECONNRESET)
	w.quiet(s, ^ring.Event(0))
	w.close(s)
}

func TestFINAndResetInOneTurn(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	_, err := s.Send([]byte("never read"))
	require.NoError(t, err)
	_, err = peer.Write([]byte("read"))
	require.NoError(t, err)
	require.NoError(t, peer.CloseWrite())
	reset(t, peer)
	time.Sleep(5 * time.Millisecond)
	require.Equal(t, "read", string(w.bytesKeeping(s)))
	c := w.next(s, ring.EventErr)
	require.True(t, c.Events.Has(rst), "%v", c.Events)
	require.ErrorIs(t, c.Err, unix.ECONNRESET)
	w.close(s)
}

// bytesKeeping is bytes for a packet whose completion may tell of the end as well: that part is kept.
func (w *world) bytesKeeping(s *ring.Socket) []byte {
	c := w.next(s, ring.EventPacket)
	b := append([]byte{}, c.Packet.Bytes()...)
	require.NoError(w.t, c.Packet.Release())
	if c.Events &^= ring.EventPacket; c.Events != 0 {
		w.kept = append([]ring.Completion{c}, w.kept...)
	}
	return b
}

func TestBothSidesCloseIsNoError(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	require.NoError(t, s.CloseWrite())
	_, err := io.ReadAll(peer)
	require.NoError(t, err)
	require.NoError(t, peer.Close())
	c := w.next(s, ring.EventIn)
	require.Equal(t, fin, c.Events)
	w.quiet(s, ^ring.Event(0))
	// A socket that has hung up for good must not keep the ring awake.
	requireRests(t, w)
	w.close(s)
}

func TestConnect(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	s := w.socket(ring.KindStream, ring.Config{})
	require.NoError(t, s.Connect(l.Addr().(*net.TCPAddr).AddrPort()))
	c := w.next(s, ^ring.Event(0))
	require.Equal(t, ring.EventOut, c.Events)
	peer, err := l.Accept()
	require.NoError(t, err)
	defer func() { _ = peer.Close() }()
	_, err = s.Send([]byte("hello"))
	require.NoError(t, err)
	b := make([]byte, 5)
	_, err = io.ReadFull(peer, b)
	require.NoError(t, err)
	_, err = peer.Write(b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(w.bytes(s)))
	w.quiet(s, ring.EventOut)
	w.close(s)
}

func TestConnectRefused(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	to := l.Addr().(*net.TCPAddr).AddrPort()
	require.NoError(t, l.Close())
	s := w.socket(ring.KindStream, ring.Config{})
	require.NoError(t, s.Connect(to))
	c := w.next(s, ^ring.Event(0))
	require.Equal(t, refused, c.Events)
	require.ErrorIs(t, c.Err, unix.ECONNREFUSED)
	w.quiet(s, ^ring.Event(0))
	requireRests(t, w)
	w.close(s)
}

func TestCloseWhileReceivingSendsFINAtOnce(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	w.poll(1)
	start := time.Now()
	w.close(s)
	n, err := peer.Read(make([]byte, 1))
	require.Zero(t, n)
	require.ErrorIs(t, err, io.EOF)
	require.Less(t, time.Since(start), patience/2)
}

func TestAbortSendsReset(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	require.NoError(t, s.Abort())
	w.next(s, ring.EventClosed)
	_, err := peer.Read(make([]byte, 1))
	require.ErrorIs(t, err, unix.ECONNRESET)
}

func TestCallbackClosesItsSocketInTheMiddle(t *testing.T) {
	w := newWorld(t)
	l := w.socket(ring.KindStream, ring.Config{})
	seen := 0
	require.NoError(t, l.SetReceiveMode(ring.Completions, func(s *ring.Socket, c *ring.Completion) ring.Verdict {
		if seen++; seen == 2 {
			require.NoError(t, s.Abort())
		}
		return ring.Drop
	}))
	require.NoError(t, l.Bind(netip.AddrPortFrom(loopback, 0)))
	require.NoError(t, l.Listen(0))
	s, peer := w.accept(l)
	_, err := peer.Write(pattern(20000, 3)) // several buffers in one turn
	require.NoError(t, err)
	w.next(s, ring.EventClosed)
	require.Equal(t, 2, seen)

	// Its slot serves the next connection, which gets nothing of the old one.
	seen = -1000
	s2, peer2 := w.accept(l)
	_, err = peer2.Write([]byte("x"))
	require.NoError(t, err)
	for limit := time.Now().Add(patience); seen != -999; w.poll(4) {
		require.True(t, time.Now().Before(limit))
	}
	w.close(s2)
}

func TestManyConnectionsInAShortSlice(t *testing.T) {
	w := newWorld(t)
	l := w.listen(ring.Config{})
	const n = 150
	peers := map[netip.AddrPort]*net.TCPConn{}
	for range n {
		p := dial(t, l.LocalAddr())
		peers[p.LocalAddr().(*net.TCPAddr).AddrPort()] = p
		_, err := p.Write([]byte{1, 2, 3})
		require.NoError(t, err)
	}
	news, got := map[*ring.Socket]bool{}, map[*ring.Socket]int{}
	for limit := time.Now().Add(patience); len(news) < n || sum(got) < 3*n; {
		require.True(t, time.Now().Before(limit), "%d connections, %d bytes", len(news), sum(got))
		w.poll(1)
		for _, c := range w.kept {
			if c.Events.Has(ring.EventNewConnection) {
				require.False(t, news[c.Socket])
				require.Contains(t, peers, c.Source)
				news[c.Socket] = true
			}
			require.True(t, news[c.Socket], "nothing before NEW_CONNECTION")
			got[c.Socket] += c.Packet.Len()
		}
		w.release()
	}
	for s := range news {
		require.Equal(t, 3, got[s])
	}
}

func sum(m map[*ring.Socket]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}
