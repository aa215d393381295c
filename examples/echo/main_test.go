package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// asProgram makes the test binary be the program: each user who may run the tests may then start it, without a compiler at hand, and the
// race detector watches it too.
const asProgram = "ECHO_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	// Under the race detector each process would sleep for a second before it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// onEach runs a test on every kind of ring that works here; the skip of one that does not says why.
func onEach(t *testing.T, test func(t *testing.T, kind conf.RingKind)) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) {
			s := conf.Default()
			s.Ring = kind
			e, err := xtreme.New(s)
			require.NoError(t, err)
			err = e.Start()
			if errors.Is(err, xtreme.ErrNotSupported) {
				testnet.Missing(t, string(kind), err)
			}
			require.NoError(t, err)
			test(t, kind)
		})
	}
}

// program is the echo program as a process.
func program(ctx context.Context, self string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func ownBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return self
}

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	addr string
	out  *bytes.Buffer // what it printed; complete after wait
	done chan struct{} // its output ended
}

// start starts a server on a free port and waits until it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	cmd := program(ctx, ownBinary(t), append([]string{"-listen", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p := &process{cmd: cmd, out: &bytes.Buffer{}, done: make(chan struct{})}
	cmd.Stderr = p.out
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	p.addr = strings.TrimSpace(strings.TrimPrefix(first, "listening on "))
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		close(p.done)
	}()
	return p
}

// terminate sends SIGTERM; the process must end by itself, with code 0, within the limit.
func (p *process) terminate(t *testing.T, limit time.Duration) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.ends(t, limit)
}

func (p *process) ends(t *testing.T, limit time.Duration) {
	t.Helper()
	begin := time.Now()
	<-p.done
	err := p.cmd.Wait()
	require.NoError(t, err, "%s", p.out)
	require.Less(t, time.Since(begin), limit)
}

// memory is the process's resident memory in bytes.
func (p *process) memory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	require.Fail(t, "no VmRSS")
	return 0
}

// serving runs the server inside the test, until the test ends; then it must end without an error, which means with every buffer
// home.
func serving(t *testing.T, kind conf.RingKind, change ...func(*config)) netip.AddrPort {
	t.Helper()
	c := config{listen: netip.MustParseAddrPort("127.0.0.1:0"), tcp: true, udp: true, ring: kind, reactors: 1, rest: "adaptive", reply: "echo"}
	for _, f := range change {
		f(&c)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, result := make(chan netip.AddrPort, 1), make(chan error, 1)
	go func() { result <- run(ctx, c, func(s *server) { ready <- s.addr }) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-result:
			require.NoError(t, err)
		case <-time.After(patience):
			require.Fail(t, "the server did not end")
		}
	})
	select {
	case a := <-ready:
		return a
	case err := <-result:
		result <- err
		require.FailNow(t, "the server did not start", "%v", err)
	}
	return netip.AddrPort{}
}

func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience))) // no test may hang
	return c
}

func TestFlagErrorsNameFlagAndValue(t *testing.T) {
	for _, c := range []struct {
		args string
		say  []string
	}{
		{"-listen localhost:5001", []string{"-listen", "localhost:5001", "want an IP address and a port"}},
		{"-listen 127.0.0.1", []string{"-listen", "127.0.0.1"}},
		{"-listen 127.0.0.1:70000", []string{"-listen", "127.0.0.1:70000"}},
		{"-proto sctp", []string{"-proto", "sctp", "tcp,udp"}},
		{"-proto tcp,", []string{"-proto", "tcp,"}},
		{"-ring dpdk", []string{"-ring", "dpdk", "auto, uring, epoll or offload"}},
		{"-reactors 0", []string{"-reactors", "0", "1 to 1024"}},
		{"-reactors -1", []string{"-reactors", "-1"}},
		{"-reactors 1025", []string{"-reactors", "1025"}},
		{"-reactors many", []string{"-reactors", "many"}},
		{"-rest sleep", []string{"-rest", "sleep", "spin, adaptive or wait"}},
		{"-reply pong", []string{"-reply", "pong", "echo or sockperf"}},
		{"-probe -1s", []string{"-probe", "-1s"}},
		{"-probe soon", []string{"-probe", "soon"}},
		{"-client", []string{"-client", "-probe"}},
		{"-nosuch", []string{"-nosuch"}},
		{"serve", []string{"serve", "only flags"}},
	} {
		out, err := program(t.Context(), ownBinary(t), strings.Fields(c.args)...).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, c.args)
		require.Equal(t, 2, exit.ExitCode(), "%s: %s", c.args, out)
		for _, part := range c.say {
			require.Contains(t, string(out), part, c.args)
		}
	}
}

func TestHelp(t *testing.T) {
	out, err := program(t.Context(), ownBinary(t), "-h").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, flag := range []string{"-listen", "-proto", "-ring", "-reactors", "-rest", "-reply", "-probe"} {
		require.Contains(t, string(out), flag)
	}
}

// An address that cannot be had is an error that names it, with code 1.
func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	out, err := program(t.Context(), ownBinary(t), "-listen", l.Addr().String(), "-reactors", "1").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, string(out), l.Addr().String())
	require.Contains(t, string(out), syscall.EADDRINUSE.Error())
}

