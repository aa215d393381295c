package readme

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

const (
	patience = 30 * time.Second
	address  = "127.0.0.1:5001" // the README's
	crowd    = 150              // connections at a time: more than the README's 64 completions
)

// program is the README's only Go program.
func program(t *testing.T) string {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var found []string
	for _, block := range strings.Split(string(text), "```go\n")[1:] {
		code, _, ended := strings.Cut(block, "```")
		require.True(t, ended)
		if strings.HasPrefix(code, "package main\n") {
			found = append(found, code)
		}
	}
	require.Len(t, found, 1, "programs in README.md")
	return found[0]
}

// merge is put into the program. The contract lets the events of a socket merge, and a ring does so as it happens; this merges all that a
// ring may merge: what follows a packet or a new connection of the same socket in a batch, up to its next packet.
const merge = `
func merge(done []xtreme.Completion) (n int) {
	last := map[*xtreme.Socket]int{}
	for _, c := range done {
		i, ok := last[c.Socket]
		if ok && c.Events.Has(xtreme.EventPacket) && done[i].Events.Has(xtreme.EventPacket) || c.Events.Has(xtreme.EventClosed) {
			ok = false
		}
		if !ok {
			last[c.Socket] = n
			done[n] = c
			n++
			continue
		}
		done[i].Events |= c.Events
		if c.Packet != (buffers.Packet{}) {
			done[i].Packet = c.Packet
		}
		if done[i].Err == nil {
			done[i].Err = c.Err
		}
	}
	return n
}
`

// build compiles the program inside the module, so that it imports the packages of this tree, at another address, with merge, and with a
// line that prints the events it handles.
func build(t *testing.T, at string) string {
	code := program(t)
	require.Equal(t, 1, strings.Count(code, address), "the address of the README's server")
	testnet.NeedProgram(t, "go")
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "server")
	for old, changed := range map[string]string{
		address: at,
		"\nfunc handle(c *xtreme.Completion) {\n":             merge + "\nfunc handle(c *xtreme.Completion) {\n\tfmt.Println(c.Events)\n",
		"\t\tfor i := range done[:n] {\n":                     "\t\tn = merge(done[:n])\n\t\tfor i := range done[:n] {\n",
		"\n\t\"github.com/socketxtreme/socketxtreme/conf\"\n": "\n\t\"github.com/socketxtreme/socketxtreme/buffers\"\n\t\"github.com/socketxtreme/socketxtreme/conf\"\n",
	} {
		require.Equal(t, 1, strings.Count(code, old), "%q in the README's program", old)
		code = strings.Replace(code, old, changed, 1)
	}
	require.NoError(t, os.WriteFile(source, []byte(code), 0o600))
	c := exec.Command("go", "build", "-o", binary, source)
	c.Dir = "../.."
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// How a client's connection may go. Each is opened and ended while the server is stopped, so that all of it has happened when the server
// polls: the flags of a connection come merged in one completion.
var ends = map[string]func(*testing.T, *net.TCPConn){
	"FIN without data":  func(t *testing.T, c *net.TCPConn) { require.NoError(t, c.CloseWrite()) },
	"data, then FIN":    func(t *testing.T, c *net.TCPConn) { write(t, c); require.NoError(t, c.CloseWrite()) },
	"closed at once":    func(t *testing.T, c *net.TCPConn) { require.NoError(t, c.Close()) },
	"data, then closed": func(t *testing.T, c *net.TCPConn) { write(t, c); require.NoError(t, c.Close()) },
	"reset":             func(t *testing.T, c *net.TCPConn) { require.NoError(t, c.SetLinger(0)); require.NoError(t, c.Close()) },
	"data, then reset": func(t *testing.T, c *net.TCPConn) {
		write(t, c)
		require.NoError(t, c.SetLinger(0))
		require.NoError(t, c.Close())
	},
}

const message = "an echo"

func write(t *testing.T, c *net.TCPConn) {
	_, err := c.Write([]byte(message))
	require.NoError(t, err)
}

// The README's server, as a reader gets it, echoes and loses no connection, whatever comes together.
func TestProgram(t *testing.T) {
	onRings(t, func(t *testing.T, kind string) {
		at := freeAddress(t)
		s := start(t, build(t, at), at, kind)
		s.echo()
		idle := s.idleSockets()
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				s.together(t, end)
				s.settles(t, idle)
			})
		}
		t.Run("all at once", func(t *testing.T) {
			i := 0
			s.together(t, func(t *testing.T, c *net.TCPConn) {
				names := []string{"FIN without data", "data, then FIN", "closed at once", "data, then closed", "reset", "data, then reset"}
				ends[names[i%len(names)]](t, c)
				i++
			})
			s.settles(t, idle)
		})
		s.echo()
		require.NotZero(t, s.out.count("PACKET|IN|RDHUP")+s.out.count("NEW_CONNECTION|PACKET|IN|RDHUP"), "nothing was merged: nothing was shown")
	})
}

