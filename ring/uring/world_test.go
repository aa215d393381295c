package uring_test

import (
	"fmt"
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
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// patience is how long a test waits for what must happen.
var patience = testnet.Slow(10 * time.Second)

// world is a set of rings over this driver, and what they delivered and no test has asked for yet.
type world struct {
	*require.Assertions
	t    *testing.T
	pool *buffers.DriverPool
	set  *ring.Set
	kept []ring.Completion
	dst  [64]ring.Completion
}

// newWorld makes a set; at the end of the test everything is closed and every buffer must be free.
func newWorld(t *testing.T, change ...func(*buffers.Layout)) *world {
	t.Helper()
	layout := buffers.DefaultLayout()
	for _, f := range change {
		f(&layout)
	}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes()})
	require.NoError(t, err)
	pool, err := buffers.New(region.Bytes(), layout)
	require.NoError(t, err)
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "uring", Driver: uring.New})
	require.NoError(t, err)
	w := &world{Assertions: require.New(t), t: t, pool: pool, set: set}
	t.Cleanup(func() {
		for i := range w.kept {
			_ = w.kept[i].Packet.Release()
		}
		require.NoError(t, set.Close())
		pool.Reclaim()
		require.Equal(t, pool.Ledger().Total, pool.Ledger().Free, "%v", pool.Ledger())
		require.NoError(t, pool.Verify())
		require.NoError(t, region.Close())
	})
	return w
}

func (w *world) poll() int {
	w.t.Helper()
	total := 0
	for _, r := range w.set.Rings() {
		n, err := r.Poll(w.dst[:])
		w.NoError(err)
		w.kept = append(w.kept, w.dst[:n]...)
		total += n
	}
	return total
}

func (w *world) take(match func(*ring.Completion) bool) (ring.Completion, bool) {
	for i := range w.kept {
		if c := w.kept[i]; match(&c) {
			w.kept = append(w.kept[:i:i], w.kept[i+1:]...)
			return c, true
		}
	}
	return ring.Completion{}, false
}

func (w *world) next(what string, match func(*ring.Completion) bool) ring.Completion {
	w.t.Helper()
	for end := time.Now().Add(patience); ; {
		if c, ok := w.take(match); ok {
			return c
		}
		w.True(time.Now().Before(end), "waiting for %s; there is %s", what, w.list())
		if w.poll() == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// event takes the next completion of s that has all of the events.
func (w *world) event(s *ring.Socket, e ring.Event) ring.Completion {
	w.t.Helper()
	return w.next(fmt.Sprintf("%v of socket %d", e, s.ID()), func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(e) })
}

func (w *world) list() string {
	s := ""
	for i := range w.kept {
		c := &w.kept[i]
		s += fmt.Sprintf("[%d %v %d bytes %v] ", c.Socket.ID(), c.Events, c.Packet.Len(), c.Err)
	}
	return s
}

// silent polls for a while; nothing may come.
func (w *world) silent(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.poll()
		w.Empty(w.list())
	}
}

func (w *world) socket(kind ring.SocketKind, c ...ring.Config) *ring.Socket {
	w.t.Helper()
	s, err := w.set.NewSocket(kind, ring.IPv4, append(c, ring.Config{})[0])
	w.NoError(err)
	return s
}

func (w *world) udp(c ...ring.Config) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindDatagram, c...)
	w.NoError(s.Bind(loopback))
	return s
}

func (w *world) peerOf(s *ring.Socket) *net.UDPConn {
	w.t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.LocalAddr()))
	w.NoError(err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) listen(c ...ring.Config) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindStream, c...)
	w.NoError(s.Bind(loopback))
	w.NoError(s.Listen(0))
	return s
}

// pair is an accepted connection: the ring's end, and the other.
func (w *world) pair(c ...ring.Config) (*ring.Socket, *net.TCPConn) {
	w.t.Helper()
	l := w.listen(c...)
	peer, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(l.LocalAddr()))
	w.NoError(err)
	w.t.Cleanup(func() { _ = peer.Close() })
	accepted := w.next("a connection", func(c *ring.Completion) bool {
		return c.Events.Has(ring.EventNewConnection) && c.Listener == l
	})
	return accepted.Socket, peer
}

// read takes n bytes of stream data.
func (w *world) read(s *ring.Socket, n int) []byte {
	w.t.Helper()
	var data []byte
	for len(data) < n {
		c := w.event(s, ring.EventPacket)
		data = append(data, c.Packet.Bytes()...)
		w.NoError(c.Packet.Release())
		if c.Events &^= ring.EventPacket; c.Events != 0 {
			c.Packet = buffers.Packet{}
			w.kept = append([]ring.Completion{c}, w.kept...)
		}
	}
	return data
}

func (w *world) write(c net.Conn, b []byte) {
	w.t.Helper()
	_, err := c.Write(b)
	w.NoError(err)
}

// packet is a held packet with these bytes.
func (w *world) packet(b []byte) buffers.Packet {
	w.t.Helper()
	p, err := w.pool.Alloc(len(b))
	w.NoError(err)
	copy(p.Bytes(), b)
	return p
}

func (w *world) reset(c *net.TCPConn) {
	w.t.Helper()
	w.NoError(c.SetLinger(0))
	w.NoError(c.Close())
}
