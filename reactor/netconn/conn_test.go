package netconn

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestAddresses(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		c, a := pair(t, n, "tcp")
		require.IsType(t, &net.TCPAddr{}, c.LocalAddr())
		require.Equal(t, c.LocalAddr().String(), a.RemoteAddr().String())
		require.Equal(t, a.LocalAddr().String(), c.RemoteAddr().String())
		require.Equal(t, string(kind), c.Path().Kind)
		require.Equal(t, string(kind), a.Path().Kind)
		c, a = pair(t, n, "unix")
		require.IsType(t, &net.UnixAddr{}, c.RemoteAddr())
		require.Equal(t, a.LocalAddr().String(), c.RemoteAddr().String())
		require.Equal(t, "unix", a.LocalAddr().Network())
	})
}

func TestNetworksAndHosts(t *testing.T) {
	n := newNetwork(t, conf.RingEpoll, Config{})
	for _, network := range []string{"tcp", "tcp4", "tcp6"} {
		ln, err := n.Listen(network, ":0")
		require.NoError(t, err, network)
		_, port, err := net.SplitHostPort(ln.Addr().String())
		require.NoError(t, err)
		hosts := map[string]bool{"127.0.0.1": network != "tcp6", "[::1]": network != "tcp4", "": true}
		if network != "tcp6" {
			hosts["localhost"] = true // in /etc/hosts it may be IPv4's only
		}
		for host, want := range hosts {
			c, err := n.DialContext(withPatience(t), "tcp", host+":"+port)
			require.Equal(t, want, err == nil, "%s to %q: %v", network, host, err)
			if err == nil {
				require.NoError(t, c.Close())
			}
		}
		require.NoError(t, ln.Close())
	}
	for _, network := range []string{"", "sctp", "tcp5", "ip", "unixgram"} {
		_, err := n.Listen(network, "127.0.0.1:0")
		require.ErrorAs(t, err, new(net.UnknownNetworkError), network)
		_, err = n.Dial(network, "127.0.0.1:1")
		require.ErrorAs(t, err, new(net.UnknownNetworkError), network)
	}
	for _, bad := range []string{"127.0.0.1", "127.0.0.1:nosuchservice", "127.0.0.1:99999", "[::1", "host.invalid:1"} {
		_, err := n.DialContext(withPatience(t), "tcp", bad)
		require.ErrorAs(t, err, new(*net.OpError), bad)
		_, err = n.Listen("tcp", bad)
		require.ErrorAs(t, err, new(*net.OpError), bad)
	}
}

func TestDialErrors(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		ln := listen(t, n, "tcp")
		require.NoError(t, ln.Close())
		_, err := n.Dial("tcp", ln.Addr().String())
		require.ErrorIs(t, err, unix.ECONNREFUSED)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "dial", op.Op)
		require.Equal(t, ln.Addr().String(), op.Addr.String())
		_, err = n.Dial("unix", "/nonexistent/socket")
		require.ErrorIs(t, err, unix.ENOENT)

		again, err := n.Listen("tcp", ln.Addr().String()) // Close freed the port
		require.NoError(t, err)
		_, err = n.Listen("tcp", ln.Addr().String())
		require.ErrorIs(t, err, unix.EADDRINUSE)
		require.NoError(t, again.Close())
	})
}

func TestErrorsAreThoseOfPackageNet(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, c := mixed(t, n)
		require.NoError(t, a.SetReadDeadline(time.Now().Add(-time.Second)))
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, [2]string{"read", "tcp"}, [2]string{op.Op, op.Net})
		require.Equal(t, a.LocalAddr(), op.Source)
		require.Equal(t, a.RemoteAddr(), op.Addr)
		require.True(t, op.Timeout())
		require.NoError(t, a.SetReadDeadline(time.Time{}))

		require.NoError(t, c.SetLinger(0))
		require.NoError(t, c.Close())
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, unix.ECONNRESET)
		_, err = a.Write(make([]byte, 1))
		require.ErrorIs(t, err, unix.ECONNRESET)

		require.NoError(t, a.Close())
		for _, err := range []error{a.Close(), a.SetDeadline(time.Now()), a.SetNoDelay(true), a.CloseWrite(), a.CloseRead(),
			second(a.Read(nil)), second(a.Write(nil))} {
			require.ErrorIs(t, err, net.ErrClosed)
			require.ErrorAs(t, err, &op)
		}
	})
}

