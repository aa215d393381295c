package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
)

// asProgram makes the test binary the program, for tests that want one in a namespace.
const asProgram = "RESP_TEST_AS_PROGRAM"

// The probe runs its own program again as the client; in a test that is the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-client" || os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// onEach runs a test on every kind of ring; one that does not work on this machine says so itself, with EPERM or the like.
func onEach(t *testing.T, test func(t *testing.T, kind conf.RingKind)) {
	for _, kind := range []conf.RingKind{conf.RingEpoll, conf.RingUring} {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// serving runs the server until the test ends.
func serving(t *testing.T, c config) netip.AddrPort {
	t.Helper()
	c.most = 8 << 20
	ctx, stop := context.WithCancel(context.Background())
	addr, ended := make(chan netip.AddrPort, 1), make(chan error, 1)
	go func() { ended <- run(ctx, c, func(a netip.AddrPort) { addr <- a }) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(20 * time.Second):
			t.Error("the server does not end")
		}
	})
	select {
	case a := <-addr:
		return a
	case err := <-ended:
		t.Fatalf("the server ended before it listened: %v", err)
	}
	return netip.AddrPort{}
}

// A conversation with commands in pieces, a value larger than any buffer on the way, an answer nobody reads for a while, and the end.
func TestConversation(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []reactor.Rest{reactor.Adaptive, reactor.Wait} {
			addr := serving(t, config{listen: netip.MustParseAddrPort("127.0.0.1:0"), ring: kind, rest: rest})
			conn, err := net.Dial("tcp", addr.String())
			require.NoError(t, err)
			require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
			in := bufio.NewReader(conn)
			say := func(parts ...string) {
				for _, p := range parts {
					_, err := conn.Write([]byte(p))
					require.NoError(t, err)
					time.Sleep(time.Millisecond)
				}
			}
			hear := func(want string) {
				got := make([]byte, len(want))
				_, err := io.ReadFull(in, got)
				require.NoError(t, err)
				require.True(t, want == string(got), "got %.80q, want %.80q", got, want)
			}
			say("*3\r\n$3\r", "\nSET\r\n$1\r\na\r\n$", "5\r\nhel", "lo\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nPI", "NG\r\n")
			hear("+OK\r\n$5\r\nhello\r\n+PONG\r\n")
			large := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
			say("*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$4194304\r\n", large, "\r\n")
			hear("+OK\r\n")
			say(strings.Repeat("GET l\r\n", 5))
			time.Sleep(50 * time.Millisecond)
			for range 5 {
				hear("$4194304\r\n" + large + "\r\n")
			}
			say("set e 1 px 20\r\n")
			hear("+OK\r\n")
			require.Eventually(t, func() bool { // the sweep takes e away
				say("dbsize\r\n")
				line, err := in.ReadString('\n')
				require.NoError(t, err)
				return line == ":2\r\n"
			}, 10*time.Second, 20*time.Millisecond)
			say("*1\r\n!\r\n")
			hear("-ERR Protocol error: expected '$', got '!'\r\n")
			_, err = in.ReadByte()
			require.Error(t, err, "the connection is closed")
			require.NoError(t, conn.Close())
		}
	})
}

// A client that asks for much more than the server would hold for it, and reads late, gets all of it; others are served meanwhile.
func TestAClientThatReadsLate(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		addr := serving(t, config{listen: netip.MustParseAddrPort("127.0.0.1:0"), ring: kind})
		conn, err := net.Dial("tcp", addr.String())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
		const n, size = 100, 1 << 20
		_, err = conn.Write([]byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n" + strings.Repeat("v", size) + "\r\n" + strings.Repeat("GET k\r\n", n)))
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond)
		other, err := net.Dial("tcp", addr.String())
		require.NoError(t, err)
		defer other.Close()
		require.NoError(t, other.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = other.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		pong := make([]byte, 7)
		_, err = io.ReadFull(other, pong)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, conn, int64(len("+OK\r\n")+n*(size+len("$1048576\r\n\r\n"))))
		require.NoError(t, err)
		_, err = conn.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		_, err = io.ReadFull(conn, pong)
		require.NoError(t, err)
		require.Equal(t, "+PONG\r\n", string(pong))
	})
}

