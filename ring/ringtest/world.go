package ringtest

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
)

// Backend is a kind of ring under test.
type Backend struct {
	Name   string
	Driver func(ring.DriverConfig) (ring.Driver, error)
	Caps   ring.Caps // what it must be able to do, and nothing else
	// Overshoot is how many packets may come after a socket's budget was spent, in the suite's pool of 512 small buffers.
	Overshoot int

	// What follows is for rings that are not on the kernel's sockets alone; zero values are those of the others.

	// Open makes the driver of one case on its pool, and what stands at the other end of its links; it changes the configuration
	// accordingly. Without it the peers are kernel sockets on loopback, and so are the ring's own: see kernelAlone.
	Open func(t *testing.T, pool *buffers.DriverPool, c *ring.SetConfig) Peers
	// Datagrams leaves out what is about streams: the ring has none. Streams leaves out what is about datagrams.
	Datagrams, Streams bool
	// Whole: datagrams are never cut, whatever the socket's largest.
	Whole bool
	// Without leaves out cases by name, with the reason: they are skipped.
	Without map[string]string
	// Has lists what such a ring's sockets have of what elsewhere only the kernel's have: KeepAlive, AcceptAway.
	Has []string
	// Inspect and Refuse, with AcceptAway, describe and reset a connection that AcceptTo took and that has no descriptor.
	Inspect func(number int) (ring.Adopted, error)
	Refuse  func(number int) error
	// Burst is how many datagrams may come while the ring is not polled; 0: any number. A card that finds no
	// buffer has nowhere to keep a frame.
	Burst int
	// Sleeps is how often each wake-up case goes to sleep; 0: 10,000. With -short or the race detector it is 1,000 at most.
	Sleeps int
	// Stamp is the source of the timestamps that such a ring takes; zero: ring.StampSoftware.
	Stamp ring.StampSource

	reserve [buffers.NumClasses]int // buffers of a case's pool that are kept for sending
}

// patience is how long a case waits for something that must happen.
var patience = testnet.Slow(60 * time.Second)

// world is the rings of one case and what they delivered.
type world struct {
	*require.Assertions
	t    *testing.T
	pool *buffers.DriverPool
	set  *ring.Set
	room int               // length of the slice given to Poll
	kept []ring.Completion // delivered and not asked for yet, in order
	dst  []ring.Completion

	backend Backend
	kernel  bool // the ring's sockets are the kernel's, and so are its peers
	peers   Peers
	local   netip.AddrPort // port 0 at an address of the ring's host
	lo      string         // the interface it is on

	burst, writes int // see Backend.Burst
}

// newWorld makes a set on a pool of its own; at the end of the case all is closed and the ledger must balance.
func newWorld(t *testing.T, b Backend, change ...func(*buffers.Layout, *ring.SetConfig)) *world {
	t.Helper()
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 32, Headroom: 192}
	c := ring.SetConfig{Transport: kernel.New(), Kind: b.Name, Driver: b.Driver}
	for _, f := range change {
		f(&layout, &c)
	}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes()})
	require.NoError(t, err)
	pool, err := buffers.New(region.Bytes(), layout)
	require.NoError(t, err)
	for class, n := range b.reserve {
		require.NoError(t, pool.SetReserve(buffers.Class(class), n))
	}
	c.Pool = pool
	peers := Loopback(t)
	if b.Open != nil {
		peers = b.Open(t, pool, &c)
	}
	set, err := ring.NewSet(c)
	require.NoError(t, err)
	w := &world{Assertions: require.New(t), t: t, pool: pool, set: set, room: 64,
		backend: b, kernel: b.Open == nil, peers: peers, local: netip.AddrPortFrom(peers.Local(), 0), lo: peers.Device(), burst: b.Burst}
	t.Cleanup(func() {
		for i := range w.kept {
			_ = w.kept[i].Packet.Release()
		}
		require.NoError(t, set.Close())
		pool.Reclaim()
		l := pool.Ledger()
		require.Equal(t, l.Total, l.Free, "ledger after the case: %v", l)
		require.NoError(t, pool.Verify())
		require.NoError(t, region.Close())
	})
	return w
}

// poll polls every ring once and keeps the completions.
func (w *world) poll() int {
	w.t.Helper()
	if len(w.dst) != w.room {
		w.dst = make([]ring.Completion, w.room)
	}
	total := 0
	for _, r := range w.set.Rings() {
		for i := range w.dst {
			w.dst[i] = ring.Completion{Token: 0xdead, UserData: 0xdead, IfIndex: 0xdead} // nothing stale may shine through
		}
		n, err := r.Poll(w.dst)
		w.NoError(err)
		w.announcedAlone(w.dst[:n])
		w.kept = append(w.kept, w.dst[:n]...)
		total += n
	}
	return total
}

// announcedAlone checks that a Poll which has announced a connection delivered nothing else of it. NEW_CONNECTION may carry the first packet.
func (w *world) announcedAlone(delivered []ring.Completion) {
	w.t.Helper()
	for i := range delivered {
		if !delivered[i].Events.Has(ring.EventNewConnection) {
			continue
		}
		for k := range delivered {
			if k != i && delivered[k].Socket == delivered[i].Socket {
				w.FailNow("more of a connection in the Poll that announced it", "%d %v, %d %v", i, delivered[i].Events, k, delivered[k].Events)
			}
		}
	}
}