func second(_ int, err error) error { return err }

func TestHalfClose(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		for _, network := range []string{"tcp", "unix"} {
			c, a := pair(t, n, network)
			question := bytes.Repeat([]byte("question"), 100_000)
			go func() {
				_, _ = c.Write(question)
				_ = c.CloseWrite()
			}()
			got, err := io.ReadAll(a)
			require.NoError(t, err)
			require.Equal(t, len(question), len(got))
			require.Equal(t, question, got)
			_, err = c.Write([]byte("more"))
			require.ErrorIs(t, err, unix.EPIPE)
			pingPong(t, a, c, "answer")
			require.NoError(t, a.Close())
			_, err = c.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err, "bare, and again")
			_, err = c.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
		}
	})
}

func TestCloseRead(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{ReceiveBuffer: 4096})
		a, c := mixed(t, n)
		blocked := make(chan error, 1)
		go func() { blocked <- second(a.Read(make([]byte, 1))) }()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, a.CloseRead())
		require.Equal(t, io.EOF, wait(t, blocked))
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(patience)))
		_, err := c.Write(make([]byte, 20<<20)) // thrown away, not stuck
		require.NoError(t, err)
		pingPong(t, a, c, "still writing")
	})
}

func TestCloseSendsWhatWasWritten(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{SendBuffer: 1 << 20})
		a, c := mixed(t, n)
		text := make([]byte, 4<<20)
		_, _ = rand.New(rand.NewSource(1)).Read(text)
		var got []byte
		done := make(chan error, 1)
		go func() {
			time.Sleep(20 * time.Millisecond)
			var err error
			got, err = io.ReadAll(c)
			done <- err
		}()
		_, err := a.Write(text)
		require.NoError(t, err)
		require.NoError(t, a.Close())
		require.NoError(t, wait(t, done))
		require.True(t, bytes.Equal(text, got))
	})
}

func TestCloseGivesUpAPeerThatTakesNothing(t *testing.T) {
	n := newNetwork(t, conf.RingEpoll, Config{SendBuffer: 16 << 20, CloseTimeout: 50 * time.Millisecond})
	a, c := mixed(t, n)
	_, err := a.Write(make([]byte, 16<<20))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	time.Sleep(100 * time.Millisecond)
	_, err = io.Copy(io.Discard, c)
	require.ErrorIs(t, err, unix.ECONNRESET)
}

func TestLingerZeroResets(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, c := mixed(t, n)
		require.NoError(t, a.SetLinger(0))
		require.NoError(t, a.Close())
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, unix.ECONNRESET)
	})
}

func TestCloseWakesEverybody(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		for range 20 {
			a, _ := mixed(t, n)
			ln := listen(t, n, "tcp")
			p, err := n.ListenPacket("udp", "127.0.0.1:0")
			require.NoError(t, err)
			results := make(chan error, 6)
			for range 2 {
				go func() { results <- second(a.Read(make([]byte, 1))) }()
				go func() {
					_, err := a.Write(make([]byte, 100<<20))
					results <- err
				}()
			}
			go func() { _, err := ln.Accept(); results <- err }()
			go func() { results <- second(p.Read(make([]byte, 1))) }()
			time.Sleep(time.Millisecond)
			require.NoError(t, errors.Join(a.Close(), ln.Close(), p.Close()))
			for range cap(results) {
				require.ErrorIs(t, wait(t, results), net.ErrClosed)
			}
		}
	})
}

