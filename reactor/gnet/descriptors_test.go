package gnet_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// childRole makes the test binary the server of another process's test.
const childRole = "SOCKETXTREME_GNET_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(beChild(role))
	}
	os.Exit(m.Run())
}

// beChild is an echo server with 64 descriptors: gnet's, or ours on a ring in a mode. It prints its port, and at the end what
// Run returned.
func beChild(role string) int {
	kind, mode, _ := strings.Cut(role, "-")
	w := world{ring: conf.RingKind(kind), exact: mode == "exact"}
	if kind == "gnet" {
		w = oracle
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}); err != nil {
		fmt.Println(err)
		return 1
	}
	engine := make(chan anEngine, 1)
	a := &actor{events: handler{traffic: echo}}
	a.boot = func(e anEngine) gnet.Action {
		fd, _ := e.Dup() // a failure shows as no port
		name, _ := unix.Getsockname(fd)
		_ = unix.Close(fd)
		if at, ok := name.(*unix.SockaddrInet4); ok {
			fmt.Println("port", at.Port)
		}
		engine <- e
		return gnet.None
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	result := make(chan error, 1)
	go func() { result <- w.run(a, gnet.Options{NumEventLoop: 2}, loopback) }()
	select {
	case err := <-result:
		fmt.Println("ended", err)
	case <-end:
		e := <-engine
		for end := time.Now().Add(5 * time.Second); e.CountConnections() > 1 && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // one loop may still have ends to read that clients sent before another loop's last answer
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		fmt.Println("stopped", e.CountConnections(), e.Stop(ctx), <-result)
	}
	return 0
}

// child is such a process.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	port  int
}

func startChild(t *testing.T, w world) *child {
	c := &child{cmd: exec.Command("/proc/self/exe")}
	c.cmd.Env = append(os.Environ(), childRole+"="+w.String())
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	c.lines = bufio.NewScanner(out)
	_, err = fmt.Sscanf(c.says(t, "port"), "port %d", &c.port)
	require.NoError(t, err)
	return c
}

// says is the next line that begins with a word; what is logged between is passed over.
func (c *child) says(t *testing.T, word string) string {
	t.Helper()
	line := make(chan string, 1)
	go func() {
		for c.lines.Scan() {
			if strings.HasPrefix(c.lines.Text(), word) {
				line <- c.lines.Text()
				return
			}
		}
		line <- "nothing: the process has ended"
	}()
	return within(t, line, "the child's "+word)
}

func (c *child) dial(t *testing.T) net.Conn {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", c.port), 5*time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// answers reports whether a connection is served.
func answers(c net.Conn, within time.Duration) bool {
	if c.SetDeadline(time.Now().Add(within)) != nil {
		return false
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// 200 clients come to a server that may have 64 descriptors. It lives and serves those it has; when they leave it serves
// the others. In exact mode it ends as gnet does, with nil.
func TestDescriptorLimit(t *testing.T) {
	const clients = 200
	for _, w := range append([]world{oracle}, own...) {
		t.Run(w.String(), func(t *testing.T) {
			server := startChild(t, w)
			var conns []net.Conn
			for range clients {
				c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", server.port), 5*time.Second)
				if err != nil && w.exact {
					break // it has ended already
				}
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() })
				conns = append(conns, c)
			}
			if w.exact {
				require.Equal(t, "ended <nil>", server.says(t, "ended"))
				return
			}
			served := 0
			for served < len(conns) && answers(conns[served], time.Second) {
				served++ // the kernel's queue is in order, and so is accepting
			}
			require.Greater(t, served, 20, "most of 64")
			require.Less(t, served, 64)
			require.False(t, answers(conns[clients-1], 50*time.Millisecond))
			for _, c := range conns[:served] {
				require.True(t, answers(c, 5*time.Second), "those it has are served at the limit, too")
			}
			// They leave, and others come in. The statistics may have opened something meanwhile: so not quite as many.
			room, left := served-4, 0
			for first := served; first < clients-1; first += room {
				for ; left < first; left++ {
					require.NoError(t, conns[left].Close())
				}
				for i, c := range conns[first:min(first+room, clients-1)] {
					require.True(t, answers(c, 5*time.Second), "client %d", first+i)
				}
			}
			for _, c := range conns {
				_ = c.Close()
			}
			require.True(t, answers(server.dial(t), 5*time.Second), "a new one")
			require.NoError(t, server.cmd.Process.Signal(syscall.SIGTERM))
			require.Equal(t, "stopped 1 <nil> <nil>", server.says(t, "stopped"))
		})
	}
}