// next polls until a completion matches, and returns it.
func (w *world) next(what string, match func(*ring.Completion) bool) ring.Completion {
	w.t.Helper()
	end := time.Now().Add(patience)
	for turns := 1; ; turns++ {
		for i := range w.kept {
			if match(&w.kept[i]) {
				c := w.kept[i]
				w.kept = append(w.kept[:i:i], w.kept[i+1:]...)
				return c
			}
		}
		if time.Now().After(end) {
			w.FailNow("timed out", "waiting for %s; delivered meanwhile: %s", what, w.listKept())
		}
		if w.poll() == 0 && turns%64 == 0 { // not in each: a ring may look at some of its sources in every so many turns only
			if turns < 10_000 {
				time.Sleep(20 * time.Microsecond)
			} else {
				time.Sleep(500 * time.Microsecond) // it takes long: others may have the processor
			}
		}
	}
}

// completionOf polls until the socket has a completion, and returns it.
func (w *world) completionOf(s *ring.Socket) ring.Completion {
	w.t.Helper()
	return w.next(fmt.Sprintf("socket %d", s.ID()), func(c *ring.Completion) bool { return c.Socket == s })
}

// event returns the socket's next completion, which must have exactly these events and this error.
func (w *world) event(s *ring.Socket, e ring.Event, err error) ring.Completion {
	w.t.Helper()
	c := w.completionOf(s)
	w.Equal(e.String(), c.Events.String(), "err %v", c.Err)
	if err == nil {
		w.NoError(c.Err)
	} else {
		w.ErrorIs(c.Err, err)
	}
	return c
}

// accept takes the next new connection of the listener.
func (w *world) accept(l *ring.Socket) ring.Completion {
	w.t.Helper()
	return w.next("a new connection", func(c *ring.Completion) bool {
		return c.Events.Has(ring.EventNewConnection) && c.Listener == l
	})
}

// read takes stream data of the socket until n bytes came, and releases the packets.
func (w *world) read(s *ring.Socket, n int) []byte {
	w.t.Helper()
	var data []byte
	for len(data) < n {
		c := w.next("data", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventPacket) })
		for piece := range c.Packet.Segments() {
			data = append(data, piece...)
		}
		w.NoError(c.Packet.Release())
		if c.Events != ring.EventPacket {
			c.Events &^= ring.EventPacket // what was merged with the packet is left for the case
			c.Packet = buffers.Packet{}
			w.kept = append([]ring.Completion{c}, w.kept...)
		}
	}
	return data
}

// silent polls for a while, during which nothing may be delivered.
func (w *world) silent(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.poll()
		w.Empty(w.listKept())
	}
}

// release releases the completion's packet, if it has one.
func (w *world) release(c ring.Completion) {
	w.t.Helper()
	if c.Events.Has(ring.EventPacket) {
		w.NoError(c.Packet.Release())
	}
}

// listKept lists the completions that were polled and not used by the case. It is empty if there are none: cases require that, and failures show
// the list.
func (w *world) listKept() string {
	s := ""
	for i := range w.kept {
		c := &w.kept[i]
		s += fmt.Sprintf("[socket %d %v %d bytes err %v] ", c.Socket.ID(), c.Events, c.Packet.Len(), c.Err)
	}
	return s
}

// closeAndWait closes the socket and waits for its last completion.
func (w *world) closeAndWait(s *ring.Socket) {
	w.t.Helper()
	w.NoError(s.Close())
	c := w.next("CLOSED", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventClosed) })
	w.Equal(ring.EventClosed, c.Events)
}

// socket makes a socket of a kind in the family of the address a.
func (w *world) socket(kind ring.SocketKind, a netip.AddrPort, c ...ring.Config) *ring.Socket {
	w.t.Helper()
	var config ring.Config
	if len(c) > 0 {
		config = c[0]
	}
	s, err := w.set.NewSocket(kind, ring.FamilyOfAddr(a.Addr()), config)
	w.NoError(err)
	return s
}

// listen makes a listener.
func (w *world) listen(c ...ring.Config) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindStream, w.local, c...)
	w.NoError(s.Bind(w.local))
	w.NoError(s.Listen(0))
	return s
}

// udp makes a bound datagram socket.
func (w *world) udp(a netip.AddrPort, c ...ring.Config) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindDatagram, a, c...)
	w.NoError(s.Bind(a))
	return s
}

// flush sends what the ring has queued: an offloaded one sends with the next Poll or Flush.
func (w *world) flush() {
	w.t.Helper()
	for _, r := range w.set.Rings() {
		w.NoError(r.Flush())
	}
}

// writeToRing is write where the peer's connection needs the ring.
func (w *world) writeToRing(c net.Conn, b []byte) {
	w.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := c.Write(b)
		done <- err
	}()
	select {
	case err := <-done:
		w.NoError(err)
	case <-time.After(50 * time.Millisecond): // seldom: cases look at what came in which Poll
		w.NoError(await(w, done))
	}
}

// write writes all of b at the peer. One whose send queue is full until the ring has acknowledged gets it polled after a while.
func (w *world) write(c net.Conn, b []byte) {
	w.t.Helper()
	if w.kernel || !w.backend.Streams {
		_, err := c.Write(b)
		w.NoError(err)
	} else {
		w.writeToRing(c, b)
	}
	if w.writes++; w.burst > 0 && w.writes%w.burst == 0 {
		w.poll()
	}
}
