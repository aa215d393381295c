package ringtest

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// acceptTo is the case "accepted connections may go elsewhere".
func acceptTo(t *testing.T, b Backend) {
	w := newWorld(t, b)
	var peers []netip.AddrPort
	var l *ring.Socket
	act := func(fd int) bool { return false }
	l = w.listen(ring.Config{AcceptTo: func(fd int, peer netip.AddrPort) bool {
		peers = append(peers, peer)
		return act(fd)
	}})
	// Not taken: as if nobody had been asked.
	one := w.dial(l)
	c := w.accept(l)
	w.Equal([]netip.AddrPort{c.Source}, peers)
	w.Equal(one.LocalAddr().String(), c.Source.String())
	w.closeAndWait(c.Socket)

	// Taken, with what had been sent; it raises no event.
	taken := -1
	act = func(fd int) bool { taken = fd; return true }
	two := w.dial(l)
	w.write(two, []byte("for another"))
	for end := time.Now().Add(patience); taken < 0; w.poll() {
		w.True(time.Now().Before(end))
	}
	w.silent(2 * time.Millisecond)
	if w.kernel {
		status, flags := w.flags(taken)
		w.NotZero(status & unix.O_NONBLOCK)
		w.NotZero(flags & unix.FD_CLOEXEC)
	}
	s := w.adopt(taken, ring.Config{}, nil)
	w.Equal("for another", string(w.read(s, 11)))
	w.Equal(two.LocalAddr().String(), s.RemoteAddr().String())
	stats := l.Ring().Stats()
	w.Equal([]uint64{1, 1}, []uint64{stats.Accepted, stats.AcceptedAway})

	// Taken and adopted at once, while the ring is being polled.
	act = func(fd int) bool { taken = fd; s = w.adopt(fd, ring.Config{}, nil); return true }
	taken = -1
	w.write(w.dial(l), []byte("at once"))
	for end := time.Now().Add(patience); taken < 0; w.poll() {
		w.True(time.Now().Before(end))
	}
	w.Equal("at once", string(w.read(s, 7)))

	// Refused, as beyond a limit: descriptors do not pile up.
	act = func(fd int) bool { w.NoError(w.closeTaken(fd)); return true }
	before := openDescriptors(t)
	for range 20 {
		if !w.kernel {
			w.ErrorIs(w.endOf(w.dial(l)), unix.ECONNRESET)
			continue
		}
		c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(l.LocalAddr()))
		w.NoError(err)
		w.NoError(c.SetReadDeadline(time.Now().Add(patience)))
		done := make(chan error, 1)
		go func() { _, err := c.Read(make([]byte, 1)); done <- err }()
		for err = nil; err == nil; {
			w.poll()
			select {
			case err = <-done:
			default:
			}
		}
		w.ErrorContains(err, "EOF")
		w.NoError(c.Close())
	}
	if w.kernel {
		w.Equal(before, openDescriptors(t))
	}

	// One that closes its listener, wanting or not wanting the connection.
	act = func(fd int) bool { w.NoError(l.Close()); return false }
	three := w.dial(l)
	w.event(l, ring.EventClosed, nil)
	w.ErrorIs(w.endOf(three), unix.ECONNRESET, "as the kernel resets connections that wait at a listener that is closed")
	if w.kernel {
		w.Equal(before, openDescriptors(t), "the listener is gone, a client is there")
	}
}

// closeTaken ends a connection that AcceptTo took.
func (w *world) closeTaken(fd int) error {
	if w.backend.Refuse != nil {
		return w.backend.Refuse(fd)
	}
	return unix.Close(fd)
}

// acceptToPanics is the case "AcceptTo that panics costs its connection".
func acceptToPanics(t *testing.T, b Backend) {
	w := newWorld(t, b)
	panics := true
	l := w.listen(ring.Config{AcceptTo: func(int, netip.AddrPort) bool {
		if panics {
			panic("AcceptTo's own fault")
		}
		return false
	}})
	var err error
	dst := make([]ring.Completion, 8)
	poll := func() { // once: the connection is offered when its peer has connected
		n, e := l.Ring().Poll(dst)
		if w.Zero(n); err == nil {
			err = e
		}
	}
	bad, failed := w.streams().DialStream(l.LocalAddr(), poll)
	w.NoError(failed)
	w.guardPeer(bad)
	for end := time.Now().Add(patience); err == nil; poll() {
		w.True(time.Now().Before(end))
	}
	w.ErrorContains(err, "AcceptTo's own fault")
	var p *ring.CallbackPanic
	w.ErrorAs(err, &p)
	w.Equal(l.ID(), p.Socket)
	w.ErrorIs(w.endOf(bad), unix.ECONNRESET)
	w.Equal(uint64(1), l.Ring().Stats().CallbackPanics)
	panics = false
	w.dial(l)
	w.accept(l) // it serves as before
	w.NoError(l.Ring().Close(), "the mark of being inside was taken away")
}

