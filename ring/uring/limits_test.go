package uring_test

import (
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

func fewBuffers(l *buffers.Layout) {
	l.SmallCount, l.LargeCount = 16, 8
}

func TestStarvation(t *testing.T) {
	modes := map[string]int{"direct": 0, "multishot": 4}
	for name, others := range modes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fewBuffers)
			for range others {
				w.udp(ring.Config{LargestDatagram: 100})
			}
			s := w.udp(ring.Config{LargestDatagram: 100})
			w.poll()
			// The application sits on everything but what the driver has taken.
			var hoard []buffers.Packet
			for {
				p, err := w.pool.Alloc(100)
				if err != nil {
					break
				}
				hoard = append(hoard, p)
			}
			peer := w.peerOf(s)
			const n = 40
			for i := range n {
				w.write(peer, []byte{byte(i)})
			}
			for range 50 {
				w.poll()
			}
			w.Less(len(w.kept), n)
			w.NotZero(s.Ring().Stats().Starved)
			starved := s.Ring().Stats().Starved
			for range 1000 {
				w.poll()
			}
			w.LessOrEqual(s.Ring().Stats().Starved, starved+1, "no trying again before a buffer came back")
			for _, p := range hoard {
				w.NoError(p.Release())
			}
			for i := range n {
				c := w.event(s, ring.EventPacket)
				w.Equal([]byte{byte(i)}, c.Packet.Bytes())
				w.NoError(c.Packet.Release())
			}
		})
	}
}

// Starved streams and a starving neighbour: what one holds the others miss, and get back.
func TestStarvedStreams(t *testing.T) {
	w := newWorld(t, fewBuffers)
	a, peerA := w.pair()
	b, peerB := w.pair()
	var sentA, sentB int
	for range 30 {
		w.write(peerA, make([]byte, 2240))
		w.write(peerB, make([]byte, 2240))
		sentA += 2240
		sentB += 2240
	}
	for range 200 {
		w.poll()
	}
	gotA, gotB := 0, 0
	for gotA < sentA || gotB < sentB {
		c := w.next("data", func(c *ring.Completion) bool { return c.Events.Has(ring.EventPacket) })
		switch c.Socket {
		case a:
			gotA += c.Packet.Len()
		case b:
			gotB += c.Packet.Len()
		}
		w.NoError(c.Packet.Release())
	}
	w.Equal(sentA, gotA)
	w.Equal(sentB, gotB)
}

// A unix-domain connection is polled and read: the kernel is offered no buffers for it.
func TestUnixConnectionsTakeNoProvidedBuffers(t *testing.T) {
	w := newWorld(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.NoError(err)
	defer func() { _ = unix.Close(fds[1]) }()
	a, err := kernel.Inspect(fds[0])
	w.NoError(err)
	s, err := w.set.Adopt(a, ring.Config{}, nil)
	w.NoError(err)
	w.poll()
	w.Zero(w.pool.Ledger().Filling)
	w.NoError(s.Close())
	w.event(s, ring.EventClosed)
}

// Several rings on one pool: none may sit on the buffers of the others.
func TestRingsShareAPool(t *testing.T) {
	w := newWorld(t, fewBuffers)
	perSocket := ring.PerSocket
	var sockets []*ring.Socket
	for range 6 {
		sockets = append(sockets, w.udp(ring.Config{Alloc: &perSocket, LargestDatagram: 100}))
	}
	w.Len(w.set.Rings(), 6)
	for round := range 50 {
		for _, s := range sockets {
			w.write(w.peerOf(s), []byte{byte(round)})
			c := w.event(s, ring.EventPacket)
			w.Equal([]byte{byte(round)}, c.Packet.Bytes())
			w.NoError(c.Packet.Release())
		}
		p := w.packet(make([]byte, 100))
		w.NoError(p.Release())
	}
}

// alone runs the calling test in a process of its own, for limits that would hit the other tests. True in that process.
func alone(t *testing.T) bool {
	if os.Getenv("URING_TEST_ALONE") == t.Name() {
		return true
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
		c.Env = append(os.Environ(), "URING_TEST_ALONE="+t.Name())
		out, err := c.CombinedOutput()
		if strings.Contains(string(out), "memory for io_uring's queues") && time.Now().Before(end) {
			continue // the kernel counts by user: another of its processes has the memory just now
		}
		requirePassed(t, out, err)
		return false
	}
}

func requirePassed(t *testing.T, out []byte, err error) {
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

// limitMemlock limits the memory this process may pin, also when it began as root.
func limitMemlock(t *testing.T, n uint64) {
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: n, Max: n}))
	if os.Getuid() == 0 {
		require.NoError(t, syscall.Setuid(65534))
	}
}

