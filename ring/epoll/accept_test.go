package epoll

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// An AcceptTo that ends its goroutine ends the Poll it runs in: the packets that this Poll had delivered go back to the pool.
func TestAcceptToEndsItsGoroutine(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	called, returned := false, false
	l := w.listen(ring.Config{AcceptTo: func(int, netip.AddrPort) bool {
		called = true
		runtime.Goexit()
		return false
	}})
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.LocalAddr()))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.Write([]byte("x")) // ready before the listener is, so it is delivered first
	require.NoError(t, err)
	dial(t, l.LocalAddr())
	closed := make(chan error, 1)
	go func() {
		defer func() { closed <- w.set.Close() }()
		_, _ = w.ring().Poll(make([]ring.Completion, 8))
		returned = true
	}()
	require.ErrorContains(t, <-closed, "Goexit") // closing drains by Poll, which tells
	require.True(t, called)
	require.False(t, returned)
	ledger := w.pool.Ledger()
	require.Equal(t, ledger.Total, ledger.Free, "%v", ledger)
}

const reexec = "EPOLL_TEST_DESCRIPTOR_LIMIT"

// TestDescriptorLimit runs out of descriptors, which needs a process of its own.
func TestDescriptorLimit(t *testing.T) {
	if os.Getenv(reexec) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptorLimit$", "-test.v", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), reexec+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestDescriptorLimit")
		return
	}
	w := newWorld(t)
	l := w.listen(ring.Config{})
	w.poll(1)
	first, _ := w.accept(l)

	peers := make([]*net.TCPConn, 0, 8)
	for range 8 {
		peers = append(peers, dial(t, l.LocalAddr()))
	}
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = 3 // below what is open: nothing more can be
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	w.quiet(nil, ring.EventNewConnection)
	failures := l.Stats().AcceptFailures
	require.Positive(t, failures)
	require.Less(t, failures, uint64(20), "the listener backs off")

	// No spinning on a backlog that cannot be taken: the ring sleeps until the listener's timer.
	slept := 0
	for range 5 {
		start := time.Now()
		require.NoError(t, w.ring().Wait(time.Second))
		if time.Since(start) > time.Millisecond {
			slept++
		}
		w.poll(4)
	}
	require.Positive(t, slept)

	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	seen := map[string]bool{}
	for range peers {
		seen[w.next(nil, ring.EventNewConnection).Source.String()] = true
	}
	for _, p := range peers {
		require.True(t, seen[p.LocalAddr().String()])
	}
	w.close(first)
	extra, _ := w.accept(l)
	w.close(extra)
}

func TestAcceptedDescriptorsAreNonBlockingAndClosedOnExec(t *testing.T) {
	w := newWorld(t)
	s, _ := w.connected(ring.Config{})
	flags, err := unix.FcntlInt(uintptr(s.ID()), unix.F_GETFL, 0)
	require.NoError(t, err)
	require.NotZero(t, flags&unix.O_NONBLOCK)
	flags, err = unix.FcntlInt(uintptr(s.ID()), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.NotZero(t, flags&unix.FD_CLOEXEC)
}

// TestConnectionResetInTheBacklog: a connection that was reset before it was accepted is delivered and then fails, or never shows.
// Either way the listener goes on.
func TestConnectionResetInTheBacklog(t *testing.T) {
	w := newWorld(t)
	l := w.listen(ring.Config{})
	for range 5 {
		reset(t, dial(t, l.LocalAddr()))
	}
	last := dial(t, l.LocalAddr())
	for {
		c := w.next(nil, ring.EventNewConnection)
		if c.Source == last.LocalAddr().(*net.TCPAddr).AddrPort() {
			return
		}
	}
}