func TestProbe(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		c := config{listen: netip.MustParseAddrPort("127.0.0.1:0"), ring: kind, rest: reactor.Adaptive, probe: 100 * time.Millisecond}
		require.NoError(t, probe(t.Context(), c))
	})
}

// A server that closes at once, and one that is not there.
func TestClientWithoutServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := config{listen: netip.MustParseAddrPort(l.Addr().String()), probe: time.Second}
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_ = conn.Close()
		}
	}()
	require.ErrorContains(t, client(t.Context(), c), "1 at a time")
	require.NoError(t, l.Close())
	require.ErrorContains(t, client(t.Context(), c), "connection refused")
}

func TestAnAddressInUseIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c := config{listen: netip.MustParseAddrPort(l.Addr().String()), ring: conf.RingEpoll}
	require.ErrorContains(t, run(t.Context(), c, func(netip.AddrPort) { t.Error("ready") }), "address already in use")
}

func TestCommandLine(t *testing.T) {
	c, err := parse([]string{"-listen", "[::1]:7", "-ring", "epoll", "-rest", "wait", "-probe", "2s"})
	require.NoError(t, err)
	require.Equal(t, config{listen: netip.MustParseAddrPort("[::1]:7"), ring: conf.RingEpoll, rest: reactor.Wait, probe: 2 * time.Second,
		most: mostEver}, c)
	for want, args := range map[string][]string{
		`-listen "x"`:           {"-listen", "x"},
		`-ring:`:                {"-ring", "x"},
		`"x"`:                   {"-rest", "x"},
		`-probe -1s`:            {"-probe", "-1s"},
		`-client: wants -probe`: {"-client"},
		`argument "x"`:          {"x"},
	} {
		_, err := parse(args)
		require.ErrorContains(t, err, want)
	}
}

// Without the flag the environment's kind of ring is used.
func TestRingOfTheEnvironment(t *testing.T) {
	t.Setenv("SX_RING", "epoll")
	c, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, conf.RingEpoll, c.ring)
}

// One command whose answer is much larger than what the server would hold for a client: the answer is made as the client reads it, from
// the values as they were when the command came.
func TestOneLargeAnswerIsMadeAsItIsRead(t *testing.T) {
	const n, size = 300, 1 << 20
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		addr := serving(t, config{listen: netip.MustParseAddrPort("127.0.0.1:0"), ring: kind})
		dial := func() net.Conn {
			c, err := net.Dial("tcp", addr.String())
			require.NoError(t, err)
			require.NoError(t, c.SetDeadline(time.Now().Add(60*time.Second)))
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		ask := func(c net.Conn, command, answer string) {
			_, err := c.Write([]byte(command))
			require.NoError(t, err)
			got := make([]byte, len(answer))
			_, err = io.ReadFull(c, got)
			require.NoError(t, err)
			require.Equal(t, answer, string(got))
		}
		heap := func() int {
			runtime.GC()
			runtime.GC() // the second one empties pools
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		client, other := dial(), dial()
		value := strings.Repeat("v", size)
		ask(client, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n"+value+"\r\n", "+OK\r\n")
		before := heap()
		_, err := client.Write([]byte("MGET" + strings.Repeat(" k", n) + "\r\nPING\r\n"))
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond) // it does not read
		ask(other, "PING\r\n", "+PONG\r\n")
		require.Less(t, heap()-before, 32<<20, "memory that waits for a client")
		for _, change := range []string{"SETRANGE k 0 x", "APPEND k y", "SET k 1", "INCR k"} {
			_, err := other.Write([]byte(change + "\r\n"))
			require.NoError(t, err)
		}
		_, err = io.ReadFull(other, make([]byte, len(":1048576\r\n:1048577\r\n+OK\r\n:2\r\n")))
		require.NoError(t, err)
		in := bufio.NewReader(client)
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "*300\r\n", line)
		want := "$1048576\r\n" + value + "\r\n"
		got := make([]byte, len(want))
		for i := range n {
			_, err := io.ReadFull(in, got)
			require.NoError(t, err, "value %d", i)
			require.True(t, want == string(got), "value %d is %.40q", i, got)
		}
		line, err = in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "+PONG\r\n", line)
		ask(client, "GET k\r\n", "$1\r\n2\r\n")
	})
}