// acceptToSuspended: connections that were accepted while Suspend was on its way are asked about when the listener is resumed.
func acceptToSuspended(t *testing.T, b Backend) {
	w := newWorld(t, b)
	var l *ring.Socket
	asked, resumed := 0, false
	l = w.listen(ring.Config{AcceptTo: func(fd int, _ netip.AddrPort) bool {
		if asked++; !resumed {
			w.NoError(l.Suspend()) // after the first: the others may have been accepted by now
		}
		w.NoError(w.closeTaken(fd))
		return true
	}})
	const n = 8
	var clients []net.Conn
	for range n {
		clients = append(clients, w.dial(l))
	}
	for end := time.Now().Add(patience); asked == 0; w.poll() {
		w.True(time.Now().Before(end))
	}
	w.silent(5 * time.Millisecond)
	w.Equal(1, asked)
	w.NoError(l.Resume()) // suspends again with the next
	w.LessOrEqual(asked, 2)
	resumed = true
	for end := time.Now().Add(patience); asked < n; w.poll() {
		w.NoError(l.Resume())
		w.True(time.Now().Before(end), "%d of %d", asked, n)
	}
	w.Equal(uint64(n), l.Ring().Stats().AcceptedAway)
	for _, c := range clients {
		w.Error(w.endOf(c))
	}
}

// handOver: a connection is accepted by one owner and served by another, each on its goroutine; what was sent first waits in between.
func handOver(t *testing.T, b Backend) {
	w := newWorld(t, b)
	r, err := w.set.NewRing()
	w.NoError(err)
	var adopted []*ring.Socket
	var problem atomic.Value
	to := func(fd int, peer netip.AddrPort) bool {
		err := r.Post(func() {
			f, err := kernel.Inspect(fd)
			if err == nil {
				var s *ring.Socket
				if s, err = w.set.Adopt(f, ring.Config{}, nil); err == nil {
					adopted = append(adopted, s)
				}
			}
			if err != nil {
				problem.Store(err)
			}
		})
		if err != nil {
			problem.Store(err)
		}
		return err == nil
	}
	address, stop, finished := make(chan netip.AddrPort, 1), make(chan bool), make(chan error, 1)
	go func() { finished <- acceptor(b, to, address, stop) }()
	a := <-address
	const n = 100
	peers := map[string]*net.TCPConn{}
	for i := range n {
		c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(a))
		w.NoError(err)
		w.NoError(c.SetDeadline(time.Now().Add(6 * patience)))
		defer c.Close()
		w.write(c, fmt.Appendf(nil, "%03d", i))
		peers[c.LocalAddr().String()] = c
	}
	for range n {
		c := w.next("a packet", func(c *ring.Completion) bool { return c.Events == ring.EventPacket })
		_, err := c.Socket.Send(c.Packet.Bytes())
		w.NoError(err)
		sent := string(c.Packet.Bytes())
		w.release(c)
		got := make([]byte, 3)
		_, err = peers[c.Source.String()].Read(got)
		w.NoError(err)
		w.Equal(sent, string(got))
	}
	w.Len(adopted, n)
	w.Nil(problem.Load())
	close(stop)
	w.NoError(<-finished)
	for _, s := range adopted {
		w.closeAndWait(s)
	}
}

// acceptor runs a poller that only accepts, on its own goroutine.
func acceptor(b Backend, to func(int, netip.AddrPort) bool, address chan<- netip.AddrPort, stop <-chan bool) error {
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 64, LargeSize: 65536, LargeCount: 8, Headroom: 192}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes()})
	if err != nil {
		return err
	}
	pool, err := buffers.New(region.Bytes(), layout)
	if err != nil {
		return err
	}
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Kind: b.Name, Driver: b.Driver, Pool: pool})
	if err != nil {
		return err
	}
	l, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{AcceptTo: to})
	if err != nil {
		return err
	}
	if err := l.Bind(loopback); err != nil {
		return err
	}
	if err := l.Listen(0); err != nil {
		return err
	}
	address <- l.LocalAddr()
	dst := make([]ring.Completion, 8)
	for {
		n, err := l.Ring().Poll(dst)
		if err != nil || n != 0 {
			return fmt.Errorf("%d completions of a listener that gives all away: %w", n, err)
		}
		select {
		case <-stop:
			if err := set.Close(); err != nil {
				return err
			}
			if ledger := pool.Ledger(); ledger.Free != ledger.Total {
				return fmt.Errorf("acceptor's ledger: %v", ledger)
			}
			return region.Close()
		default:
		}
		if err := l.Ring().Wait(time.Millisecond); err != nil {
			return err
		}
	}
}