// SIGTERM in mid-traffic: whatever the clients do, the server ends soon, in good order, with every buffer back in the pool.
func TestTerminatedInMidTraffic(t *testing.T) {
	for _, args := range []string{"-reactors 1 -rest spin", "-reactors 2 -rest adaptive", "-reactors 2 -rest wait"} {
		t.Run(args, func(t *testing.T) {
			onEach(t, func(t *testing.T, kind conf.RingKind) {
				p := start(t, append(strings.Fields(args), "-ring", string(kind))...)
				stop := make(chan struct{})
				var clients sync.WaitGroup
				for range 4 {
					pusher(t, &clients, dial(t, "tcp", p.addr), stop, true)
				}
				pusher(t, &clients, dial(t, "tcp", p.addr), stop, false) // never reads
				for range 2 {
					pusher(t, &clients, dial(t, "udp", p.addr), stop, true)
				}
				idle := dial(t, "tcp", p.addr)
				time.Sleep(200 * time.Millisecond)
				p.terminate(t, 5*time.Second)
				_, err := idle.Read(make([]byte, 1))
				require.Error(t, err, "its connection is closed")
				close(stop)
				clients.Wait()
			})
		})
	}
}

// What had arrived when the signal came is answered in full, and then the connection ends in good order.
func TestTerminatedWithRequestsWaiting(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, reactors := range []string{"1", "2"} {
			p := start(t, "-ring", string(kind), "-reactors", reactors, "-rest", "wait")
			want := make([]byte, 40_000)
			number(want, 1)
			var conns []net.Conn
			for range 6 {
				c := dial(t, "tcp", p.addr)
				_, err := c.Write([]byte("x"))
				require.NoError(t, err)
				_, err = io.ReadFull(c, make([]byte, 1)) // it is accepted
				require.NoError(t, err)
				conns = append(conns, c)
			}
			for _, c := range conns {
				_, err := c.Write(want) // into the queues of the kernel, over loopback: it has arrived when Write returns
				require.NoError(t, err)
			}
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
			for i, c := range conns {
				got, err := io.ReadAll(c)
				require.NoError(t, err, "connection %d, %d bytes", i, len(got))
				require.True(t, bytes.Equal(want, got), "connection %d: %d bytes", i, len(got))
			}
			p.ends(t, 5*time.Second)
		}
	})
}

// pusher writes as fast as it can, until the connection ends or the test says stop.
func pusher(t *testing.T, wg *sync.WaitGroup, c net.Conn, stop chan struct{}, reads bool) {
	t.Helper()
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	_, stream := c.(*net.TCPConn)
	wg.Go(func() {
		b := make([]byte, 1200)
		for !over() {
			if _, err := c.Write(b); err != nil && stream {
				return
			}
		}
	})
	if !reads {
		go func() { <-stop; _ = c.Close() }()
		return
	}
	wg.Go(func() {
		b := make([]byte, 64<<10)
		for !over() {
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := c.Read(b); err != nil && stream && !errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
		}
		_ = c.Close()
	})
}

func TestProbe(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []string{"spin", "adaptive", "wait"} {
			probes(t, program(t.Context(), ownBinary(t), "-probe", "300ms", "-ring", string(kind), "-rest", rest), string(kind))
		}
	})
}

func TestProbeOneProtocol(t *testing.T) {
	for proto, other := range map[string]string{"tcp": "UDP", "udp": "TCP"} {
		out, err := program(t.Context(), ownBinary(t), "-probe", "300ms", "-proto", proto, "-reply", "sockperf").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), strings.ToUpper(proto)+" round trip: ")
		require.NotContains(t, string(out), other)
	}
}

// An ordinary user can do the same. As root the test gives up its rights for the program.
func TestProbeUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("run by an ordinary user all tests are this one")
	}
	dir, err := os.MkdirTemp("", "echo") // t.TempDir lies below a folder that only root can enter
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	require.NoError(t, os.Chmod(dir, 0o755))
	b, err := os.ReadFile(ownBinary(t))
	require.NoError(t, err)
	self := filepath.Join(dir, "echo")
	require.NoError(t, os.WriteFile(self, b, 0o755))
	cmd := program(t.Context(), self, "-probe", "300ms")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	probes(t, cmd, "")
}

// probes runs -probe and looks at what it prints.
func probes(t *testing.T, cmd *exec.Cmd, kind string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{
		`serving on 127\.0\.0\.1:\d+`, `TCP listener: kernel ` + kind, `UDP: kernel ` + kind, `\[offload\.not_asked\]`,
		`client: another process`,
		`TCP round trip: \d+ answers, 0 lost; p50 \d+\.\d µs, p90 \d+\.\d, p99 \d+\.\d, p99\.9 \d+\.\d, max \d+\.\d`,
		`UDP round trip: \d+ answers, \d+ lost; p50 \d+\.\d µs`,
	} {
		require.Regexp(t, want, string(out))
	}
}

// Without the flag the environment's kind of ring is used.
func TestRingOfTheEnvironment(t *testing.T) {
	t.Setenv("SX_RING", "epoll")
	c, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, conf.RingEpoll, c.ring)
}