// needsCounting skips a test on kernels that count neither a ring's queues nor the memory of a zero-copy sendmsg against RLIMIT_MEMLOCK, so that
// nothing can be refused for it: 6.1 and 6.12 do not, 6.18 does.
func needsCounting(t *testing.T) {
	if counts, _ := sys.ReleaseAtLeast(sys.KernelRelease(), 6, 13); !counts {
		testnet.Missing(t, "RLIMIT_MEMLOCK", "Linux "+sys.KernelRelease()+" does not count an io_uring's memory")
	}
}

// A kernel that refuses a zero-copy send: the packet goes out copied, once and whole, and the capability is gone with a reason.
func TestZeroCopyRefused(t *testing.T) {
	needsCounting(t)
	if !alone(t) {
		return
	}
	limitMemlock(t, 1<<20) // enough for the ring, whatever else the user has, but not for 4 MiB in one send
	w := newWorld(t, func(l *buffers.Layout) { l.LargeCount = 160 })
	s, peer := w.pair()
	r := s.Ring()
	w.True(r.Caps().Has(ring.CapZeroCopySend))
	w.Zero(r.Why(ring.CapZeroCopySend))
	const each, n = 4 << 20, 2
	got := make(chan []byte)
	go func() {
		b := make([]byte, n*each)
		_, _ = io.ReadFull(peer, b)
		got <- b
	}()
	for i := range n {
		w.NoError(s.SendPacket(w.chain(i*each, each, 65536), netip.AddrPort{}, uint64(i)))
	}
	for range n {
		w.NoError(w.event(s, ring.EventSent).Err)
	}
	for i, b := range <-got {
		if b != pattern(i) {
			w.FailNow("wrong byte", "at %d", i)
		}
	}
	w.False(r.Caps().Has(ring.CapZeroCopySend))
	why := r.Why(ring.CapZeroCopySend)
	w.Equal(uring.CodeNoZeroCopy, why.Code)
	w.Contains(why.Text, "cannot allocate memory (RLIMIT_MEMLOCK 1048576 bytes)")
}

// Datagrams of one submission, for all of which the memory does not suffice: each that the kernel refuses goes out copied, not the first alone.
func TestZeroCopyRefusedForDatagrams(t *testing.T) {
	needsCounting(t)
	if !alone(t) {
		return
	}
	limitMemlock(t, 1<<20) // enough for the ring, whatever else the user has, but not for 2 MiB in one submission
	w := newWorld(t, func(l *buffers.Layout) { l.LargeCount = 160 })
	s := w.udp()
	w.poll() // a ring that was never polled only prepares
	to := w.peerOf(s).LocalAddr().(*net.UDPAddr).AddrPort()
	const n = 35
	for i := range n {
		w.NoError(s.SendPacket(w.chain(0, 60000, 65536), to, uint64(i)))
	}
	for range n {
		c := w.event(s, ring.EventSent)
		w.NoError(c.Err, "datagram %d", c.Token)
	}
	w.False(s.Ring().Caps().Has(ring.CapZeroCopySend))
}

func TestNoMemoryForTheRing(t *testing.T) {
	needsCounting(t)
	if !alone(t) {
		return
	}
	limitMemlock(t, 4096)
	err := uring.Probe()
	var f *ring.FeatureError
	require.ErrorAs(t, err, &f)
	require.Equal(t, uring.CodeMemlock, f.Code)
	require.ErrorContains(t, err, "RLIMIT_MEMLOCK 4096 bytes")
	require.ErrorIs(t, err, syscall.ENOMEM)
}