func TestNetworkCloseWakesEverybody(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{Loops: 2})
		c, a := pair(t, n, "tcp")
		ln := listen(t, n, "tcp")
		p, err := n.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		results := make(chan error, 4)
		go func() { results <- second(a.Read(make([]byte, 1))) }()
		go func() { results <- second(c.Read(make([]byte, 1))) }()
		go func() { _, err := ln.Accept(); results <- err }()
		go func() { results <- second(p.Read(make([]byte, 1))) }()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, closeSoon(n))
		for range cap(results) {
			if err := wait(t, results); !errors.Is(err, io.EOF) { // one end may see the other's FIN first
				require.ErrorIs(t, err, net.ErrClosed)
			}
		}
		_, err = n.Dial("tcp", ln.Addr().String())
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = n.Listen("tcp", "127.0.0.1:0")
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = n.ListenPacket("udp", "127.0.0.1:0")
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, second(a.Read(make([]byte, 1))), net.ErrClosed)
		require.ErrorIs(t, a.SetNoDelay(true), net.ErrClosed)
		require.NoError(t, a.Close())
	})
}

// TestNetworkCloseWithUnreadData: what nobody reads any more must not keep buffers from returning to the pool.
func TestNetworkCloseWithUnreadData(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{LargeStream: true})
		c, a := pair(t, n, "tcp")
		_, err := c.Write(make([]byte, 60_000))
		require.NoError(t, err)
		_, err = a.Read(make([]byte, 10)) // the rest stays in hand
		require.NoError(t, err)
		_, err = c.Write(make([]byte, 60_000))
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, closeSoon(n))
	})
}

func TestCopy(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, large := range []bool{false, true} {
			var c Config
			if large {
				c.LargeStream = true
			}
			n := newNetwork(t, kind, c)
			text := make([]byte, 3<<20)
			_, _ = rand.New(rand.NewSource(2)).Read(text)
			in, middle := pair(t, n, "tcp")
			out, end := pair(t, n, "unix")
			errs := make(chan error, 3)
			go func() {
				k, err := io.Copy(struct{ io.Writer }{in}, bytes.NewReader(text)) // Write
				if err == nil && k != int64(len(text)) {
					err = errors.New("short")
				}
				errs <- errors.Join(err, in.CloseWrite())
			}()
			go func() {
				k, err := middle.WriteTo(out)
				if err == nil && k != int64(len(text)) {
					err = errors.New("short")
				}
				errs <- errors.Join(err, out.CloseWrite())
			}()
			var got bytes.Buffer
			go func() { _, err := io.Copy(&got, end); errs <- err }() // WriteTo
			for range cap(errs) {
				require.NoError(t, wait(t, errs))
			}
			require.True(t, bytes.Equal(text, got.Bytes()))
		}
	})
}

func TestReadFrom(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		c, a := pair(t, n, "tcp")
		text := strings.Repeat("0123456789", 300_000)
		go func() {
			_, _ = c.ReadFrom(io.MultiReader(&trickle{s: text[:5000]}, strings.NewReader(text[5000:])))
			_ = c.CloseWrite()
		}()
		got, err := io.ReadAll(a)
		require.NoError(t, err)
		require.True(t, text == string(got))
		_, err = a.ReadFrom(&trickle{err: errors.New("broken")})
		require.EqualError(t, err, "broken", "the reader's error is bare")
	})
}

// trickle gives a byte at a time, then its error.
type trickle struct {
	s   string
	err error
}

func (r *trickle) Read(b []byte) (int, error) {
	if r.s == "" {
		if r.err == nil {
			return 0, io.EOF
		}
		return 0, r.err
	}
	b[0] = r.s[0]
	r.s = r.s[1:]
	return 1, nil
}

