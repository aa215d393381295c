package gnet_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// streamServer echoes, and gives away its engine and the first connection.
type streamServer struct {
	gnet.BuiltinEventEngine
	engine chan gnet.Engine
	conns  chan gnet.Conn
	tiers  chan string
	closed chan error
}

func (h *streamServer) OnBoot(e gnet.Engine) gnet.Action { h.engine <- e; return gnet.None }

func (h *streamServer) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	h.tiers <- c.(gnet.ConnX).Path().Tier
	h.conns <- c
	return nil, gnet.None
}

func (h *streamServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = c.Write(b)
	return gnet.None
}

func (h *streamServer) OnClose(_ gnet.Conn, err error) gnet.Action { h.closed <- err; return gnet.None }

// A handler written for gnet serves TCP over our own stack by a setting alone. Options are set on the loop, and there is no descriptor.
func TestOffloadedTCPServer(t *testing.T) {
	t.Setenv("SX_OFFLOAD_TCP", "1")
	n := testnet.New(t, testnet.Pair{})
	at := netip.AddrPortFrom(n.Local(0), 7778)
	h := &streamServer{engine: make(chan gnet.Engine, 1), conns: make(chan gnet.Conn, 9), tiers: make(chan string, 9), closed: make(chan error, 9)}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: a thread that was moved is not given back
		if err := n.Enter(); err != nil {
			result <- err
			return
		}
		result <- gnet.Run(h, "tcp://"+at.String(), gnet.WithRing(conf.RingOffload), gnet.WithTCPKeepAlive(time.Minute))
	}()
	var engine gnet.Engine
	select {
	case engine = <-h.engine:
	case err := <-result:
		require.FailNow(t, "it did not start", "%v", err)
	}
	dial := func() (c *net.TCPConn) {
		n.InPeer(func() {
			x, err := net.DialTimeout("tcp4", at.String(), 20*time.Second)
			require.NoError(t, err)
			c = x.(*net.TCPConn)
		})
		require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
		require.Equal(t, "bypass", <-h.tiers)
		return c
	}
	peer := dial()
	defer peer.Close()
	c := <-h.conns
	b := make([]byte, 2)
	for i := range 100 {
		_, err := peer.Write([]byte{byte(i), 'x'})
		require.NoError(t, err)
		_, err = io.ReadFull(peer, b)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i), 'x'}, b)
	}
	require.Equal(t, -1, c.Fd())
	_, err := c.Dup()
	require.ErrorIs(t, err, gnet.ErrUnsupportedOp)
	for _, set := range []func() error{func() error { return c.SetNoDelay(false) }, func() error { return c.SetReadBuffer(1 << 20) },
		func() error { return c.SetWriteBuffer(1 << 20) }, func() error { return c.SetKeepAlivePeriod(time.Minute) }} {
		require.NoError(t, set())
	}

	for _, x := range []struct{ idle, interval time.Duration }{{0, 0}, {time.Minute, 0}, {0, time.Second}, {-time.Second, time.Second}} {
		require.EqualError(t, c.SetKeepAlive(true, x.idle, x.interval, 3), "invalid time duration", "as with a descriptor: %v", x)
	}

	// A transfer that is larger than all buffers on the way, both ways at once.
	data := make([]byte, 16<<20)
	for i := range data {
		data[i] = byte(i * 31 >> 7)
	}
	sent := make(chan error, 1)
	go func() { _, err := peer.Write(data); sent <- err }()
	sum := sha256.New()
	_, err = io.CopyN(sum, peer, int64(len(data)))
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Equal(t, sha256.Sum256(data), [32]byte(sum.Sum(nil)))

	second := dial() // its peer resets it
	require.NoError(t, second.SetLinger(0))
	require.NoError(t, second.Close())
	require.Error(t, <-h.closed)
	require.NoError(t, peer.CloseWrite())
	_, err = io.ReadFull(peer, b)
	require.ErrorIs(t, err, io.EOF)
	<-h.closed
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(t, engine.Stop(ctx))
	require.NoError(t, <-result)
}

// Several loops serve TCP of our own stack: the first one accepts, and each serves its share, if it has a queue of the interface. The server is
// a process of its own, all of whose threads are in the test's namespace: loops open queues on their goroutines.
func TestOffloadedTCPOnSeveralLoops(t *testing.T) {
	if os.Getenv("GNET_OWN_TCP") != "" {
		t.Skip("this is the process that TestServerOfSeveralLoops is for")
	}
	for _, x := range []struct {
		name   string
		queues int
		loops  int // that serve
	}{{"a queue for each", 2, 2}, {"one queue", 1, 1}} {
		t.Run(x.name, func(t *testing.T) {
			n := testnet.New(t, testnet.Pair{Queues: x.queues})
			at := netip.AddrPortFrom(n.Local(0), 7779)
			cmd := exec.Command(os.Args[0], "-test.run=^TestServerOfSeveralLoops$", "-test.v", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), "GNET_OWN_TCP="+at.String(), "SX_RING=offload", "SX_OFFLOAD_TCP=1")
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var log []string
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && lines.Text() != "serving" {
				log = append(log, lines.Text())
			}
			const clients = 16
			served := map[string]int{}
			var conns []net.Conn
			for i := range clients {
				var c net.Conn
				n.InPeer(func() { c, err = net.DialTimeout("tcp4", at.String(), 20*time.Second) })
				require.NoError(t, err, "%q", log)
				defer c.Close()
				require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
				_, err = fmt.Fprintf(c, "client %02d\n", i) // at once: it may come before the loop has the connection
				require.NoError(t, err)
				conns = append(conns, c)
			}
			for i, c := range conns {
				line, err := bufio.NewReader(c).ReadString('\n')
				require.NoError(t, err)
				var number int
				var loop, tier string
				_, err = fmt.Sscanf(line, "client %d loop %s %s", &number, &loop, &tier)
				require.NoError(t, err, line)
				require.Equal(t, i, number)
				require.Equal(t, "bypass", tier)
				served[loop]++
			}
			require.Len(t, served, x.loops, "%v", served)
			require.NoError(t, stdin.Close())
			for lines.Scan() {
				log = append(log, lines.Text())
			}
			require.NoError(t, cmd.Wait(), "%q", log)
		})
	}
}

// loopServer answers each line with the connection's loop and path.
type loopServer struct {
	gnet.BuiltinEventEngine
	engine gnet.Engine
}

func (h *loopServer) OnBoot(e gnet.Engine) gnet.Action {
	h.engine = e
	fmt.Println("serving")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = e.Stop(context.Background())
	}()
	return gnet.None
}

func (h *loopServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = fmt.Fprintf(c, "%s loop %p %s\n", b[:len(b)-1], c.EventLoop(), c.(gnet.ConnX).Path().Tier)
	return gnet.None
}

// The server, in the process that TestOffloadedTCPOnSeveralLoops starts.
func TestServerOfSeveralLoops(t *testing.T) {
	at := os.Getenv("GNET_OWN_TCP")
	if at == "" {
		t.Skip("TestOffloadedTCPOnSeveralLoops runs this in a process of its own")
	}
	require.NoError(t, gnet.Run(&loopServer{}, "tcp://"+at, gnet.WithNumEventLoop(2)))
}
