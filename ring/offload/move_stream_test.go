package offload_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/udp"
)

// movable is v0 with a ring that carries TCP on an exchange, whose driver the test has.
type movable struct {
	*shared
	set    *ring.Set
	pool   *buffers.DriverPool
	driver ring.Driver
	detach func() // takes the steering program off
	dst    []ring.Completion
}

func newMovable(t *testing.T, change ...func(*streams.Options)) *movable {
	m := &movable{dst: make([]ring.Completion, 64)}
	m.shared, m.detach = detachableOn(t, newCable(t, 1), xdp.Config{TCP: true, Retry: letGo})
	o := quickTCP(false)
	o.MoveAfter = 300 * time.Millisecond
	for _, f := range change {
		f(o)
	}
	open := offload.New(offload.Config{Exchange: m.exchange, TCP: o,
		Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.AcceptPartial}}})
	m.pool = newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 8192, LargeSize: 65536, LargeCount: 64, Headroom: 192})
	sc := ring.SetConfig{Transport: offload.NewKernelPorts(m.mirror), Kind: "offload", OneRing: offload.OneRing, Pool: m.pool,
		Driver: func(c ring.DriverConfig) (d ring.Driver, err error) {
			m.driver, err = open(c)
			return m.driver, err
		}}
	var err error
	m.set, err = ring.NewSet(sc)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.set.Close()) })
	return m
}

// fullStream is a connection that sends and receives pseudo-random bytes at once, in both directions, on the ring; its peer is a kernel.
type fullStream struct {
	t          *testing.T
	m          *movable
	s          *ring.Socket
	random     *rand.ChaCha8
	sent, got  hash.Hash
	rest       []byte
	left, want int // bytes to be sent, and to come
	keep       int // bytes of those to be sent that are not to be sent yet
	paths      int // EventPath
	userData   uint64
	ended      bool
	peer       chan error
	theirs     [2][32]byte // what the peer has received, and sent
}

// newFullStream begins: the peer sends and receives total bytes and then closes.
func newFullStream(t *testing.T, m *movable, s *ring.Socket, peer *net.TCPConn, total int) *fullStream {
	seed := func(n uint64) *rand.ChaCha8 {
		var key [32]byte
		binary.LittleEndian.PutUint64(key[:], n)
		return rand.NewChaCha8(key)
	}
	f := &fullStream{t: t, m: m, s: s, random: seed(1), sent: sha256.New(), got: sha256.New(), left: total, want: total, peer: make(chan error, 2), userData: 4711}
	s.SetUserData(f.userData)
	require.NoError(t, peer.SetDeadline(time.Now().Add(10*patience)))
	sent := make(chan struct{})
	go func() {
		h := sha256.New()
		_, err := io.CopyN(h, peer, int64(total))
		f.theirs[0] = [32]byte(h.Sum(nil))
		<-sent
		f.peer <- errors.Join(err, peer.CloseWrite()) // the last: a connection with a FIN cannot move
	}()
	go func() {
		h := sha256.New()
		_, err := io.CopyN(io.MultiWriter(h, peer), seed(2), int64(total))
		f.theirs[1] = [32]byte(h.Sum(nil))
		close(sent)
		f.peer <- err
	}()
	return f
}

// poll is a turn of the ring, which gives each stream what has come for it.
func (m *movable) poll(t *testing.T, streams ...*fullStream) {
	n, err := m.set.Rings()[0].Poll(m.dst)
	if err != nil {
		require.ErrorContains(t, err, "v0") // frames on their way when the interface was lost
	}
	for i := range m.dst[:n] {
		for _, f := range streams {
			if m.dst[i].Socket == f.s {
				f.take(&m.dst[i])
			}
		}
	}
}

func (f *fullStream) take(c *ring.Completion) {
	require.Equal(f.t, f.userData, c.UserData)
	require.False(f.t, c.Events.Has(ring.EventHup), "%v", c.Err)
	f.ended = f.ended || c.Events.Has(ring.EventRdHup)
	if c.Events.Has(ring.EventPath) {
		f.paths++
	}
	if c.Events.Has(ring.EventPacket) {
		for b := range c.Packet.Segments() {
			f.got.Write(b)
			f.want -= len(b)
		}
		require.NoError(f.t, c.Packet.Release())
	}
}

// turn polls, takes what has come and sends what there is room for.
func (f *fullStream) turn() {
	f.m.poll(f.t, f)
	f.send()
}

