package flowrecord

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/transport/repair"
)

const connections = 1000

// A process with a thousand connections, whose peers are a kernel and idle, is killed. Each peer is reset: whether the record has the number
// that the peer expects, an older one, or one of segments that were lost. (The kernel resets a peer that answers, too: it knows nothing of these
// connections. But no peer says anything until it is asked.)
func TestKilled(t *testing.T) {
	if dir := os.Getenv("FLOWRECORD_TEST_VICTIM"); dir != "" {
		victim(t, dir)
	}
	for _, test := range []struct {
		name  string
		reset func(c Config) Result
	}{
		{"the next start", func(c Config) Result {
			results, err := ResetDead(context.Background(), c)
			require.NoError(t, err)
			require.Len(t, results, 1)
			return results[0]
		}},
		{"a helper", func(c Config) Result {
			ctx, stop := context.WithTimeout(context.Background(), testnet.Slow(time.Minute))
			defer stop()
			var one Result
			err := Watch(ctx, c, func(r Result, err error) {
				require.NoError(t, err)
				one = r
				stop()
			})
			require.ErrorIs(t, err, context.Canceled)
			return one
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := testnet.New(t, testnet.Pair{})
			c := Config{Dir: t.TempDir()}
			var listener *net.TCPListener
			n.InPeer(func() {
				// Without keepalive: after fifteen seconds its probes would find that the kernel does not know the connections.
				l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(t.Context(), "tcp4", "10.0.0.2:5000")
				require.NoError(t, err)
				listener = l.(*net.TCPListener)
			})
			defer func() { _ = listener.Close() }()
			process := exec.Command(os.Args[0], "-test.run=^TestKilled$")
			process.Env = append(os.Environ(), "FLOWRECORD_TEST_VICTIM="+c.Dir)
			out, err := process.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, process.Start())
			require.NoError(t, listener.SetDeadline(time.Now().Add(testnet.Slow(time.Minute))))
			var peers []*net.TCPConn
			for range connections {
				p, err := listener.AcceptTCP()
				require.NoError(t, err)
				defer func() { _ = p.Close() }()
				peers = append(peers, p)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ready\n", line)
			results, err := ResetDead(context.Background(), c)
			require.NoError(t, err)
			require.Empty(t, results, "the process lives")
			for _, p := range peers {
				require.NoError(t, p.SetReadDeadline(time.Now().Add(time.Microsecond)))
				_, err := p.Read(make([]byte, 1))
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}
			require.NoError(t, process.Process.Kill())
			require.Error(t, process.Wait())
			start := time.Now()
			one := test.reset(c)
			took := time.Since(start)
			require.Equal(t, Result{File: one.File, Process: process.Process.Pid, Flows: connections, Reset: connections}, one)
			for i, p := range peers {
				require.NoError(t, p.SetReadDeadline(time.Now().Add(testnet.Slow(time.Minute))))
				_, err := p.Read(make([]byte, 1))
				require.ErrorIs(t, err, unix.ECONNRESET, "connection %d", i)
			}
			t.Logf("%d peers reset in %v", one.Reset, took)
			entries, err := os.ReadDir(c.Dir)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// victim has connections of which the kernel knows nothing, as a ring has: they are taken out of the kernel.
func victim(t *testing.T, dir string) {
	r, err := Create(Config{Dir: dir})
	require.NoError(t, err)
	for i := range connections {
		c, err := net.Dial("tcp4", "10.0.0.2:5000")
		require.NoError(t, err)
		raw, err := c.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		var frozen *repair.Frozen
		require.NoError(t, errors.Join(raw.Control(func(fd uintptr) {
			var own int
			if own, err = unix.Dup(int(fd)); err == nil {
				frozen, err = repair.Freeze(own)
			}
		}), err))
		s := &frozen.State
		next := uint32(s.SendNext)
		switch i % 3 {
		case 1:
			next -= 5000 + uint32(i)<<18 // it was not updated since, for up to 250 MB
		case 2:
			next += uint32(i) // segments were lost
		}
		_, err = r.Add(s.Local.AddrPort(), s.Remote.AddrPort(), next)
		require.NoError(t, err)
		require.NoError(t, c.Close()) // in repair mode: nothing is sent
		require.NoError(t, frozen.Close())
	}
	fmt.Println("ready")
	time.Sleep(testnet.Slow(5 * time.Minute))
	t.Fatal("nobody killed process " + strconv.Itoa(os.Getpid()))
}

// Where a peer does not answer, that is told, in time.
func TestUnanswered(t *testing.T) {
	testnet.New(t, testnet.Pair{})
	c := Config{Dir: t.TempDir()}
	r, err := Create(c)
	require.NoError(t, err)
	for i := range uint16(10) {
		remote := ap("10.0.0.99:1") // nobody has this address
		if i%2 == 0 {
			remote = ap("192.0.2.1:1") // there is no route
		}
		_, err = r.Add(ap("10.0.0.1:80"), remote, uint32(i))
		require.NoError(t, err)
	}
	require.NoError(t, unix.Munmap(r.bytes)) // as if the process had ended: descriptor and mapping hold the lock
	require.NoError(t, r.file.Close())
	start := time.Now()
	results, err := ResetDead(context.Background(), c)
	require.NoError(t, err)
	require.Len(t, results, 1)
	require.Equal(t, []int{2, 0, 2}, []int{results[0].Flows, results[0].Reset, results[0].Unanswered})
	require.GreaterOrEqual(t, time.Since(start), most)
	entries, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
