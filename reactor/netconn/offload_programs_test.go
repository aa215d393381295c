package netconn

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Clients of ours over our own TCP, by a setting alone, with Debian's nginx and redis-server in the kernel of another namespace.
func TestServersOfOthersOverOwnTCP(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, host string) *exec.Cmd{"nginx": nginx, "redis-server": redisServer} {
		t.Run(name, func(t *testing.T) {
			testnet.NeedProgram(t, name)
			n := testnet.New(t, testnet.Pair{})
			server := start(t, n.Peer(0).String())
			n.InPeer(func() { require.NoError(t, server.Start()) })
			t.Cleanup(func() {
				_ = server.Process.Signal(os.Interrupt)
				_ = server.Wait()
			})
			client := exec.Command(os.Args[0], "-test.run=^TestClientOfOthersServer$", "-test.v", "-test.timeout=100s")
			client.Env = append(os.Environ(), "NETCONN_CLIENT_OF="+name+" "+n.Peer(0).String(), "SX_RING=offload", "SX_OFFLOAD_TCP=1")
			out, err := client.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS: TestClientOfOthersServer", "%s", out)
		})
	}
}

// fileSize is the size of the file that nginx serves.
const fileSize = 30 << 20

// nginx serves a directory with one file.
func nginx(t *testing.T, host string) *exec.Cmd {
	dir := t.TempDir()
	data := make([]byte, fileSize)
	for i := range data {
		data[i] = byte(i * 13 >> 5)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), data, 0o644))
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr; events {}
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
server { listen %[2]s:8080; location / { root %[1]s; } } }`, dir, host)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "conf"), []byte(text), 0o644))
	return exec.Command("nginx", "-c", filepath.Join(dir, "conf"))
}

func redisServer(t *testing.T, host string) *exec.Cmd {
	return exec.Command("redis-server", "--bind", host, "--port", "8080", "--save", "", "--dir", t.TempDir(), "--protected-mode", "no")
}

// The client, in the process that TestServersOfOthersOverOwnTCP starts.
func TestClientOfOthersServer(t *testing.T) {
	what := os.Getenv("NETCONN_CLIENT_OF")
	if what == "" {
		t.Skip("TestServersOfOthersOverOwnTCP runs this in a process of its own")
	}
	name, host, _ := strings.Cut(what, " ")
	at := host + ":8080"
	e, err := xtreme.New(conf.FromEnvironment())
	require.NoError(t, err)
	n, err := New(e, Config{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the server may not listen yet
		c, err := n.Dial("tcp", at)
		if err != nil {
			return false
		}
		require.Equal(t, "bypass", c.(*Conn).Path().Tier, c.(*Conn).Path().Explain())
		return c.Close() == nil
	}, patience, 20*time.Millisecond)
	if name == "nginx" {
		fetches(t, n, "http://"+at+"/file")
	} else {
		asksRedis(t, n, at)
	}
	require.NoError(t, n.Close())
	require.NoError(t, e.Close())
}

// fetches gets a large file by several connections at once, and a small answer often by one that stays.
func fetches(t *testing.T, n *Network, url string) {
	client := &http.Client{Transport: &http.Transport{DialContext: n.DialContext}, Timeout: 60 * time.Second}
	want := sha256.New()
	for i := range fileSize {
		_, _ = want.Write([]byte{byte(i * 13 >> 5)})
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			r, err := client.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			sum := sha256.New()
			if k, err := io.Copy(sum, r.Body); err != nil || k != fileSize || string(sum.Sum(nil)) != string(want.Sum(nil)) {
				t.Errorf("%d bytes, %v", k, err)
			}
		})
	}
	wait.Wait()
	for range 200 {
		r, err := client.Get(url + "s that are not there")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, http.StatusNotFound, r.StatusCode)
	}
	client.CloseIdleConnections()
}

// asksRedis sets and gets values of many sizes, and sends many commands at once.
func asksRedis(t *testing.T, n *Network, at string) {
	c, err := n.Dial("tcp", at)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(60*time.Second)))
	in := bufio.NewReader(c)
	expect := func(want string) {
		got := make([]byte, len(want))
		_, err := io.ReadFull(in, got)
		require.NoError(t, err)
		require.True(t, want == string(got), "got %.80q, want %.80q", got, want)
	}
	for size := 1; size <= 8<<20; size *= 8 {
		value := strings.Repeat("v", size)
		_, err := fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", size, value)
		require.NoError(t, err)
		expect("+OK\r\n")
		_, err = io.WriteString(c, "GET k\r\n")
		require.NoError(t, err)
		expect(fmt.Sprintf("$%d\r\n%s\r\n", size, value))
	}
	const many = 10_000
	sent := make(chan error, 1)
	go func() { _, err := io.WriteString(c, strings.Repeat("PING\r\n", many)); sent <- err }()
	expect(strings.Repeat("+PONG\r\n", many))
	require.NoError(t, <-sent)
	_, err = io.WriteString(c, "QUIT\r\n")
	require.NoError(t, err)
	expect("+OK\r\n")
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "redis closes")
	require.NoError(t, c.Close())
}
