package repair

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/guard"
)

var patience = testnet.Slow(time.Minute)

// world is a connection between two kernels, with a guard before the one it moves in.
type world struct {
	*require.Assertions
	t     *testing.T
	net   *testnet.Net
	guard *guard.Guard
	flow  link.Flow
	fd    int          // ours
	peer  *net.TCPConn // the other end
}

// newWorld makes it; change gives the listener of our end options, which the connection inherits.
func newWorld(t *testing.T, change ...func(fd int) error) *world {
	w := &world{Assertions: require.New(t), t: t, net: testnet.New(t, testnet.Pair{}), fd: -1}
	near, err := net.InterfaceByName(w.net.Device(0))
	w.NoError(err)
	w.guard, err = guard.Open(guard.Config{Index: near.Index})
	w.NoError(err)
	t.Cleanup(func() { w.NoError(w.guard.Close()) })
	w.single()
	w.connect(change)
	return w
}

func (w *world) connect(change []func(fd int) error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			for _, f := range change {
				err = errors.Join(err, f(int(fd)))
			}
		})
		return errors.Join(err, failed)
	}}
	l, err := config.Listen(w.t.Context(), "tcp4", netip.AddrPortFrom(w.net.Local(0), 4000).String())
	w.NoError(err)
	listener := l.(*net.TCPListener)
	w.net.InPeer(func() {
		c, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(w.net.Local(0), 4000)))
		w.NoError(err)
		w.peer = c
	})
	w.t.Cleanup(func() { _ = w.peer.Close() })
	w.NoError(w.peer.SetDeadline(time.Now().Add(2 * patience)))
	child, err := listener.AcceptTCP()
	w.NoError(err)
	raw, err := child.SyscallConn()
	w.NoError(err)
	w.NoError(raw.Control(func(fd uintptr) { w.fd, err = unix.Dup(int(fd)) }))
	w.NoError(err)
	w.NoError(child.Close())
	w.NoError(listener.Close())
	w.t.Cleanup(func() { _ = unix.Close(w.fd) })
	at := w.peer.LocalAddr().(*net.TCPAddr).AddrPort()
	w.flow = link.Flow{Protocol: link.TCP, Local: netip.AddrPortFrom(w.net.Local(0), 4000),
		Remote: netip.AddrPortFrom(at.Addr().Unmap(), at.Port())}
}

// move takes the connection out of its socket and into a new one.
func (w *world) move() *State {
	w.t.Helper()
	w.NoError(w.guard.Claim(w.flow))
	f, err := Freeze(w.fd)
	w.NoError(err)
	w.NoError(f.Close())
	c, err := Create(&f.State)
	w.NoError(err)
	w.Empty(c.Missing())
	w.NoError(w.guard.Release(w.flow))
	w.fd, err = c.Activate()
	w.NoError(err)
	return &f.State
}

// stream writes pseudo-random bytes and hashes them.
type stream struct {
	random *rand.ChaCha8
	hash   hash.Hash
	rest   []byte
	left   int
}

func newStream(seed uint64, n int) *stream {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return &stream{random: rand.NewChaCha8(key), hash: sha256.New(), left: n}
}

// next is what is to be written next, at most n bytes.
func (s *stream) next(n int) []byte {
	if len(s.rest) == 0 {
		s.rest = make([]byte, min(n, s.left))
		_, _ = s.random.Read(s.rest) // it does not fail
		s.hash.Write(s.rest)
		s.left -= len(s.rest)
	}
	return s.rest
}

func (s *stream) over() bool { return s.left == 0 && len(s.rest) == 0 }

// exchange is as many bytes in each direction at once: the peer's end in goroutines, ours step by step.
type exchange struct {
	*world
	total          int
	sent, back     *stream
	got            int       // bytes of back that have arrived
	arrived        hash.Hash // of those
	buffer         []byte
	received, done chan [32]byte // the hash of what the peer has received, and of what it has sent
}

func (w *world) exchange(total int) *exchange {
	x := &exchange{world: w, total: total, sent: newStream(1, total), back: newStream(2, total), arrived: sha256.New(),
		buffer: make([]byte, 256<<10), received: make(chan [32]byte, 1), done: make(chan [32]byte, 1)}
	go func() {
		h := sha256.New()
		_, _ = io.CopyN(h, w.peer, int64(total))
		x.received <- [32]byte(h.Sum(nil))
	}()
	go func() {
		for !x.back.over() {
			n, err := w.peer.Write(x.back.next(64 << 10))
			if err != nil {
				break // the hashes show it
			}
			x.back.rest = x.back.rest[n:]
		}
		x.done <- [32]byte(x.back.hash.Sum(nil))
	}()
	return x
}

