package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// asProgram makes the test binary the proxy: its memory is to be looked at.
const asProgram = "PROXY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const patience = 60 * time.Second

// started is a proxy process to a backend of the test's.
type started struct {
	cmd     *exec.Cmd
	addr    string
	backend *net.TCPListener
}

func start(t *testing.T, kind conf.RingKind) *started {
	t.Helper()
	backend, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = backend.Close() })
	require.NoError(t, backend.SetDeadline(time.Now().Add(patience)))
	cmd := exec.Command("/proc/self/exe", "-listen", "127.0.0.1:0", "-to", backend.Addr().String(), "-ring", string(kind))
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
		require.NoError(t, cmd.Wait(), "the proxy ends in good order")
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return &started{cmd, strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), backend}
}

// pair is a connection through the proxy, both ends.
func (p *started) pair(t *testing.T) (client, backend *net.TCPConn) {
	t.Helper()
	c, err := net.Dial("tcp4", p.addr)
	require.NoError(t, err)
	b, err := p.backend.AcceptTCP()
	require.NoError(t, err)
	for _, c := range []net.Conn{c, b} {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		t.Cleanup(func() { _ = c.Close() })
	}
	return c.(*net.TCPConn), b
}

// memory is the process's resident memory.
func (p *started) memory(t *testing.T) (bytes int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &bytes); n == 1 {
			return bytes << 10
		}
	}
	require.Fail(t, "no VmRSS")
	return 0
}

const piece = 256 << 10

// produce writes n bytes that are nowhere alike, and tells their checksum.
func produce(w io.Writer, n int) (sum [32]byte, err error) {
	h := sha256.New()
	b := make([]byte, piece)
	for at := 0; at < n; at += piece {
		for i := 0; i < piece; i += 8 {
			binary.BigEndian.PutUint64(b[i:], uint64(at+i)*0x9e3779b97f4a7c15)
		}
		h.Write(b)
		if _, err := w.Write(b); err != nil {
			return sum, fmt.Errorf("after %d bytes: %w", at, err)
		}
	}
	return [32]byte(h.Sum(nil)), nil
}

// consume reads to the end, slowly: it pauses after each 4 MiB, and calls look then.
func consume(r io.Reader, look func()) (n int, sum [32]byte, err error) {
	var h hash.Hash = sha256.New()
	b := make([]byte, piece)
	for next := 0; ; {
		k, err := r.Read(b)
		h.Write(b[:k])
		if n += k; n >= next {
			time.Sleep(20 * time.Millisecond)
			look()
			next += 4 << 20
		}
		if err == io.EOF {
			return n, [32]byte(h.Sum(nil)), nil
		}
		if err != nil {
			return n, sum, err
		}
	}
}

func onEach(t *testing.T, f func(t *testing.T, p *started)) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) { f(t, start(t, kind)) })
	}
}

const (
	much       = 200 << 20
	mostMemory = 96 << 20 // of the process: the loop's buffers are 27 MB of it, and the race detector needs some
)

// 200 MiB to a backend that reads slowly, and 200 MiB from it to a client that does, arrive whole, and the proxy's memory stays bounded.
func TestSlowSideGetsEverything(t *testing.T) {
	onEach(t, func(t *testing.T, p *started) {
		for _, upload := range []bool{true, false} {
			from, to := p.pair(t)
			if !upload {
				from, to = to, from
			}
			type result struct {
				sum [32]byte
				err error
			}
			sent := make(chan result, 1)
			go func() {
				sum, err := produce(from, much)
				_ = from.Close()
				sent <- result{sum, err}
			}()
			most := 0
			n, sum, err := consume(to, func() { most = max(most, p.memory(t)) })
			require.NoError(t, err, "after %d bytes", n)
			require.Equal(t, much, n)
			s := <-sent
			require.NoError(t, s.err)
			require.Equal(t, s.sum, sum)
			t.Logf("upload %v: most memory %d KiB", upload, most>>10)
			require.Less(t, most, mostMemory)
		}
	})
}

// A backend that echoes blocks while nobody reads its answers, and then takes nothing more: the proxy must go on reading from it
// although much waits for it.
func TestEchoThroughTheProxy(t *testing.T) {
	onEach(t, func(t *testing.T, p *started) {
		const n = 64 << 20
		client, backend := p.pair(t)
		go func() { _, _ = io.Copy(backend, backend) }()
		sent := make(chan [32]byte, 1)
		go func() {
			sum, _ := produce(client, n) // an error shows in what comes back
			sent <- sum
		}()
		time.Sleep(100 * time.Millisecond) // everything is full
		h := sha256.New()
		_, err := io.CopyN(h, client, n)
		require.NoError(t, err)
		require.Equal(t, <-sent, [32]byte(h.Sum(nil)))
		require.Less(t, p.memory(t), mostMemory)
	})
}

// How one side ends is how the other one sees it end; a backend that is not there closes the client; nothing is left.
func TestEnds(t *testing.T) {
	onEach(t, func(t *testing.T, p *started) {
		for _, reset := range []bool{true, false} {
			client, backend := p.pair(t)
			_, err := backend.Write([]byte("hello"))
			require.NoError(t, err)
			_, err = io.ReadFull(client, make([]byte, 5))
			require.NoError(t, err)
			if reset {
				require.NoError(t, backend.SetLinger(0))
			}
			require.NoError(t, backend.Close())
			_, err = client.Read(make([]byte, 1))
			if reset {
				require.ErrorIs(t, err, unix.ECONNRESET)
			} else {
				require.ErrorIs(t, err, io.EOF)
			}
			require.NoError(t, client.Close())
		}
		testnet.EndEarly(t, p.addr, "hello", 25)
		require.NoError(t, p.backend.Close()) // with the connections that wait there
		c, err := net.Dial("tcp4", p.addr)
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.False(t, os.IsTimeout(err), "%v", err)
		require.NoError(t, c.Close())
		testnet.AllClosed(t, p.addr)
	})
}

func TestCommandLine(t *testing.T) {
	c, err := parse([]string{"-listen", "[::1]:7", "-to", "127.0.0.1:80", "-ring", "epoll", "-loops", "2"})
	require.NoError(t, err)
	require.Equal(t, config{netip.MustParseAddrPort("[::1]:7"), netip.MustParseAddrPort("127.0.0.1:80"), conf.RingEpoll, 2}, c)
	for want, args := range map[string][]string{
		`-listen "x"`:  {"-listen", "x", "-to", "127.0.0.1:80"},
		`-to ""`:       {},
		`-ring:`:       {"-to", "127.0.0.1:80", "-ring", "x"},
		`-loops 0`:     {"-to", "127.0.0.1:80", "-loops", "0"},
		`argument "x"`: {"x"},
	} {
		_, err := parse(args)
		require.ErrorContains(t, err, want)
	}
}

// The proxy ends when its context does.
func TestStop(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	c := config{listen: netip.MustParseAddrPort("127.0.0.1:0"), to: netip.MustParseAddrPort("127.0.0.1:1"), ring: conf.RingEpoll, loops: 2}
	require.NoError(t, run(ctx, c, func(netip.AddrPort) { stop() }))
}