func (f *fullStream) send() {
	for f.left > f.keep || len(f.rest) > 0 {
		if len(f.rest) == 0 {
			f.rest = make([]byte, min(16<<10, f.left))
			_, _ = f.random.Read(f.rest) // it does not fail
			f.sent.Write(f.rest)
			f.left -= len(f.rest)
		}
		n, err := f.s.Send(f.rest)
		f.rest = f.rest[n:]
		if err != nil {
			require.ErrorIs(f.t, err, ring.ErrWouldBlock)
			return
		}
	}
}

// until turns until a condition holds.
func (f *fullStream) until(what string, done func() bool) {
	f.t.Helper()
	for end := time.Now().Add(4 * patience); !done(); f.turn() {
		if time.Now().After(end) {
			require.FailNow(f.t, what, "%d to be sent, %d to come; %s\n%v", f.left+len(f.rest), f.want, f.s.Path().Explain(),
				f.s.Ring().Stats().Driver)
		}
	}
}

// finish ends the transfer and compares what was sent with what has arrived.
func (f *fullStream) finish() {
	f.t.Helper()
	f.until("all bytes", func() bool { return f.left == 0 && len(f.rest) == 0 && f.want == 0 && f.ended })
	for range 2 {
		var err error
		f.until("the peer", func() bool {
			select {
			case err = <-f.peer:
				return true
			default:
				return false
			}
		})
		require.NoError(f.t, err)
	}
	require.Equal(f.t, f.theirs[0], [32]byte(f.sent.Sum(nil)))
	require.Equal(f.t, f.theirs[1], [32]byte(f.got.Sum(nil)))
}

// accepted is a connection of the peer's kernel to a listener, and its socket.
func (m *movable) accepted(t *testing.T, l *ring.Socket) (s *ring.Socket, peer *net.TCPConn) {
	m.InPeer(func() { peer = fileConn(t, connecting(t, l.LocalAddr())).(*net.TCPConn) })
	for end := time.Now().Add(patience); s == nil; {
		require.True(t, time.Now().Before(end))
		n, err := l.Ring().Poll(m.dst)
		require.NoError(t, err)
		for i := range m.dst[:n] {
			if m.dst[i].Events.Has(ring.EventNewConnection) {
				s = m.dst[i].Socket
			}
		}
	}
	return s, peer
}

// A connection moves into the kernel and back ten times in mid-stream, in both directions under load: each byte arrives, nobody is reset, and
// little is sent again.
func TestConnectionMovesUnderLoad(t *testing.T) {
	m := newMovable(t)
	m.InPeer(func() { // one segment a frame: more frames wait than a turn takes
		require.NoError(t, netlink.LinkSetGSOMaxSegs(linkOf(t, "p0"), 1))
	})
	l := listenTCP(t, m.set, "10.0.0.1:7000")
	s, peer := m.accepted(t, l)
	defer peer.Close()
	const total = 24 << 20
	f := newFullStream(t, m, s, peer, total)
	require.Equal(t, "bypass", s.Path().Tier)
	for i := range 10 {
		f.until("some bytes", func() bool { return min(total-f.want, total-f.left) > (i+1)*total/14 })
		paths := f.paths
		if i%2 == 0 {
			time.Sleep(20 * time.Millisecond) // frames that the ring has not taken: what the move finds there is dropped, and sent again
			require.NoError(t, offload.MoveToKernel(m.driver, s))
			f.until("to the kernel", func() bool { return f.paths > paths })
			require.Equal(t, []string{"kernel", "tcp.moved"}, []string{s.Path().Tier, s.Path().Lost}, s.Path().Explain())
		} else {
			require.NoError(t, offload.MoveToStack(m.driver, s))
			f.until("to the stack", func() bool { return f.paths > paths })
			require.Equal(t, []string{"bypass", ""}, []string{s.Path().Tier, s.Path().Lost}, s.Path().Explain())
		}
	}
	f.finish()
	again, segments := counter(s.Ring(), "tcp.retransmitted"), counter(s.Ring(), "tcp.segments_out")
	t.Logf("%d segments, %d of them again", segments, again)
	require.Less(t, again, segments/4)
	raw, err := peer.SyscallConn()
	require.NoError(t, err)
	var info *unix.TCPInfo
	require.NoError(t, raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
	require.NoError(t, err)
	t.Logf("the peer: %d segments, %d of them again", info.Segs_out, info.Total_retrans)
	require.Less(t, info.Total_retrans, info.Segs_out/4)
	require.Zero(t, counter(s.Ring(), "tcp.resets_sent"))
	require.Zero(t, counter(s.Ring(), "tcp.resets_received"))
	require.Zero(t, counter(s.Ring(), "tcp.not_moved"))
	require.EqualValues(t, 5, counter(s.Ring(), "tcp.moved_to_kernel"))
	require.EqualValues(t, 5, counter(s.Ring(), "tcp.moved_to_stack"))
	require.NotZero(t, counter(s.Ring(), "tcp.moving"), "what came to the stack just after a move was dropped")
	require.NoError(t, s.Close())
}

// connected is a connection of the ring to a listener of the peer's kernel.
func (m *movable) connected(t *testing.T) (s *ring.Socket, peer *net.TCPConn) {
	var l net.Listener
	var err error
	m.InPeer(func() { l, err = net.Listen("tcp4", "10.0.0.2:0") })
	require.NoError(t, err)
	defer l.Close()
	s, err = m.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Connect(l.Addr().(*net.TCPAddr).AddrPort()))
	for end, done := time.Now().Add(patience), false; !done; {
		require.True(t, time.Now().Before(end))
		n, err := s.Ring().Poll(m.dst)
		require.NoError(t, err)
		for i := range m.dst[:n] {
			done = done || m.dst[i].Socket == s && m.dst[i].Events.Has(ring.EventOut)
		}
	}
	require.NoError(t, s.Ring().Flush()) // the last segment of the handshake
	conn, err := l.Accept()
	require.NoError(t, err)
	return s, conn.(*net.TCPConn)
}