// socket writes to our socket and reads from it once. It returns false if nothing was there to be read.
func (x *exchange) socket() bool {
	n, err := unix.Write(x.fd, x.sent.next(256<<10))
	if n > 0 {
		x.sent.rest = x.sent.rest[n:]
	}
	if err != nil && len(x.sent.rest) > 0 {
		x.ErrorIs(err, unix.EAGAIN)
	}
	n, err = unix.Read(x.fd, x.buffer)
	if n <= 0 {
		x.ErrorIs(err, unix.EAGAIN, "%d bytes", n)
		return false
	}
	x.arrived.Write(x.buffer[:n])
	x.got += n
	return true
}

// progress is how many bytes have been written and read at our end, in the direction that has fewer.
func (x *exchange) progress() int {
	return min(x.got, x.total-x.sent.left-len(x.sent.rest))
}

func (x *exchange) over() bool { return x.progress() == x.total }

func (x *exchange) String() string {
	return fmt.Sprintf("%d bytes received, %d to be sent", x.got, x.sent.left+len(x.sent.rest))
}

// check compares what was sent with what has arrived, in both directions.
func (x *exchange) check() {
	x.Equal([32]byte(x.sent.hash.Sum(nil)), <-x.received)
	x.Equal(<-x.done, [32]byte(x.arrived.Sum(nil)))
}

// Ten moves in mid-stream, with full queues: each byte arrives in both directions, and nobody is reset.
func TestTenMoves(t *testing.T) {
	w := newWorld(t)
	const total = 30 << 20
	x := w.exchange(total)
	moves, queued := 0, 0
	var longest time.Duration
	for end := time.Now().Add(patience); !x.over(); {
		w.True(time.Now().Before(end), "%s after %d moves", x, moves)
		if !x.socket() {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN | unix.POLLOUT}}, 10)
			if err != unix.EINTR { // a signal of the Go runtime: the loop polls again
				w.NoError(err)
			}
		}
		if moves < 10 && x.progress() > (moves+1)*total/12 {
			start := time.Now()
			s := w.move()
			longest = max(longest, time.Since(start))
			queued = max(queued, len(s.Received)+len(s.Sent)+len(s.Unsent))
			moves++
		}
	}
	w.Equal(10, moves)
	x.check()
	w.Positive(queued)
	t.Logf("ten moves; the longest took %v; queues to %d bytes", longest, queued)
}

// What the state has is what the sockets know.
func TestState(t *testing.T) {
	w := newWorld(t)
	for _, o := range []Option{{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 77},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, {unix.IPPROTO_IP, unix.IP_TOS, 0x10}, {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 12345},
		{unix.SOL_SOCKET, unix.SO_PRIORITY, 4}} {
		w.NoError(unix.SetsockoptInt(w.fd, o.Level, o.Name, o.Value))
	}
	w.NoError(unix.SetsockoptString(w.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno"))
	_, err := w.peer.Write([]byte("unread"))
	w.NoError(err)
	w.until("its arrival", func() bool { n, _ := unix.IoctlGetInt(w.fd, unix.SIOCINQ); return n == 6 })
	w.NoError(w.guard.Claim(w.flow))
	_, err = unix.Write(w.fd, []byte("unacknowledged"))
	w.NoError(err)
	f, err := Freeze(w.fd)
	w.NoError(err)
	s := &f.State
	w.Equal("unread", string(s.Received))
	w.Equal("unacknowledged", string(s.Sent))
	w.Empty(s.Unsent)
	w.Equal(w.flow.Local, s.Local.AddrPort())
	w.Equal(w.flow.Remote, s.Remote.AddrPort())
	w.Equal([]any{true, true, true, uint16(1460), 1500, false, -1},
		[]any{s.SACK, s.Timestamps, s.Scaled, s.PeerMSS, s.MTU, s.Fin, s.Reneged})
	w.Positive(s.SendScale)
	w.Positive(s.ReceiveScale)
	w.Positive(s.SendWindow)
	w.Positive(s.ReceiveWindow)
	w.Positive(s.RTT)
	w.Equal(len("unacknowledged"), s.SendNext.Minus(s.SendUnacked))
	w.Equal("reno", s.Congestion)
	before := *s
	w.NoError(f.Resume())
	w.NoError(w.guard.Release(w.flow))
	w.until("it goes on", func() bool { n, _ := unix.IoctlGetInt(w.fd, unix.SIOCOUTQ); return n == 0 })
	after := w.move()
	w.Equal("unread", string(after.Received))
	w.Equal(before.ReceiveNext, after.ReceiveNext)
	w.Equal(before.SendNext, after.SendUnacked)
	w.Equal([]any{before.SendScale, before.ReceiveScale, before.PeerMSS}, []any{after.SendScale, after.ReceiveScale, after.PeerMSS})
	w.Less(before.Timestamp, after.Timestamp+1)
	// The new socket has the same options, and the data.
	b := make([]byte, 100)
	n, err := unix.Read(w.fd, b)
	w.NoError(err)
	w.Equal("unread", string(b[:n]))
	for _, o := range []Option{{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 77},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, {unix.IPPROTO_IP, unix.IP_TOS, 0x10}, {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 12345},
		{unix.SOL_SOCKET, unix.SO_PRIORITY, 4}} {
		v, err := unix.GetsockoptInt(w.fd, o.Level, o.Name)
		w.NoError(err)
		w.Equal(o.Value, v, "option %d", o.Name)
	}
}

func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		w.True(time.Now().Before(end), "not reached: %s", what)
	}
}

