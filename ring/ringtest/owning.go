package ringtest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

func descriptorLimit(t *testing.T, b Backend) {
	w := newWorld(t, b)
	// The listener and its client run in this process: the client's descriptors are made first, then the limit is drawn so tight
	// that the next accept fails, also while nobody has asked to be accepted.
	// (The limit in force when an io_uring accept is armed is the one it obeys, so the listener starts after it was drawn.)
	w.udp(w.local) // the ring
	w.poll()
	l := w.socket(ring.Stream, loopback)
	w.NoError(l.Bind(loopback))
	var waiting []int
	dial := func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		w.NoError(err)
		waiting = append(waiting, fd)
	}
	const n = 20
	for range n {
		dial()
	}
	defer func() {
		for _, fd := range waiting {
			_ = unix.Close(fd)
		}
	}()
	restore := limitDescriptors(t)
	defer restore()
	w.NoError(l.Listen(0))
	w.silent(20 * time.Millisecond)
	to := &unix.SockaddrInet4{Port: int(l.LocalAddr().Port()), Addr: l.LocalAddr().Addr().As4()}
	for _, fd := range waiting {
		if err := unix.Connect(fd, to); err != nil {
			w.ErrorIs(err, unix.EINPROGRESS)
		}
	}
	w.silent(50 * time.Millisecond)
	failures := l.AcceptFailures()
	w.NotZero(failures)
	w.Less(failures, uint64(40), "without backing off this would be a spin")
	restore()
	for range n {
		w.accept(l)
	}
	w.NotZero(l.Ring().Stats().AcceptFailures)
	w.dial(l)
	w.accept(l) // it serves as before
}

// limitDescriptors lets the process open no more descriptors, until the returned function is called (once or more).
func limitDescriptors(t *testing.T) (restore func()) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	// The lowest free descriptor is what the next open would get: with the limit there, none can be opened.
	fd, err := unix.Dup(0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	low := old
	low.Cur = uint64(fd)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	return func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }
}