// Another program takes the interface for good: connections of both kinds move into the kernel by themselves, in mid-stream, and return when the
// interface is back.
func TestConnectionsMoveWhenTheInterfaceIsLost(t *testing.T) {
	m := newMovable(t)
	l := listenTCP(t, m.set, "10.0.0.1:7000")
	child, first := m.accepted(t, l)
	defer first.Close()
	client, second := m.connected(t)
	defer second.Close()
	const total = 8 << 20
	streams := []*fullStream{newFullStream(t, m, child, first, total), newFullStream(t, m, client, second, total)}
	streams[1].userData = 4712
	client.SetUserData(4712)
	both := func(what string, done func(f *fullStream) bool) {
		t.Helper()
		for end := time.Now().Add(4 * patience); ; {
			left := false
			for _, f := range streams {
				left = left || !done(f)
				f.send()
			}
			if !left {
				return
			}
			require.True(t, time.Now().Before(end), "%s: %v\n%v\n%v", what, child.Path().Explain(), client.Path().Explain(), l.Ring().Stats().Driver)
			m.poll(t, streams...)
		}
	}
	both("busy", func(f *fullStream) bool { return total-f.want > 1<<20 })
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}) // XDP_PASS
	require.NoError(t, err)
	defer pass.Close()
	m.detach()
	other, err := bpflink.AttachXDP(bpflink.XDPOptions{Program: pass, Interface: linkOf(t, "v0").Attrs().Index, Flags: bpflink.XDPGenericMode})
	require.NoError(t, err)
	for _, f := range streams {
		f.keep = 1 << 20
	}
	both("in the kernel", func(f *fullStream) bool { return f.s.Path().Lost == "tcp.moved" })
	both("busy in the kernel", func(f *fullStream) bool { return f.left <= f.keep && f.want == 0 })
	require.NoError(t, other.Close())
	both("back", func(f *fullStream) bool { return f.s.Path().Tier == "bypass" && f.s.Path().Lost == "" })
	for _, f := range streams {
		f.keep = 0
	}
	both("done", func(f *fullStream) bool { return f.left == 0 && len(f.rest) == 0 && f.want == 0 && f.ended })
	for _, f := range streams {
		f.finish()
		require.NoError(t, f.s.Close())
	}
	require.Zero(t, counter(l.Ring(), "tcp.resets_sent"))
	require.Zero(t, counter(l.Ring(), "tcp.resets_received"))
	require.EqualValues(t, 2, counter(l.Ring(), "tcp.moved_to_kernel"))
	require.EqualValues(t, 2, counter(l.Ring(), "tcp.moved_to_stack"))
}