// FIN goes again: whether it was acknowledged (FIN-WAIT-2) or not (FIN-WAIT-1).
func TestFinWait(t *testing.T) {
	for _, acked := range []bool{false, true} {
		w := newWorld(t)
		if !acked {
			w.NoError(w.guard.Claim(w.flow)) // no acknowledgement comes
		}
		_, err := unix.Write(w.fd, []byte("the last words"))
		w.NoError(err)
		w.NoError(unix.Shutdown(w.fd, unix.SHUT_WR))
		if acked {
			w.until("FIN-WAIT-2", func() bool { return w.state() == kernelFinWait2 })
		} else {
			w.EqualValues(kernelFinWait1, w.state())
		}
		s := w.move()
		w.True(s.Fin)
		w.Equal(map[bool]string{false: "the last words", true: ""}[acked], string(s.Sent))
		text, err := io.ReadAll(w.peer)
		w.NoError(err)
		w.Equal("the last words", string(text))
		w.until("FIN-WAIT-2", func() bool { return w.state() == kernelFinWait2 })
		_, err = w.peer.Write([]byte("the answer"))
		w.NoError(err)
		w.NoError(w.peer.Close())
		b := make([]byte, 100)
		w.until("the answer", func() bool {
			n, err := unix.Read(w.fd, b)
			return err == nil && string(b[:n]) == "the answer"
		})
		w.until("its end", func() bool { n, err := unix.Read(w.fd, b); return err == nil && n == 0 })
	}
}

func (w *world) state() uint8 {
	info, err := unix.GetsockoptTCPInfo(w.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	w.NoError(err)
	return info.State
}

// States that cannot move, and sockets that are none.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.NoError(w.peer.CloseWrite())
	w.until("CLOSE-WAIT", func() bool { return w.state() == 8 })
	_, err := Freeze(w.fd)
	w.ErrorIs(err, ErrState)
	w.ErrorContains(err, "CLOSE-WAIT")
	_, err = unix.Write(w.fd, []byte("it goes on"))
	w.NoError(err)
	b := make([]byte, 100)
	n, err := w.peer.Read(b)
	w.NoError(err)
	w.Equal("it goes on", string(b[:n]))

	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.NoError(err)
	defer func() { _ = unix.Close(listener) }()
	_, err = Freeze(listener)
	w.ErrorContains(err, "CLOSED")
	w.NoError(unix.Listen(listener, 1))
	_, err = Freeze(listener)
	w.ErrorIs(err, ErrState)
	w.ErrorContains(err, "LISTEN")
	udp, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	w.NoError(err)
	defer func() { _ = unix.Close(udp) }()
	_, err = Freeze(udp)
	w.ErrorIs(err, ErrSocket)
	_, err = Freeze(-1)
	w.ErrorIs(err, unix.EBADF)
}

// A connection that the kernel has cannot be created again, and an address that the host does not have neither.
func TestCreateRefused(t *testing.T) {
	w := newWorld(t)
	f, err := Freeze(w.fd)
	w.NoError(err)
	_, err = Create(&f.State)
	w.ErrorIs(err, unix.EADDRNOTAVAIL) // what connect answers for a connection that there is
	s := f.State
	s.Local.Addr[3] = 99
	_, err = Create(&s)
	w.ErrorIs(err, unix.EADDRNOTAVAIL)
	w.ErrorContains(err, "10.0.0.99:4000")
	s.Sent = []byte("more than SendNext says")
	_, err = Create(&s)
	w.ErrorContains(err, "Sent has 23 bytes, and from SendUnacked to SendNext are 0")
	w.NoError(f.Resume())
	_, err = unix.Write(w.fd, []byte("it goes on"))
	w.NoError(err)
	b := make([]byte, 100)
	n, err := w.peer.Read(b)
	w.NoError(err)
	w.Equal("it goes on", string(b[:n]))
}

// Without CAP_NET_ADMIN the error says so.
func TestNoCapability(t *testing.T) {
	w := newWorld(t)
	f, err := Freeze(w.fd)
	w.NoError(err)
	w.NoError(f.Resume())
	refused := make(chan [2]error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread without privileges ends here
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := errors.Join(w.net.Enter(), unix.Capset(&header, &none[0])); err != nil {
			refused <- [2]error{err, err}
			return
		}
		_, freeze := Freeze(w.fd)
		_, create := Create(&f.State)
		refused <- [2]error{freeze, create}
	}()
	for _, err := range <-refused {
		w.ErrorIs(err, ErrNoCapability)
		w.ErrorIs(err, unix.EPERM)
	}
	_, err = unix.Write(w.fd, []byte("as it was"))
	w.NoError(err)
	b := make([]byte, 100)
	n, err := w.peer.Read(b)
	w.NoError(err)
	w.Equal("as it was", string(b[:n]))
}
