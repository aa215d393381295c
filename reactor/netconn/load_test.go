package netconn

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestThousandConnections(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, loops := range []int{1, 2} {
			n := newNetwork(t, kind, Config{Loops: loops})
			ln := listen(t, n, "tcp")
			go serveEcho(ln)
			var all sync.WaitGroup
			conns := make([]net.Conn, 1000)
			for part := range 10 {
				all.Go(func() {
					for i := part * 100; i < part*100+100; i++ {
						c, err := n.Dial("tcp", ln.Addr().String())
						if !noError(t, err) {
							return
						}
						conns[i] = c
					}
				})
			}
			all.Wait()
			require.False(t, t.Failed())
			for range 3 {
				for i, c := range conns {
					_, err := c.Write([]byte{byte(i), byte(i >> 8)})
					require.NoError(t, err)
				}
				for i, c := range conns {
					var b [2]byte
					require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
					_, err := io.ReadFull(c, b[:])
					require.NoError(t, err)
					require.Equal(t, [2]byte{byte(i), byte(i >> 8)}, b)
				}
			}
			for _, c := range conns {
				require.NoError(t, c.Close())
			}
			require.NoError(t, ln.Close())
		}
	})
}

// TestSlowReadersKeepMemoryFlat: two hundred connections that nobody reads, whose peers send all they can, stop at their
// limit, and others are served as if they were not there.
func TestSlowReadersKeepMemoryFlat(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, large := range []bool{false, true} {
			c := Config{ReceiveBuffer: 16 << 10}
			if large {
				c.LargeStream = true
			}
			n := newNetwork(t, kind, c)
			ln := listen(t, n, "tcp")
			const slow = 200
			quit := make(chan struct{})
			var all sync.WaitGroup
			var peers, ours []net.Conn
			for range slow {
				p, err := net.Dial("tcp", ln.Addr().String())
				require.NoError(t, err)
				a, err := ln.AcceptConn()
				require.NoError(t, err)
				peers, ours = append(peers, p), append(ours, a)
			}
			for _, p := range peers {
				all.Go(func() {
					b := make([]byte, 8<<10)
					for {
						if _, err := p.Write(b); err != nil {
							return
						}
						select {
						case <-quit:
							return
						default:
						}
					}
				})
			}
			waiting := func() (sum int) {
				for _, a := range ours {
					a := a.(*Conn)
					a.mu.Lock()
					sum += a.in.queued
					a.mu.Unlock()
				}
				return sum
			}
			before := 0
			eventually(t, "all of them stop", func() bool {
				was := before
				before = waiting()
				time.Sleep(100 * time.Millisecond)
				return before > slow*4<<10 && was == before
			})
			require.Less(t, before, slow*2<<20) // the limit, and what io_uring had received before it was told
			fast, peer := mixed(t, n)
			for range 200 {
				pingPong(t, peer, fast, "hello")
				pingPong(t, fast, peer, "hello yourself")
			}
			close(quit)
			for i := range ours { // and they go on when somebody reads
				k, err := io.CopyN(io.Discard, ours[i], 100<<10)
				require.NoError(t, err)
				require.EqualValues(t, 100<<10, k)
				_ = ours[i].Close()
				_ = peers[i].Close()
			}
			all.Wait()
		}
	})
}

// TestNothingLeaks: goroutines, descriptors and buffers are as before when networks have come and gone.
func TestNothingLeaks(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		count := func() int {
			entries, err := os.ReadDir("/proc/self/fd")
			require.NoError(t, err)
			return len(entries)
		}
		once := func() {
			s := conf.Default()
			s.Ring = kind
			e, err := xtreme.New(s)
			require.NoError(t, err)
			n, err := New(e, Config{Loops: 2, Logger: quietLog()})
			require.NoError(t, err)
			ln, err := n.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			for i := range 20 {
				c, err := n.Dial("tcp", ln.Addr().String())
				require.NoError(t, err)
				require.NoError(t, c.SetDeadline(time.Now().Add(time.Hour)))
				a, err := ln.Accept()
				require.NoError(t, err)
				pingPong(t, c, a, "hello")
				go func() { _, _ = a.Read(make([]byte, 1)) }()
				if i%2 == 0 {
					require.NoError(t, c.Close())
					require.NoError(t, a.Close())
				}
			}
			p, err := n.ListenPacket("udp", "127.0.0.1:0")
			require.NoError(t, err)
			_, err = p.WriteTo([]byte("unread"), p.LocalAddr())
			require.NoError(t, err)
			require.NoError(t, closeSoon(n))
			require.NoError(t, e.Close())
		}
		once()
		goroutines, descriptors := runtime.NumGoroutine(), count()
		for range 5 {
			once()
		}
		eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
		eventually(t, "descriptors are closed", func() bool { return count() <= descriptors })
	})
}

