package server

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// redisServer starts a redis of its own on a unix socket, which ends with the test.
func redisServer(t *testing.T) func() *redisClient {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		testnet.Missing(t, "redis-server", err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", filepath.Dir(socket))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return func() *redisClient {
		var conn net.Conn
		require.Eventually(t, func() bool {
			conn, err = net.Dial("unix", socket)
			return err == nil
		}, 10*time.Second, 20*time.Millisecond, "redis-server does not listen: %v", err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		return &redisClient{conn, bufio.NewReader(conn)}
	}
}

type redisClient struct {
	net.Conn
	in *bufio.Reader
}

// say sends a line and returns the bytes of the answer.
func (r *redisClient) say(t *testing.T, line string) string {
	t.Helper()
	_, err := r.Write([]byte(line + "\r\n"))
	require.NoError(t, err)
	return readReply(t, r.in)
}

// readReply reads one reply, however deep.
func readReply(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	n := 0
	if strings.ContainsRune("$*%~=", rune(line[0])) {
		n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		require.NoError(t, err)
	}
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			b := make([]byte, n+2)
			_, err = io.ReadFull(in, b)
			require.NoError(t, err)
			line += string(b)
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '~':
		for range max(n, 0) {
			line += readReply(t, in)
		}
	}
	return line
}

func TestRedisSaysTheSame(t *testing.T) {
	dial := redisServer(t)
	for name, lines := range conversations {
		t.Run(name, func(t *testing.T) {
			r := dial()
			require.Equal(t, "+OK\r\n", r.say(t, "flushall"))
			for i, line := range lines {
				require.Equal(t, r.say(t, line[0]), line[1]+"\r\n", "line %d: %s", i, line[0])
			}
		})
	}
}

// What the protocol does not allow is refused in the same words, and the connection closed.
func TestRedisRefusesTheSame(t *testing.T) {
	dial := redisServer(t)
	for _, in := range []string{"*x\r\n", "*1\r\nGET a\r\n", "*1\r\n$-1\r\n", "*1\r\n$x\r\n", "set \"a\r\n", "set 'a'b\r\n",
		"*1\r\n$99999999999\r\n", "*99999999999\r\n", "*1\r\n$" + strings.Repeat("1", 70_000), strings.Repeat("x", 70_000),
		"*" + strings.Repeat("1", 70_000)} {
		r := dial()
		_, err := r.Write([]byte(in))
		require.NoError(t, err)
		want := readReply(t, r.in)
		_, out, end := New(Config{}).Open("").Serve([]byte(in), nil)
		require.Equal(t, want, string(out), "%.40q", in)
		require.True(t, end)
	}
}

// Thousands of random commands, each answered by both.
func TestRandomCommandsAgainstRedis(t *testing.T) {
	r := redisServer(t)()
	c := New(Config{}).Open("")
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	key := func() string { return pick("a", "b", "c", "d") }
	value := func() string {
		return pick("1", "-7", "3.5", "hello", "''", "01", "9223372036854775807", "1e3", "0.1", "'two words'", strconv.Itoa(random.IntN(1000)))
	}
	small := func() string { return strconv.Itoa(random.IntN(30) - 15) }
	times := 0
	kinds := []func() string{
		func() string { return "get " + key() },
		func() string { return "set " + key() + " " + value() },
		func() string {
			return "set " + key() + " " + value() + " " + pick("nx", "xx", "get", "keepttl", "nx get", "xx get", "ex 1000", "px 900000",
				"exat 99999999999", "nx xx", "get keepttl", "ex 0", "ex x", "keepttl ex 5", "")
		},
		func() string { return pick("setnx ", "getset ", "append ") + key() + " " + value() },
		func() string {
			return pick("getdel ", "strlen ", "incr ", "decr ", "type ", "persist ", "ttl ", "expiretime ", "exists ", "del ") + key()
		},
		func() string { return pick("incrby ", "decrby ") + key() + " " + value() },
		// On keys of their own: what append makes of a number may be one that only a long double can hold.
		func() string {
			return pick("set ", "incrbyfloat ", "incrbyfloat ", "incrbyfloat ") + pick("e", "f") + " " + value()
		},
		func() string { return "get " + pick("e", "f") },
		func() string { return pick("getrange ", "substr ") + key() + " " + small() + " " + small() },
		func() string { return "setrange " + key() + " " + small() + " " + value() },
		func() string {
			times++ // no time twice: a millisecond between the two servers must not decide what GT and LT say
			return "expire " + key() + " " + pick(strconv.Itoa(1000+times*7919%100_003), "0", "-1", "x", "9223372036854775807") + " " +
				pick("", "", "nx", "xx", "gt", "lt", "nx xx", "foo")
		},
		func() string { return pick("mget ", "del ", "exists ", "touch ", "unlink ") + key() + " " + key() },
		func() string { return pick("mset ", "msetnx ") + key() + " " + value() + " " + key() + " " + value() },
		func() string { return pick("rename ", "renamenx ") + key() + " " + key() },
		func() string {
			return "getex " + key() + " " + pick("", "persist", "ex 1000", "px 500000", "ex 0", "foo")
		},
		func() string { return "dbsize" },
		func() string { return "keys " + pick("a", "[ab]", "?", "z*") },
	}
	for i := range 20_000 {
		line := kinds[random.IntN(len(kinds))]()
		want, got := r.say(t, line), say(c, line)
		if strings.HasPrefix(line, "keys") { // in no order
			want, got = fmt.Sprint(len(want)), fmt.Sprint(len(got))
		}
		require.Equal(t, want, got, "command %d of seed %d: %s", i, seed, line)
	}
}