func TestDescriptorLimit(t *testing.T) {
	if !alone(t) {
		return
	}
	w := newWorld(t)
	l := w.listen()
	w.poll()
	w.NoError(l.Suspend()) // the kernel takes the limit from when the accept is armed
	w.poll()
	fd, err := unix.Dup(0)
	w.NoError(err)
	clients := make([]int, 8)
	for i := range clients {
		clients[i], err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		w.NoError(err)
	}
	w.NoError(unix.Close(fd))
	var old unix.Rlimit
	w.NoError(unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	w.NoError(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(fd), Max: old.Max}))
	w.NoError(l.Resume())
	w.silent(30 * time.Millisecond)
	to := &unix.SockaddrInet4{Port: int(l.LocalAddr().Port()), Addr: [4]byte{127, 0, 0, 1}}
	for _, c := range clients {
		w.NoError(unix.Connect(c, to))
	}
	w.silent(50 * time.Millisecond)
	w.NotZero(l.Stats().AcceptFailures)
	w.Less(l.Stats().AcceptFailures, uint64(30))
	w.NoError(unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	for range clients {
		w.next("a connection", func(c *ring.Completion) bool { return c.Events.Has(ring.EventNewConnection) })
	}
	for _, c := range clients {
		w.NoError(unix.Close(c))
	}
	w.kept = nil
}

func TestBadConfigurations(t *testing.T) {
	l := buffers.DefaultLayout()
	l.Headroom = 64
	pool, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	_, err = uring.New(ring.DriverConfig{Pool: pool})
	require.ErrorContains(t, err, "headroom of the pool's buffers is 64 bytes")
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = uring.New(ring.DriverConfig{})
	require.ErrorContains(t, err, "pool is nil")
	_, err = uring.New(ring.DriverConfig{Pool: pool, Entries: -1})
	require.ErrorContains(t, err, "entries -1")

	w := newWorld(t, func(l *buffers.Layout) { l.LargeCount = 0 })
	s := w.socket(ring.KindDatagram)
	err = s.Bind(loopback)
	w.ErrorContains(err, "no large buffers")
	w.ErrorIs(err, unix.ENOBUFS)
	_ = s.Close()
}

// More is prepared before the first Poll than the submission queue holds.
func TestManyBeforeTheFirstPoll(t *testing.T) {
	w := newWorld(t)
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	w.NoError(err)
	defer l.Close()
	const n = 700
	go func() {
		for range n {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hi"))
			_ = c.Close()
		}
	}()
	sockets := make([]*ring.Socket, n)
	for i := range sockets {
		sockets[i] = w.socket(ring.KindStream)
		w.NoError(sockets[i].Connect(l.Addr().(*net.TCPAddr).AddrPort()))
	}
	for _, s := range sockets {
		w.event(s, ring.EventOut)
		w.Equal("hi", string(w.read(s, 2)))
		w.event(s, fin)
	}
	w.Empty(w.kept)
}

func TestProbe(t *testing.T) { require.NoError(t, uring.Probe()) }

// A ring that is closed with everything under way gives all buffers back, and its port is free at once.
func TestCloseInTheMiddle(t *testing.T) {
	w := newWorld(t)
	l := w.listen()
	at := l.LocalAddr()
	var peers []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", at.String())
		w.NoError(err)
		defer c.Close()
		peers = append(peers, c)
	}
	u := w.udp()
	up := w.peerOf(u)
	for range 200 {
		w.poll()
		for _, c := range peers {
			w.write(c, make([]byte, 3000))
		}
		w.write(up, make([]byte, 3000))
		for i := range w.kept {
			if i%3 == 0 {
				_ = w.kept[i].Packet.Release()
			}
		}
		if len(w.kept) > 300 {
			break
		}
	}
	w.NoError(w.set.Close())
	again, err := net.Listen("tcp", at.String())
	w.NoError(err)
	w.NoError(again.Close())
}