func oneOwner(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	r := u.Ring()
	_, err := r.Poll(nil)
	w.ErrorIs(err, ring.ErrNoSlice)
	w.poll()
	errs := make(chan error, 5)
	go func() {
		_, err := r.Poll(make([]ring.Completion, 4))
		errs <- err
		_, err = r.Arm()
		errs <- err
		errs <- r.Wait(time.Second)
		errs <- r.Close()
		errs <- w.set.Close()
	}()
	for range 5 {
		w.ErrorIs(<-errs, ring.ErrOwner)
	}
	// While the owner polls as fast as it can, from several others: each call is answered, nothing breaks.
	var stop atomic.Bool
	done := make(chan int, 3)
	for range 3 {
		go func() {
			bad := 0
			for !stop.Load() {
				if n, err := r.Poll(make([]ring.Completion, 4)); n != 0 || err == nil {
					bad++
				}
				runtime.Gosched()
			}
			done <- bad
		}()
	}
	peer := w.udpPeer(u.LocalAddr())
	for i := range 200 {
		w.write(peer, binary.LittleEndian.AppendUint32(nil, uint32(i)))
		c := w.event(u, ring.EventPacket, nil)
		w.Equal(uint32(i), binary.LittleEndian.Uint32(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
	}
	stop.Store(true)
	for range 3 {
		w.Zero(<-done)
	}
}

func posted(t *testing.T, b Backend) {
	w := newWorld(t, b)
	r := w.udp(w.local).Ring()
	order := []int{}
	for i := range 10 {
		w.NoError(r.Post(func() { order = append(order, i) }))
	}
	w.poll()
	w.Equal([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
	// Work that posts itself again runs once per Poll and cannot hold the ring.
	n := 0
	var again func()
	again = func() {
		if n++; n < 5 {
			w.NoError(r.Post(again))
		}
	}
	w.NoError(r.Post(again))
	w.poll()
	w.Equal(1, n)
	for range 4 {
		w.poll()
	}
	w.Equal(5, n)
	// Work that panics takes only itself along.
	ran := false
	w.NoError(r.Post(func() { panic("posted") }))
	w.NoError(r.Post(func() { ran = true }))
	w.PanicsWithValue("posted", func() { _, _ = r.Poll(make([]ring.Completion, 1)) })
	w.False(ran)
	w.poll()
	w.True(ran)
	// From other goroutines, into a ring at rest.
	const each = 500
	var got atomic.Int64
	for range 4 {
		go func() {
			for range each {
				if r.Post(func() { got.Add(1) }) != nil {
					return
				}
			}
		}()
	}
	for end := time.Now().Add(patience); got.Load() < 4*each; w.poll() {
		w.True(time.Now().Before(end), "%d of %d", got.Load(), 4*each)
		w.NoError(r.Wait(time.Second))
	}
}

// sleeps is how often the wake-up cases go to sleep in all.
const sleeps = 10_000

func wakeByWait(t *testing.T, b Backend) {
	wakeUps(t, b, func(r *ring.Ring) error { return r.Wait(patience / 8) })
}

func wakeByFD(t *testing.T, b Backend) {
	set, err := sys.NewPollSet()
	require.NoError(t, err)
	defer set.Close()
	added := map[int]bool{}
	wakeUps(t, b, func(r *ring.Ring) error {
		if !added[r.FD()] {
			added[r.FD()] = true
			if err := set.Add(r.FD()); err != nil {
				return err
			}
		}
		if pending, err := r.Arm(); err != nil || pending {
			return err
		}
		return set.Wait(patience / 8)
	})
}

// wakeUps sleeps thousands of times and must be woken each time: by a datagram, by Wake, by posted work, by stream data, in
// turn, sent while it falls asleep, while it sleeps, and just before.
func wakeUps(t *testing.T, b Backend, sleep func(*ring.Ring) error) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	r := u.Ring()
	peer := w.udpPeer(u.LocalAddr())
	s, conn := u, net.Conn(peer) // a ring without streams gets datagrams instead
	if !b.Datagrams {
		s, conn = w.pair()
	}
	n := sleeps
	if testing.Short() || raceEnabled || b.Name == "fake" { // a fake ring naps by the clock, it cannot be woken early
		n /= 10
	}
	var postedWork atomic.Int64
	request := make(chan int)
	defer close(request)
	go func() {
		for i := range request {
			switch { // now, a little later, or when it sleeps for sure
			case i%7 == 3:
				time.Sleep(20 * time.Microsecond)
			case i%97 == 5:
				time.Sleep(500 * time.Microsecond)
			}
			switch i % 4 {
			case 0:
				_, _ = peer.Write([]byte("x"))
			case 1:
				r.Wake()
			case 2:
				_ = r.Post(func() { postedWork.Add(1) })
			case 3:
				_, _ = conn.Write([]byte("x"))
			}
		}
	}()
	slept := r.Stats().Sleeps
	dropped := softnetDropped(t)
	for i := 0; r.Stats().Sleeps-slept < uint64(n); i++ { // a wake-up that comes first costs no sleep and does not count
		w.Less(i, 2*n, "it hardly ever sleeps: %+v", r.Stats())
		request <- i
		begin := time.Now()
		for came := false; !came; {
			w.NoError(sleep(r))
			if time.Since(begin) > patience/4 && i%4 == 0 && unread(u) == 0 && softnetDropped(t) > dropped {
				// The kernel says that it dropped packets before they reached a socket (net.core.netdev_max_backlog): that is not
				// our sleep. Without its word the datagram is ours to answer for.
				dropped = softnetDropped(t)
				w.write(peer, []byte("x"))
			}
			w.Less(time.Since(begin), patience/2, "lost wake-up %d of %d (kind %d): %+v", i, n, i%4, r.Stats())
			w.poll()
			switch i % 4 {
			case 0:
				came = w.drop(u) > 0
			case 1:
				came = true // Wake has no completion: returning from the sleep is all
			case 2:
				came = postedWork.Load() == int64(i/4+1)
			case 3:
				came = w.drop(s) > 0
			}
		}
	}
}

// softnetDropped is how many packets the host dropped because a processor's backlog was full (second column of softnet_stat, hex).
func softnetDropped(t *testing.T) (sum uint64) {
	text, err := os.ReadFile("/proc/net/softnet_stat")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		n, err := strconv.ParseUint(strings.Fields(line)[1], 16, 64)
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// unread is how much waits in the socket's queue in the kernel.
func unread(s *ring.Socket) int {
	n, err := unix.IoctlGetInt(s.ID(), unix.SIOCINQ)
	if err != nil {
		return -1
	}
	return n
}

// drop takes and releases all the socket's packets that were delivered.
func (w *world) drop(s *ring.Socket) (n int) {
	kept := w.kept[:0]
	for _, c := range w.kept {
		if c.Socket == s && c.Events == ring.EventPacket {
			w.NoError(c.Packet.Release())
			n++
			continue
		}
		kept = append(kept, c)
	}
	w.kept = kept
	return n
}

func wakeByDeadline(t *testing.T, b Backend) {
	w := newWorld(t, b)
	var s *ring.Socket
	if b.Datagrams {
		s = w.udp(w.local)
	} else {
		s, _ = w.pair()
	}
	r := s.Ring()
	set, err := sys.NewPollSet()
	w.NoError(err)
	defer set.Close()
	w.NoError(set.Add(r.FD()))
	for i := range 20 {
		begin := time.Now()
		w.NoError(s.SetReadDeadline(begin.Add(5 * time.Millisecond)))
		for w.poll() == 0 {
			if i%2 == 0 {
				w.NoError(r.Wait(patience))
			} else if pending, err := r.Arm(); !pending {
				w.NoError(err)
				w.NoError(set.Wait(patience))
			}
			w.Less(time.Since(begin), patience/2, "the deadline did not wake the ring")
		}
		w.event(s, ring.EventIn, ring.ErrDeadline)
		w.GreaterOrEqual(time.Since(begin), 5*time.Millisecond)
	}
}

func wakeByReturnedBuffer(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	r := u.Ring()
	peer := w.udpPeer(u.LocalAddr())
	for i := range 50 {
		w.write(peer, []byte("x"))
		c := w.event(u, ring.EventPacket, nil)
		l, err := c.Packet.Lend()
		w.NoError(err)
		go func() {
			time.Sleep(time.Duration(i%5) * 200 * time.Microsecond)
			_ = l.Release()
		}()
		begin := time.Now()
		for w.pool.Ledger().Lent > 0 {
			w.NoError(r.Wait(patience))
			w.poll()
			w.Less(time.Since(begin), patience/2, "the returned buffer did not wake the ring")
		}
	}
}

func allocation(t *testing.T, b Backend) {
	logic := func(l ring.Logic, limit int) *world {
		return newWorld(t, b, func(_ *buffers.Layout, c *ring.SetConfig) { c.Logic, c.Limit = l, limit })
	}
	a1, a2 := netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.2:0")

	w := logic(ring.PerInterface, 0)
	w.Same(w.udp(a1).Ring(), w.udp(a2).Ring())
	w.NotSame(w.udp(a1).Ring(), w.udp(netip.MustParseAddrPort("0.0.0.0:0")).Ring(), "bound to no single interface")

	w = logic(ring.PerIP, 0)
	w.NotSame(w.udp(a1).Ring(), w.udp(a2).Ring())
	w.Same(w.udp(a1).Ring(), w.udp(a1).Ring())

	w = logic(ring.PerSocket, 0)
	w.NotSame(w.udp(a1).Ring(), w.udp(a1).Ring())

	w = logic(ring.PerInterface, 0)
	byUser := ring.PerUserID
	one := w.udp(a1, ring.Config{Alloc: &byUser, UserID: 1})
	w.Same(one.Ring(), w.udp(a1, ring.Config{Alloc: &byUser, UserID: 1}).Ring())
	w.NotSame(one.Ring(), w.udp(a1, ring.Config{Alloc: &byUser, UserID: 2}).Ring())
	w.NotSame(one.Ring(), w.udp(a1).Ring())

	for _, l := range []ring.Logic{ring.PerThread, ring.PerCore, ring.PerCoreAttach} {
		runtime.LockOSThread()
		before := sys.AffinityMask()
		w = logic(l, 0)
		r := w.udp(a1).Ring()
		w.Equal(l, r.Key().Logic)
		if l == ring.PerCoreAttach {
			w.Equal(before, sys.AffinityMask(), "set-up may be on any thread")
			w.poll()
			w.Equal([]int{int(r.Key().Value)}, sys.AffinityMask())
			w.NoError(r.Close())
			w.Equal(before, sys.AffinityMask(), "the thread is given back as it was")
		}
		runtime.UnlockOSThread()
	}

	// The limit per interface: the ring with the fewest sockets is shared; logic 11 is exempt.
	w = logic(ring.PerSocket, 2)
	r1, r2 := w.udp(a1).Ring(), w.udp(a1).Ring()
	w.NotSame(r1, r2)
	third, fourth := w.udp(a1).Ring(), w.udp(a1).Ring()
	w.NotSame(third, fourth, "spread over both")
	w.Len(w.set.Rings(), 2)
	w.NotSame(r1, w.udp(a1, ring.Config{Alloc: &byUser, UserID: 9}).Ring())
	w.Len(w.set.Rings(), 3)

	// A ring nobody uses serves the next key.
	w = logic(ring.PerSocket, 0)
	for range 5 {
		w.closed(w.udp(a1))
	}
	w.Len(w.set.Rings(), 1)

	w.ErrorContains(ring.Logic(2).Validate(), "2")
	bad := ring.Logic(12)
	_, err := w.set.NewSocket(ring.Stream, false, ring.Config{Alloc: &bad})
	w.ErrorContains(err, "12")
}

func whenRings(t *testing.T, b Backend) {
	w := newWorld(t, b)
	fds := []int{-7, -7, -7}
	none := func(s *ring.Socket) {
		t.Helper()
		n, err := s.RingFDs(fds)
		w.NoError(err)
		w.Zero(n)
		w.Zero(s.NumRings())
		w.Equal([]int{-7, -7, -7}, fds)
		w.Nil(s.Ring())
	}
	one := func(s *ring.Socket) int {
		t.Helper()
		n, err := s.RingFDs(fds)
		w.NoError(err)
		w.Equal(1, n)
		w.Equal(1, s.NumRings())
		fd := fds[0]
		w.GreaterOrEqual(fd, 0)
		w.Equal([]int{fd, -7, -7}, fds)
		fds[0] = -7
		return fd
	}
	u := w.socket(ring.Datagram, w.local)
	none(u)
	w.NoError(u.Bind(w.local))
	one(u)
	u = w.socket(ring.Datagram, w.local)
	w.NoError(u.Connect(netip.AddrPortFrom(w.local.Addr(), 9)))
	one(u)
	u = w.socket(ring.Datagram, w.local)
	_, err := u.SendTo([]byte("x"), w.udp(w.local).LocalAddr()) // the first send binds it
	w.NoError(err)
	one(u)
	if b.Datagrams {
		return
	}
	s := w.socket(ring.Stream, loopback)
	none(s)
	w.NoError(s.Bind(loopback))
	none(s)
	w.NoError(s.Listen(1))
	one(s)
	c := w.socket(ring.Stream, loopback)
	w.NoError(c.Connect(s.LocalAddr()))
	one(c)
	d := w.socket(ring.Stream, loopback)
	w.NoError(d.Bind(loopback))
	if err := d.BindToDevice(w.lo); err != nil {
		w.ErrorIs(err, unix.EPERM)
		t.Logf("TCP bind to device: not asserted: %v", err)
	} else {
		fd := one(d)
		for range 10 {
			w.poll()
			for i := range w.kept {
				w.NotEqual(d, w.kept[i].Socket, "a socket that is not connected has nothing to say")
			}
		}
		w.NoError(d.Connect(s.LocalAddr()))
		w.Equal(fd, one(d))
		w.event(d, ring.EventOut, nil)

		// It may become a listener as well.
		l := w.socket(ring.Stream, loopback)
		w.NoError(l.BindToDevice(w.lo))
		w.NoError(l.Bind(loopback))
		w.NoError(l.Listen(0))
		one(l)
		w.dial(l)
		w.accept(l)
	}
	_, err = s.RingFDs(nil)
	w.Error(err)
}

func badArguments(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s := w.socket(ring.Stream, loopback)
	u := w.udp(w.local)
	six := netip.MustParseAddrPort("[::1]:1")
	bad := func(err error, names ...string) {
		t.Helper()
		for _, n := range names {
			w.ErrorContains(err, n)
		}
	}
	bad(s.Bind(six), "bind", "[::1]:1")
	bad(s.Bind(netip.AddrPort{}), "bind")
	bad(s.Connect(netip.AddrPort{}), "connect")
	bad(s.Bind(netip.MustParseAddrPort("192.0.2.1:0")), "192.0.2.1", unix.EADDRNOTAVAIL.Error())
	bad(w.socket(ring.Stream, loopback).Connect(netip.MustParseAddrPort("255.255.255.255:1")), "255.255.255.255")
	other := w.socket(ring.Datagram, w.local)
	bad(other.Bind(u.LocalAddr()), u.LocalAddr().String(), unix.EADDRINUSE.Error())
	bad(u.Bind(w.local), "bind", "open")
	bad(u.Listen(1), "listen")
	bad(s.BindToDevice("nosuchif0"), "nosuchif0")
	bad(s.SetTTL(0), "ttl", "0")
	bad(s.SetTTL(256), "256")
	bad(s.SetTOS(-1), "-1")
	bad(s.SetKeepAlive(time.Millisecond, 0, 0), "idle", "1ms")
	bad(s.SetKeepAlive(time.Second, -time.Second, 0), "interval")
	bad(s.SetKeepAlive(time.Second, 0, 128), "count", "128")
	bad(s.SetReceiveBuffer(0), "receive buffer", "0")
	bad(s.SetSendBuffer(-1), "send buffer", "-1")
	bad(u.SetMulticastTTL(256), "256")
	bad(u.SetMulticastInterface("nosuchif0"), "nosuchif0")
	bad(u.JoinGroup(netip.MustParseAddr("10.0.0.1"), "", netip.Addr{}), "10.0.0.1")
	bad(u.JoinGroup(netip.MustParseAddr("ff02::1"), "", netip.Addr{}), "ff02::1")
	bad(u.JoinGroup(group(3), "nosuchif0", netip.Addr{}), "nosuchif0")
	bad(u.JoinGroup(group(3), w.lo, group(4)), group(4).String())
	bad(u.LeaveGroup(group(3), w.lo, netip.Addr{}), group(3).String())
	bad(s.JoinGroup(group(3), w.lo, netip.Addr{}), "join group")
	bad(u.SetLinger(time.Second), "linger")
	_, err := u.SendTo([]byte("x"), six)
	bad(err, "[::1]:1")
	_, err = u.SendTo([]byte("x"), netip.MustParseAddrPort("127.0.0.1:0"))
	bad(err, "127.0.0.1:0")
	_, err = u.Send([]byte("x"))
	w.ErrorIs(err, unix.EDESTADDRREQ)
	_, err = s.Send([]byte("x"))
	w.ErrorIs(err, unix.EPIPE)
	_, err = s.SendTo([]byte("x"), loopback)
	w.Error(err)
	bad(s.SetConnectTimeout(-1), "time")
	w.ErrorIs(s.SetReadDeadline(time.Now()), ring.ErrState)
	w.ErrorIs(s.CloseWrite(), ring.ErrState)
	for _, c := range []ring.Config{{LargestDatagram: -1}, {LargestDatagram: 65536}, {Budget: -1}, {SendQueue: -1}, {CloseTimeout: -1}} {
		_, err := w.set.NewSocket(ring.Datagram, false, c)
		w.ErrorIs(err, unix.EINVAL)
	}
	_, err = w.set.NewSocket(ring.Listener, false, ring.Config{})
	bad(err, "kind")
	_, err = ring.NewSet(ring.SetConfig{})
	bad(err, "pool")
	_, err = ring.NewSet(ring.SetConfig{Pool: w.pool, Driver: b.Driver, Limit: -1})
	bad(err, "-1")
}

func noAllocation(t *testing.T, b Backend) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself; the build without it asserts this")
	}
	w := newWorld(t, b)
	u := w.udp(w.local, ring.Config{PacketInfo: true, Timestamps: true})
	s, peer := w.pair()
	r := u.Ring()
	if r != s.Ring() {
		t.Fatal("two rings")
	}
	up := w.udpPeer(u.LocalAddr())
	to := up.LocalAddr().(*net.UDPAddr).AddrPort()
	raw := func(c interface{ File() (*os.File, error) }) int {
		f, err := c.File()
		w.NoError(err)
		t.Cleanup(func() { _ = f.Close() })
		fd := int(f.Fd())
		w.NoError(unix.SetNonblock(fd, true))
		return fd
	}
	// The peers send through plain system calls, so that nothing of the net package's is counted.
	ufd, sfd := raw(up.(*net.UDPConn)), raw(peer)
	dst := make([]ring.Completion, 8)
	msg, got := []byte("0123456789abcdef"), make([]byte, 64)
	turn := func(s *ring.Socket, fd int, to netip.AddrPort) {
		if _, e := sys.Send(fd, msg, 0); e != 0 {
			t.Fatal(e)
		}
		for {
			n, err := r.Poll(dst)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				continue
			}
			c := &dst[0]
			if c.Events != ring.EventPacket || c.Socket != s {
				t.Fatal(c.Events)
			}
			if to.IsValid() {
				_, err = s.SendTo(c.Packet.Bytes(), to)
			} else {
				_, err = s.Send(c.Packet.Bytes())
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Packet.Release(); err != nil {
				t.Fatal(err)
			}
			break
		}
		if n, e := sys.Recv(fd, got, 0); e != 0 || n != len(msg) {
			t.Fatal(n, e)
		}
	}
	packet := func() {
		p, err := w.pool.Alloc(16)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.SendPacket(p, to, 1); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := r.Poll(dst)
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				break
			}
		}
		if n, e := sys.Recv(ufd, got, 0); e != 0 || n != 16 {
			t.Fatal(n, e)
		}
	}
	bufs := [][]byte{msg[:4], msg[4:]}
	work := map[string]func(){
		"idle poll":   func() { _, _ = r.Poll(dst) },
		"UDP echo":    func() { turn(u, ufd, to) },
		"TCP echo":    func() { turn(s, sfd, netip.AddrPort{}) },
		"send packet": packet,
		"vectored send": func() {
			if _, err := u.SendVector(bufs, to); err != nil {
				t.Fatal(err)
			}
			if n, e := sys.Recv(ufd, got, 0); e != 0 || n != 16 {
				t.Fatal(n, e)
			}
		},
		"deadline": func() {
			if err := s.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if err := s.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
		},
		"arm":  func() { _, _ = r.Arm(); _, _ = r.Poll(dst) },
		"wait": func() { _ = r.Wait(0); _, _ = r.Poll(dst) },
	}
	for name, f := range work {
		for range 100 {
			f() // tables reach their size
		}
		w.Zero(testing.AllocsPerRun(500, f), name)
	}
}