func TestAcceptDeadline(t *testing.T) {
	n := newNetwork(t, conf.RingEpoll, Config{})
	ln := listen(t, n, "tcp")
	require.NoError(t, ln.SetDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := ln.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, ln.SetDeadline(time.Time{}))
	_, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	_, err = ln.Accept()
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	require.ErrorIs(t, ln.Close(), net.ErrClosed)
	require.ErrorIs(t, ln.SetDeadline(time.Now()), net.ErrClosed)
}

// TestAcceptQueueIsBounded: connections beyond the queue wait in the kernel's, and come later.
func TestAcceptQueueIsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, loops := range []int{1, 2} {
			n := newNetwork(t, kind, Config{AcceptQueue: 4, Loops: loops})
			ln := listen(t, n, "tcp")
			for range 50 {
				c, err := net.Dial("tcp", ln.Addr().String())
				require.NoError(t, err)
				defer func() { _ = c.Close() }()
			}
			time.Sleep(20 * time.Millisecond)
			for range 50 {
				require.NoError(t, ln.SetDeadline(time.Now().Add(patience)))
				c, err := ln.Accept()
				require.NoError(t, err)
				require.NoError(t, c.Close())
			}
			require.NoError(t, ln.Close())
		}
	})
}

// TestUnacceptedConnectionsAreReset when the listener is closed.
func TestUnacceptedConnectionsAreReset(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		ln := listen(t, n, "tcp")
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, ln.Close())
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, unix.ECONNRESET)
	})
}

func TestSpinningLoops(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{Loops: 2, Rest: reactor.Spin})
		c, a := pair(t, n, "tcp")
		for range 100 {
			pingPong(t, c, a, "there")
			pingPong(t, a, c, "and back")
		}
	})
}

const reexec = "NETCONN_TEST_DESCRIPTOR_LIMIT"

// TestDescriptorLimit: at the limit the listener waits and serves on. It needs a process of its own for each ring.
func TestDescriptorLimit(t *testing.T) {
	if kind := os.Getenv(reexec); kind != "" {
		descriptorLimit(t, conf.RingKind(kind))
		return
	}
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptorLimit$", "-test.v", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), reexec+"="+string(kind))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestDescriptorLimit")
	})
}

func descriptorLimit(t *testing.T, kind conf.RingKind) {
	n := newNetwork(t, kind, Config{})
	const clients = 40
	sockets := make([]int, clients)
	for i := range sockets {
		var err error
		sockets[i], err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		require.NoError(t, err)
	}
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = uint64(sockets[clients-1] + 12)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low)) // before the listener: an armed accept keeps the limit it knew
	ln := listen(t, n, "tcp")
	var accepted []net.Conn
	var mu sync.Mutex
	failed := make(chan error, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				failed <- err
				return
			}
			mu.Lock()
			accepted = append(accepted, c)
			mu.Unlock()
		}
	}()
	to := ln.Addr().(*net.TCPAddr)
	for _, fd := range sockets {
		require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}))
	}
	have := func() []net.Conn { mu.Lock(); defer mu.Unlock(); return accepted }
	eventually(t, "some are accepted", func() bool { return len(have()) >= 5 })
	time.Sleep(50 * time.Millisecond)
	require.Less(t, len(have()), clients, "the others have no descriptor yet")
	for i := range clients { // each that is served and closed makes room for another
		eventually(t, "the others are accepted", func() bool { return len(have()) > i })
		c := have()[i]
		_, err := c.Write([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	for _, fd := range sockets {
		b := make([]byte, 10)
		k, err := unix.Read(fd, b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b[:k]))
		require.NoError(t, unix.Close(fd))
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	require.NoError(t, ln.Close())
	require.True(t, errors.Is(wait(t, failed), net.ErrClosed))
}