func TestWriteToStopsAtTheWritersError(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{LargeStream: true})
		a, c := mixed(t, n)
		_, err := c.Write([]byte(strings.Repeat("x", 40_000)))
		require.NoError(t, err)
		broken := errors.New("broken")
		k, err := a.WriteTo(writerFunc(func(b []byte) (int, error) { return 3, broken }))
		require.ErrorIs(t, err, broken)
		require.EqualValues(t, 3, k)
		_, err = io.ReadFull(a, make([]byte, 40_000-3)) // nothing is lost
		require.NoError(t, err)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestWriteDeadlineTellsHowMuch(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, c := mixed(t, n)
		text := make([]byte, 32<<20)
		_, _ = rand.New(rand.NewSource(3)).Read(text)
		require.NoError(t, a.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		sent, err := a.Write(text)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Less(t, sent, len(text))
		require.Positive(t, sent)
		require.NoError(t, a.Close())
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text[:sent], got), "exactly what Write said: %d and %d", sent, len(got))
	})
}

func TestDeadlineRaces(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, c := mixed(t, n)
		text := make([]byte, 200_000)
		_, _ = rand.New(rand.NewSource(4)).Read(text)
		go func() {
			for at := 0; at < len(text); at += 100 {
				_, _ = c.Write(text[at : at+100])
			}
			_ = c.CloseWrite()
		}()
		var stop sync.WaitGroup
		quit := make(chan struct{})
		stop.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					_ = a.SetReadDeadline(time.Now().Add(time.Duration(rand.Intn(300)) * time.Microsecond))
				}
			}
		})
		var got []byte
		timeouts := 0
		buf := make([]byte, 300)
		for {
			k, err := a.Read(buf)
			got = append(got, buf[:k]...)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				require.Zero(t, k)
				timeouts++
				continue
			}
			if err != nil {
				require.Equal(t, io.EOF, err)
				break
			}
		}
		close(quit)
		stop.Wait()
		require.True(t, bytes.Equal(text, got), "no byte is lost to a deadline")
		t.Logf("%d time-outs", timeouts)
	})
}

func TestAbandonedDial(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		ln := listen(t, n, "tcp")
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
		for i := range 200 {
			ctx, cancel := contextAfter(time.Duration(i) * time.Microsecond)
			c, err := n.DialContext(ctx, "tcp", ln.Addr().String())
			cancel()
			if err == nil {
				require.NoError(t, c.Close())
			} else {
				require.ErrorIs(t, err, ctx.Err())
			}
		}
	})
}

func TestSocketOptions(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, _ := mixed(t, n)
		option := func(level, name int) (v int) {
			raw, err := a.SyscallConn()
			require.NoError(t, err)
			var e error
			require.NoError(t, raw.Control(func(fd uintptr) { v, e = unix.GetsockoptInt(int(fd), level, name) }))
			require.NoError(t, e)
			return v
		}
		require.Equal(t, 1, option(unix.IPPROTO_TCP, unix.TCP_NODELAY), "as package net")
		require.Equal(t, 1, option(unix.SOL_SOCKET, unix.SO_KEEPALIVE))
		require.Equal(t, 15, option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE))
		require.NoError(t, a.SetNoDelay(false))
		require.Equal(t, 0, option(unix.IPPROTO_TCP, unix.TCP_NODELAY))
		require.NoError(t, a.SetKeepAlivePeriod(1500*time.Millisecond))
		require.Equal(t, 2, option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL))
		require.NoError(t, a.SetKeepAlive(false))
		require.Equal(t, 0, option(unix.SOL_SOCKET, unix.SO_KEEPALIVE))
		require.NoError(t, a.SetReadBuffer(50_000))
		require.Equal(t, 100_000, option(unix.SOL_SOCKET, unix.SO_RCVBUF))
		require.NoError(t, a.SetWriteBuffer(50_000))
		require.Error(t, a.SetWriteBuffer(-1))
		raw, err := a.SyscallConn()
		require.NoError(t, err)
		require.ErrorIs(t, raw.Read(nil), unix.EINVAL)
		require.ErrorIs(t, raw.Write(func(uintptr) bool { return true }), errors.ErrUnsupported)
		require.ErrorIs(t, raw.Control(nil), unix.EINVAL)
		packetRaw, err := packets(t, n).SyscallConn()
		require.NoError(t, err)
		require.ErrorIs(t, packetRaw.Read(func(uintptr) bool { return true }), errors.ErrUnsupported)
		require.ErrorIs(t, packetRaw.Write(func(uintptr) bool { return true }), errors.ErrUnsupported)
		var _ syscall.Conn = a
		u, _ := pair(t, n, "unix")
		require.Error(t, u.SetNoDelay(true), "TCP's own")
	})
}

