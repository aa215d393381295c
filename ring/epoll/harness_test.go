package epoll

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

var patience = testnet.Slow(10 * time.Second)

var loopback = netip.MustParseAddr("127.0.0.1")

// world is a set of epoll rings on one pool. At the end of the test it is closed, and every buffer must be free.
type world struct {
	t    testing.TB
	set  *ring.Set
	pool *buffers.DriverPool
	drv  *driver // of the ring made last: tests of this package look inside

	batch [64]ring.Completion
	kept  []ring.Completion // delivered while waiting for something else, oldest first
}

var testLayout = buffers.Layout{SmallSize: 2048, SmallCount: 1024, LargeSize: 65536, LargeCount: 40, Headroom: 192}

func newWorld(t testing.TB) *world { return newWorldOf(t, testLayout) }

func newWorldOf(t testing.TB, l buffers.Layout) *world {
	t.Helper()
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	require.NoError(t, err)
	pool, err := buffers.New(region.Bytes(), l)
	require.NoError(t, err)
	w := &world{t: t, pool: pool}
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "epoll", Driver: func(c ring.DriverConfig) (ring.Driver, error) {
		d, err := New(c)
		if err == nil {
			w.drv = d.(*driver)
		}
		return d, err
	}})
	require.NoError(t, err)
	w.set = set
	t.Cleanup(func() {
		w.release()
		require.NoError(t, set.Close())
		require.NoError(t, pool.Verify())
		ledger := pool.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, "%v", ledger)
		require.NoError(t, region.Close())
	})
	return w
}

func (w *world) release() {
	for _, c := range w.kept {
		if c.Packet.Valid() {
			require.NoError(w.t, c.Packet.Release())
		}
	}
	w.kept = nil
}

// ring is the set's only ring.
func (w *world) ring() *ring.Ring {
	require.Len(w.t, w.set.Rings(), 1)
	return w.set.Rings()[0]
}

func (w *world) socket(kind ring.SocketKind, c ring.Config) *ring.Socket {
	w.t.Helper()
	s, err := w.set.NewSocket(kind, ring.IPv4, c)
	require.NoError(w.t, err)
	return s
}

func (w *world) udp(c ring.Config) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindDatagram, c)
	require.NoError(w.t, s.Bind(netip.AddrPortFrom(loopback, 0)))
	return s
}

func (w *world) listen(c ring.Config) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindStream, c)
	require.NoError(w.t, s.Bind(netip.AddrPortFrom(loopback, 0)))
	require.NoError(w.t, s.Listen(0))
	return s
}

// poll does one turn with a slice of n and keeps what came.
func (w *world) poll(n int) int {
	w.t.Helper()
	batch := make([]ring.Completion, n)
	got, err := w.ring().Poll(batch)
	require.NoError(w.t, err)
	w.kept = append(w.kept, batch[:got]...)
	return got
}

// next is the oldest completion of s with any of the events; it is taken out of what is kept.
func (w *world) next(s *ring.Socket, e ring.Event) ring.Completion {
	w.t.Helper()
	c, ok := w.within(patience, s, e)
	require.True(w.t, ok, "no %v within %v; have %v", e, patience, w.kept)
	return c
}

func (w *world) within(d time.Duration, s *ring.Socket, e ring.Event) (ring.Completion, bool) {
	w.t.Helper()
	for limit := time.Now().Add(d); ; {
		for i, c := range w.kept {
			if (s == nil || c.Socket == s) && c.Events.Any(e) {
				w.kept = append(w.kept[:i], w.kept[i+1:]...)
				return c, true
			}
		}
		if time.Now().After(limit) {
			return ring.Completion{}, false
		}
		if w.poll(16) == 0 {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// quiet polls for a while in which the socket must deliver none of the events.
func (w *world) quiet(s *ring.Socket, e ring.Event) {
	w.t.Helper()
	c, ok := w.within(30*time.Millisecond, s, e)
	require.False(w.t, ok, "unexpected %v %v", c.Events, c.Err)
}

// bytes takes the next packet of s and releases it.
func (w *world) bytes(s *ring.Socket) []byte {
	w.t.Helper()
	c := w.next(s, ring.EventPacket)
	b := append([]byte{}, c.Packet.Bytes()...)
	require.NoError(w.t, c.Packet.Release())
	return b
}

// stream takes n bytes of s.
func (w *world) stream(s *ring.Socket, n int) []byte {
	w.t.Helper()
	var b []byte
	for len(b) < n {
		b = append(b, w.bytes(s)...)
	}
	require.Len(w.t, b, n)
	return b
}

// accept connects to l with Go's net and gives both ends.
func (w *world) accept(l *ring.Socket) (*ring.Socket, *net.TCPConn) {
	w.t.Helper()
	peer := dial(w.t, l.LocalAddr())
	c := w.next(nil, ring.EventNewConnection)
	require.Same(w.t, l, c.Listener)
	require.Equal(w.t, peer.LocalAddr().(*net.TCPAddr).AddrPort(), c.Source)
	if c.Packet.Valid() {
		require.NoError(w.t, c.Packet.Release())
	}
	return c.Socket, peer
}

// connected makes a connection between the ring and Go's net.
func (w *world) connected(c ring.Config) (*ring.Socket, *net.TCPConn) {
	w.t.Helper()
	return w.accept(w.listen(c))
}

func (w *world) close(s *ring.Socket) {
	w.t.Helper()
	require.NoError(w.t, s.Close())
	w.next(s, ring.EventClosed)
}

// packet makes a packet of the given content, in buffers of at most n bytes.
func (w *world) packet(content []byte, n int) buffers.Packet {
	w.t.Helper()
	var whole buffers.Packet
	for {
		k := min(n, len(content))
		p, err := w.pool.Alloc(k)
		require.NoError(w.t, err)
		copy(p.Bytes(), content[:k])
		whole = w.pool.Append(whole, p)
		if content = content[k:]; len(content) == 0 {
			return whole
		}
	}
}

func dial(t testing.TB, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(2*patience)))
	return c
}

func dialUDP(t testing.TB, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(2*patience)))
	return c
}

// reset closes the connection with a reset.
func reset(t testing.TB, c *net.TCPConn) {
	t.Helper()
	require.NoError(t, c.SetLinger(0))
	require.NoError(t, c.Close())
}

// pattern is n bytes that tell where they belong.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16) ^ seed
	}
	return b
}
