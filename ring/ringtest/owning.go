package ringtest

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// descriptorLimit is the case "EMFILE with an empty backlog: the listener survives".
func descriptorLimit(t *testing.T, b Backend) {
	w := newWorld(t, b)
	// The listener and its client run in this process: the client's descriptors are made first, then the limit is drawn so tight
	// that the next accept fails, also while nobody has asked to be accepted.
	// (The limit in force when an io_uring accept is armed is the one it obeys, so the listener starts after it was drawn.)
	w.udp(w.local) // the ring
	w.poll()
	l := w.socket(ring.KindStream, w.local)
	w.NoError(l.Bind(w.local))
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
	failures := l.Stats().AcceptFailures
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

// limitDescriptors makes the process unable to open more descriptors, until the returned function is called.
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

// oneOwner is the case "a ring belongs to one goroutine".
func oneOwner(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u, peer := w.receiver()
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

// posted is the case "posted work".
func posted(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, _ := w.receiver()
	r := s.Ring()
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

// badArguments is the case "bad arguments are named".
func badArguments(t *testing.T, b Backend) {
	w := newWorld(t, b)
	bad := func(err error, names ...string) {
		t.Helper()
		for _, n := range names {
			w.ErrorContains(err, n)
		}
	}
	if !b.Streams {
		badForDatagrams(w, bad)
	}
	if !b.Datagrams {
		badForStreams(w, bad)
	}
	kind := ring.KindDatagram
	if b.Streams {
		kind = ring.KindStream
	}
	for _, c := range []ring.Config{{LargestDatagram: -1}, {LargestDatagram: 65536}, {Budget: -1}, {SendQueue: -1}, {CloseTimeout: -1}} {
		_, err := w.set.NewSocket(kind, ring.IPv4, c)
		w.ErrorIs(err, unix.EINVAL)
	}
	_, err := w.set.NewSocket(ring.KindListener, ring.IPv4, ring.Config{})
	bad(err, "kind")
	_, err = ring.NewSet(ring.SetConfig{})
	bad(err, "pool")
	_, err = ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: w.pool, Driver: b.Driver, Limit: -1})
	w.Error(err)
	if b.Driver != nil {
		bad(err, "-1")
	}
}

// badForStreams checks the errors of calls that a stream cannot have; bad checks one error for the words that it must contain.
func badForStreams(w *world, bad func(error, ...string)) {
	s := w.socket(ring.KindStream, w.local)
	six := netip.MustParseAddrPort("[::1]:1")
	bad(s.Bind(six), "bind", "[::1]:1")
	bad(s.Bind(netip.AddrPort{}), "bind")
	bad(s.Connect(netip.AddrPort{}), "connect")
	bad(s.Bind(netip.MustParseAddrPort("192.0.2.1:0")), "192.0.2.1", unix.EADDRNOTAVAIL.Error())
	bad(w.socket(ring.KindStream, w.local).Connect(netip.MustParseAddrPort("255.255.255.255:1")), "255.255.255.255")
	bad(s.BindToDevice("nosuchif0"), "nosuchif0")
	bad(s.SetTTL(0), "ttl", "0")
	bad(s.SetTTL(256), "256")
	bad(s.SetTOS(-1), "-1")
	bad(s.SetKeepAlive(time.Millisecond, 0, 0), "idle", "1ms")
	bad(s.SetKeepAlive(time.Second, -time.Second, 0), "interval")
	bad(s.SetKeepAlive(time.Second, 0, 128), "count", "128")
	bad(s.SetReceiveBuffer(0), "receive buffer", "0")
	bad(s.SetSendBuffer(-1), "send buffer", "-1")
	bad(s.JoinGroup(group(3), w.lo, netip.Addr{}), "join group")
	_, err := s.Send([]byte("x"))
	w.ErrorIs(err, unix.EPIPE)
	_, err = s.SendTo([]byte("x"), w.local)
	w.Error(err)
	bad(s.SetConnectTimeout(-1), "time")
	w.ErrorIs(s.SetReadDeadline(time.Now()), ring.ErrState)
	w.ErrorIs(s.CloseWrite(), ring.ErrState)
	bad(w.listen().Ring().Post(nil), "post", "nil")
}

// badForDatagrams checks the errors of calls that a datagram socket cannot have; bad checks one error for the words that it must contain.
func badForDatagrams(w *world, bad func(error, ...string)) {
	u := w.udp(w.local)
	six := netip.MustParseAddrPort("[::1]:1")
	other := w.socket(ring.KindDatagram, w.local)
	bad(other.Bind(u.LocalAddr()), u.LocalAddr().String(), unix.EADDRINUSE.Error())
	bad(u.Bind(w.local), "bind", "open")
	bad(u.Listen(1), "listen")
	bad(u.SetMulticastTTL(256), "256")
	bad(u.SetMulticastInterface("nosuchif0"), "nosuchif0")
	bad(u.JoinGroup(netip.MustParseAddr("10.0.0.1"), "", netip.Addr{}), "10.0.0.1")
	bad(u.JoinGroup(netip.MustParseAddr("ff02::1"), "", netip.Addr{}), "ff02::1")
	bad(u.JoinGroup(group(3), "nosuchif0", netip.Addr{}), "nosuchif0")
	bad(u.JoinGroup(group(3), w.lo, group(4)), group(4).String())
	bad(u.LeaveGroup(group(3), w.lo, netip.Addr{}), group(3).String())
	bad(u.SetLinger(time.Second), "linger")
	_, err := u.SendTo([]byte("x"), six)
	bad(err, "[::1]:1")
	_, err = u.SendTo([]byte("x"), netip.MustParseAddrPort("127.0.0.1:0"))
	bad(err, "127.0.0.1:0")
	_, err = u.Send([]byte("x"))
	w.ErrorIs(err, unix.EDESTADDRREQ)
	bad(u.Ring().Post(nil), "post", "nil")
}

// postedCloses is the case "posted work may close the ring, not poll it".
func postedCloses(t *testing.T, b Backend) {
	w := newWorld(t, b)
	dst := make([]ring.Completion, 4)
	s, _ := w.receiver()
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
	u, peer := w.receiver()
	var inHook error
	w.NoError(u.SetReceiveMode(ring.Completions, func(*ring.Socket, *ring.Completion) ring.Verdict {
		inHook = u.Ring().Close()
		return ring.Drop
	}))
	w.write(peer, []byte("x"))
	for inHook == nil {
		w.poll()
	}
	w.ErrorIs(inHook, unix.EDEADLK)
}