func TestBadConfig(t *testing.T) {
	e, err := xtreme.New(conf.Default())
	require.NoError(t, err)
	for name, c := range map[string]Config{"Loops -1": {Loops: -1}, "ReceiveBuffer -1": {ReceiveBuffer: -1},
		"SendBuffer -1": {SendBuffer: -1}, "AcceptQueue -1": {AcceptQueue: -1}, "Budget -1": {Budget: -1}, "CloseTimeout -1ns": {CloseTimeout: -1},
		"Pin [0 0]": {Pin: []int{0, 0}}, "Rest 9": {Rest: 9},
		"netconn: Config.Poller.Memory is for one loop": {Loops: 2, Poller: xtreme.PollerConfig{Memory: make([]byte, 8<<20), SmallBuffers: 64, LargeBuffers: 8}}} {
		_, err := New(e, c)
		require.ErrorIs(t, err, unix.EINVAL, name)
		require.ErrorContains(t, err, name)
	}
	_, err = New(nil, Config{})
	require.ErrorContains(t, err, "engine nil")
	_, err = New(e, Config{Poller: xtreme.PollerConfig{SmallBuffers: 1}})
	require.ErrorContains(t, err, "SmallBuffers 1")
	require.NoError(t, e.Close(), "nothing is left open")
}

// TestAutoIsEpoll: goroutines beside a loop that is bound to a thread pay for a thread's wake-up at each change, so a Network takes the ring
// that is not, unless one is asked for.
func TestAutoIsEpoll(t *testing.T) {
	needKind(t, conf.RingUring)
	for _, c := range []struct {
		setting conf.RingKind
		asked   conf.RingKind
		want    conf.RingKind
	}{
		{conf.RingAuto, "", conf.RingEpoll},
		{conf.RingUring, "", conf.RingUring},
		{conf.RingEpoll, "", conf.RingEpoll},
		{conf.RingAuto, conf.RingUring, conf.RingUring},
		{conf.RingUring, conf.RingEpoll, conf.RingEpoll},
	} {
		n := newNetwork(t, c.setting, Config{Poller: xtreme.PollerConfig{RingKind: c.asked}})
		path := listen(t, n, "tcp").Path()
		require.EqualValues(t, c.want, path.Kind, "setting %s, asked for %q: %v", c.setting, c.asked, path)
	}
}

// CloseRead beside a reader that has data in hand: what it has not read is dropped, and the next Read is at the end.
func TestCloseReadDropsWhatAReaderHasInHand(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		a, c := mixed(t, newNetwork(t, kind, Config{}))
		_, err := c.Write(make([]byte, 64<<10))
		require.NoError(t, err)
		_, err = io.ReadFull(a, make([]byte, 1))
		require.NoError(t, err)
		inside, went := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := a.WriteTo(writerFunc(func([]byte) (int, error) {
				close(inside)
				<-went
				return 0, io.ErrClosedPipe
			}))
			ended <- err
		}()
		<-inside // WriteTo has the turn, and data in hand
		require.NoError(t, a.CloseRead())
		close(went)
		require.ErrorIs(t, wait(t, ended), io.ErrClosedPipe)
		require.NoError(t, a.acquireTurn())
		require.Empty(t, a.inHand)
		a.unlockTurn()
		n, err := a.Read(make([]byte, 10))
		require.Zero(t, n)
		require.Equal(t, io.EOF, err)
	})
}
