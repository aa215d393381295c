package offload_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// echoServer sends back what connections of a listener send. The test's goroutine polls it.
type echoServer struct {
	t        *testing.T
	listener *ring.Socket
	dst      []ring.Completion
	waiting  map[*ring.Socket]*bytes.Buffer // what there was no room for
	ended    map[*ring.Socket]bool          // the peer has sent FIN: closed when nothing waits
	open     map[*ring.Socket]bool
	own      int // connections accepted by the stack
	kernels  int // and by the kernel
	why      map[string]bool
	failed   []error
	path     func() // unless nil, called for each EventPath
}

func newEchoServer(t *testing.T, l *ring.Socket) *echoServer {
	return &echoServer{t: t, listener: l, dst: make([]ring.Completion, 256), waiting: map[*ring.Socket]*bytes.Buffer{},
		ended: map[*ring.Socket]bool{}, open: map[*ring.Socket]bool{}, why: map[string]bool{}}
}

func (e *echoServer) poll() {
	n, err := e.listener.Ring().Poll(e.dst)
	if err != nil {
		require.ErrorContains(e.t, err, "v0") // frames on their way when the interface was lost
	}
	for i := range e.dst[:n] {
		e.handle(&e.dst[i])
	}
}

func (e *echoServer) handle(c *ring.Completion) {
	s := c.Socket
	if c.Events.Has(ring.EventPath) && e.path != nil {
		e.path()
	}
	if c.Events.Has(ring.EventNewConnection) {
		e.open[s] = true
		if p := s.Path(); p.Tier == ring.TierKernel {
			e.kernels++
			e.why[p.Lost] = true
		} else {
			e.own++
		}
	}
	if c.Events.Has(ring.EventPacket) {
		e.send(s, c.Packet.Bytes())
		require.NoError(e.t, c.Packet.Release())
	}
	if !e.open[s] {
		return
	}
	if c.Events.Has(ring.EventOut) {
		if b := e.waiting[s]; b != nil {
			delete(e.waiting, s)
			e.send(s, b.Bytes())
		}
	}
	if c.Events.Has(ring.EventHup) {
		e.failed = append(e.failed, fmt.Errorf("%v: %w", s.RemoteAddr(), c.Err))
		e.close(s)
		return
	}
	if c.Events.Has(ring.EventRdHup) {
		e.ended[s] = true
	}
	if e.ended[s] && e.waiting[s] == nil {
		e.close(s)
	}
}

func (e *echoServer) close(s *ring.Socket) {
	delete(e.open, s)
	delete(e.ended, s)
	delete(e.waiting, s)
	require.NoError(e.t, s.Close())
}

func (e *echoServer) send(s *ring.Socket, b []byte) {
	w := e.waiting[s]
	for w == nil && len(b) > 0 {
		n, err := s.Send(b)
		b = b[n:]
		if err == nil {
			continue
		}
		if !errors.Is(err, ring.ErrWouldBlock) {
			e.failed = append(e.failed, fmt.Errorf("%v: %w", s.RemoteAddr(), err))
			e.close(s)
			return
		}
		w = &bytes.Buffer{}
	}
	if w != nil {
		w.Write(b)
		e.waiting[s] = w
	}
}

func (e *echoServer) until(what string, done func() bool) {
	e.t.Helper()
	for end := time.Now().Add(6 * patience); !done(); e.poll() {
		if time.Now().After(end) {
			require.FailNow(e.t, what, "%v\n%v\nfailed: %v", e.listener.Path().Explain(), e.listener.Ring().Stats().Driver, e.failed)
		}
	}
}

// echoClients are connections of a kernel, each of which sends and reads back what it sent, until they are stopped.
type echoClients struct {
	stop  atomic.Bool
	wg    sync.WaitGroup
	bytes atomic.Int64
	live  atomic.Int64
	mu    sync.Mutex
	errs  []error
}

// begin has a connection that may still be connecting run on a goroutine of its own.
func (x *echoClients) begin(t *testing.T, fd int) {
	f := os.NewFile(uintptr(fd), "client")
	conn, err := net.FileConn(f)
	require.NoError(t, errors.Join(err, f.Close()))
	x.live.Add(1)
	seed := rand.Uint64()
	x.wg.Go(func() {
		defer x.live.Add(-1)
		defer conn.Close()
		if err := x.run(conn.(*net.TCPConn), seed); err != nil {
			x.mu.Lock()
			x.errs = append(x.errs, fmt.Errorf("%v: %w", conn.LocalAddr(), err))
			x.mu.Unlock()
		}
	})
}

func (x *echoClients) run(c *net.TCPConn, seed uint64) error {
	if err := c.SetDeadline(time.Now().Add(5 * patience)); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	sent, back := sha256.New(), sha256.New()
	message, answer := make([]byte, 6000), make([]byte, 6000)
	for n := 0; n == 0 || !x.stop.Load(); {
		n = 1 + random.IntN(len(message))
		for i := range n {
			message[i] = byte(random.Uint32())
		}
		sent.Write(message[:n])
		if _, err := c.Write(message[:n]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, answer[:n]); err != nil {
			return err
		}
		back.Write(answer[:n])
		x.bytes.Add(int64(n))
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	if n, err := c.Read(answer); n != 0 || err != io.EOF {
		return fmt.Errorf("after the end: %d bytes, %v", n, err)
	}
	if !bytes.Equal(sent.Sum(nil), back.Sum(nil)) {
		return errors.New("other bytes came back")
	}
	return nil
}

// connecting begins to connect, in the namespace of the calling thread.
func connecting(t *testing.T, to netip.AddrPort) (fd int) {
	family, at := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())})
	if to.Addr().Is4() {
		family, at = unix.AF_INET, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	if err = unix.Connect(fd, at); err != nil {
		require.ErrorIs(t, err, unix.EINPROGRESS)
	}
	return fd
}

func fileConn(t *testing.T, fd int) net.Conn {
	f := os.NewFile(uintptr(fd), "client")
	conn, err := net.FileConn(f)
	require.NoError(t, errors.Join(err, f.Close()))
	return conn
}

// streamRing is a ring with TCP on v0.
func streamRing(t *testing.T, pairs ...testnet.Pair) (streamCable, *ring.Set) {
	pool := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 8192, LargeSize: 65536, LargeCount: 32, Headroom: 192})
	sc := ring.SetConfig{Pool: pool}
	c := newStreamCable(t, &sc, pairs...)
	set, err := ring.NewSet(sc)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return c, set
}

func listenTCP(t *testing.T, set *ring.Set, at string) *ring.Socket {
	local := netip.MustParseAddrPort(at)
	l, err := set.NewSocket(ring.KindStream, ring.FamilyOfAddr(local.Addr()), ring.Config{})
	require.NoError(t, err)
	require.NoError(t, l.Bind(local))
	require.NoError(t, l.Listen(4096))
	return l
}