func postedCloses(t *testing.T, b Backend) {
	w := newWorld(t, b)
	dst := make([]ring.Completion, 4)
	s := w.udp(w.local)
	r := s.Ring()
	w.poll()
	var polled, closed error
	ran := 0
	w.NoError(r.Post(func() { _, polled = r.Poll(dst) }))
	w.poll()
	w.ErrorIs(polled, unix.EDEADLK)
	w.NoError(r.Post(func() { closed = r.Close(); ran++ }))
	w.NoError(r.Post(func() { closed = r.Close(); ran++ }))
	_, err := r.Poll(dst)
	w.ErrorIs(err, ring.ErrClosed)
	w.NoError(closed)
	w.Equal(1, ran, "what is posted behind a Close is not run")
	w.ErrorIs(r.Close(), ring.ErrClosed)

	w = newWorld(t, b)
	u := w.socket(ring.Datagram, w.local)
	var inHook error
	w.NoError(u.SetHook(ring.Completions, func(*ring.Socket, *ring.Completion) ring.Verdict {
		inHook = u.Ring().Close()
		return ring.Drop
	}))
	w.NoError(u.Bind(w.local))
	w.write(w.udpPeer(u.LocalAddr()), []byte("x"))
	for inHook == nil {
		w.poll()
	}
	w.ErrorIs(inHook, unix.EDEADLK)
}