// onRings runs a test with each kind of ring that this machine has.
func onRings(t *testing.T, f func(*testing.T, string)) {
	for kind, probe := range map[string]func() error{"uring": uring.Probe, "epoll": epoll.Probe} {
		t.Run(kind, func(t *testing.T) {
			if err := probe(); errors.Is(err, ring.ErrNotSupported) {
				testnet.Missing(t, kind, err)
			}
			f(t, kind)
		})
	}
}

// output is what the server wrote. The goroutine of package exec writes it.
type output struct {
	sync.Mutex
	text []byte
}

func (o *output) Write(b []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	o.text = append(o.text, b...)
	return len(b), nil
}

func (o *output) count(line string) int {
	o.Lock()
	defer o.Unlock()
	return strings.Count(string(o.text), "\n"+line+"\n")
}

func (o *output) tail() string {
	o.Lock()
	defer o.Unlock()
	return string(o.text[max(len(o.text)-1000, 0):])
}

// server is the running program.
type server struct {
	t   *testing.T
	at  string
	cmd *exec.Cmd
	out output
}

func start(t *testing.T, binary, at, kind string, args ...string) *server {
	s := &server{t: t, at: at, cmd: exec.Command(binary, args...)}
	s.cmd.Env = append(os.Environ(), "SX_RING="+kind)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(unix.SIGCONT)
		_ = s.cmd.Process.Kill()
		err := s.cmd.Wait()
		if t.Failed() {
			t.Logf("the server: %v; its last words: %s", err, s.out.tail())
		}
	})
	return s
}

// echo sends a message and wants it back.
func (s *server) echo() {
	t := s.t
	c := s.listens()
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	write(t, c)
	require.NoError(t, c.CloseWrite())
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, message, string(answer))
}

// listens waits until the server accepts, and returns the first connection.
func (s *server) listens() (c *net.TCPConn) {
	require.Eventually(s.t, func() bool {
		d, err := net.Dial("tcp4", s.at)
		if err == nil {
			c = d.(*net.TCPConn)
		}
		return err == nil
	}, patience, 10*time.Millisecond, "the server does not listen")
	return c
}

// together opens and ends many connections while the server is stopped. So that flags come merged, messages of other connections fill the
// server's slice before and between them.
func (s *server) together(t *testing.T, end func(*testing.T, *net.TCPConn)) {
	var busy []*net.TCPConn
	for range 3 * crowd {
		c, err := net.Dial("tcp4", s.at)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		busy = append(busy, c.(*net.TCPConn))
		write(t, busy[len(busy)-1])
	}
	for _, c := range busy {
		_, err := io.ReadFull(c, make([]byte, len(message)))
		require.NoError(t, err)
	}
	require.NoError(t, s.cmd.Process.Signal(unix.SIGSTOP))
	for i := range crowd {
		write(t, busy[i])
		write(t, busy[i+crowd])
		write(t, busy[i+2*crowd])
		c, err := net.Dial("tcp4", s.at)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		end(t, c.(*net.TCPConn))
	}
	require.NoError(t, s.cmd.Process.Signal(unix.SIGCONT))
}

// settles waits until the server has no connection left, in no state, and no socket more than before. It waits less than the time after which
// examples/https closes a connection that asks for nothing.
func (s *server) settles(t *testing.T, idle int) {
	var open []string
	fds := 0
	for end := time.Now().Add(patience / 6); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if open, fds = s.connections(t), s.sockets(); len(open) == 0 && fds == idle {
			return
		}
	}
	require.Empty(t, open, "connections that the server did not close, by state (8 is CLOSE_WAIT)")
	require.Equal(t, idle, fds, "sockets of the server")
}

// idleSockets is how many sockets the server has when it has opened all of its own: the statistics open theirs beside the first connections.
func (s *server) idleSockets() (n int) {
	for same := 0; same < 20; time.Sleep(25 * time.Millisecond) {
		if now := s.sockets(); now == n {
			same++
		} else {
			n, same = now, 0
		}
	}
	return n
}

// sockets counts the descriptors of the server that are sockets. It may open others, as files of /proc, at any time.
func (s *server) sockets() (n int) {
	dir := fmt.Sprintf("/proc/%d/fd/", s.cmd.Process.Pid)
	list, err := os.ReadDir(dir)
	require.NoError(s.t, err, "the server is gone")
	for _, f := range list {
		if to, err := os.Readlink(dir + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// connections lists the server's ends that are neither listening nor in TIME_WAIT, by state.
func (s *server) connections(t *testing.T) (list []string) {
	text, err := os.ReadFile("/proc/net/tcp")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(s.at)
	require.NoError(t, err)
	var number int
	_, err = fmt.Sscan(port, &number)
	require.NoError(t, err)
	states := map[string]int{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) && f[3] != "0A" && f[3] != "06" {
			states[f[3]]++
		}
	}
	for state, n := range states {
		list = append(list, fmt.Sprintf("%d in %s", n, state))
	}
	return list
}
