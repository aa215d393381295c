package netconn

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// golang.org/x/net's suite for a net.Conn over our own TCP, by a setting alone, with the other end in the kernel of another namespace. It runs
// in a process of its own, all of whose threads are in the test's namespace: loops open sockets on goroutines of theirs.
func TestConnOverOwnTCP(t *testing.T) {
	if os.Getenv("NETCONN_OWN_TCP") != "" {
		t.Skip("this is the process that TestSuiteOverOwnTCP is for")
	}
	n := testnet.New(t, testnet.Pair{})
	peer := n.PeerNamespace()
	defer peer.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSuiteOverOwnTCP$", "-test.v", "-test.timeout=100s")
	cmd.Env = append(os.Environ(), "NETCONN_OWN_TCP="+n.Local(0).String()+" "+n.Peer(0).String(), "SX_RING=offload", "SX_OFFLOAD_TCP=1")
	cmd.ExtraFiles = []*os.File{peer}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, suite := range []string{"server", "client"} {
		require.Contains(t, string(out), "--- PASS: TestSuiteOverOwnTCP/"+suite, "%s", out)
	}
}

// The suite, in the process that TestConnOverOwnTCP starts.
func TestSuiteOverOwnTCP(t *testing.T) {
	addresses := os.Getenv("NETCONN_OWN_TCP")
	if addresses == "" {
		t.Skip("TestConnOverOwnTCP runs this in a process of its own")
	}
	ours, theirs, _ := strings.Cut(addresses, " ")
	namespace := os.NewFile(3, "peer")
	inPeer := func(f func() error) error {
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			err := testnet.EnterNamespace(namespace)
			if err == nil {
				err = f()
			}
			done <- err
		}()
		return <-done
	}
	e, err := xtreme.New(conf.FromEnvironment())
	require.NoError(t, err)
	n, err := New(e, Config{})
	require.NoError(t, err)
	at := netip.AddrPortFrom(netip.MustParseAddr(ours), 0).String()
	isOurs := func(p interface{ Path() xtreme.Path }) error {
		if path := p.Path(); path.Tier != "bypass" {
			return fmt.Errorf("carried by %v", path.Explain())
		}
		return nil
	}
	listenOurs := func() (net.Listener, error) {
		l, err := n.Listen("tcp", at)
		if err == nil {
			err = isOurs(l)
		}
		return l, err
	}
	dialOurs := func(a net.Addr) (net.Conn, error) {
		c, err := n.Dial("tcp", a.String())
		if err == nil {
			err = isOurs(c.(*Conn))
		}
		return c, err
	}
	listenNet := func() (l net.Listener, err error) {
		err = inPeer(func() (err error) { l, err = net.Listen("tcp4", theirs+":0"); return err })
		return l, err
	}
	dialNet := func(a net.Addr) (c net.Conn, err error) {
		err = inPeer(func() (err error) { c, err = net.Dial("tcp4", a.String()); return err })
		return c, err
	}
	t.Run("server", func(t *testing.T) { nettest.TestConn(t, pipe(listenOurs, dialNet)) })
	t.Run("client", func(t *testing.T) { nettest.TestConn(t, pipe(listenNet, dialOurs)) })
	require.NoError(t, n.Close())
	require.NoError(t, e.Close())
}

// Each loop carries its share of a listener's connections if it has a queue of the interface; those given to a loop without one come back to the
// listener's own loop.
func TestOwnTCPOfSeveralLoops(t *testing.T) {
	if os.Getenv("NETCONN_LOOPS") != "" {
		t.Skip("this is the process that TestServerOfSeveralLoops is for")
	}
	t.Run("a queue for each", func(t *testing.T) { serveOnLoops(t, ownLoops, ownLoops) })
	t.Run("one queue", func(t *testing.T) { serveOnLoops(t, 1, 1) })
}

// serveOnLoops has a server of several loops serve the peer's clients, on so many loops as are to serve.
func serveOnLoops(t *testing.T, queues, serving int) {
	n := testnet.New(t, testnet.Pair{Queues: queues})
	at := netip.AddrPortFrom(n.Local(0), 7790)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerOfSeveralLoops$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), fmt.Sprintf("NETCONN_LOOPS=%v %d", at, serving), "SX_RING=offload", "SX_OFFLOAD_TCP=1")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var log []string
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "serving" {
		log = append(log, lines.Text())
	}
	for i := range ownLoopClients {
		var c net.Conn
		n.InPeer(func() { c, err = net.DialTimeout("tcp4", at.String(), 20*time.Second) })
		require.NoError(t, err, "%q", log)
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = fmt.Fprintf(c, "client %02d\n", i)
		require.NoError(t, err)
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("client %02d\n", i), line)
		require.NoError(t, c.Close())
	}
	for lines.Scan() {
		log = append(log, lines.Text())
	}
	require.NoError(t, cmd.Wait(), "%q", log)
}

const (
	ownLoops       = 3
	ownLoopClients = 9
)

// The server, in the process that TestOwnTCPOfSeveralLoops starts.
func TestServerOfSeveralLoops(t *testing.T) {
	at, serving, _ := strings.Cut(os.Getenv("NETCONN_LOOPS"), " ")
	if at == "" {
		t.Skip("TestOwnTCPOfSeveralLoops runs this in a process of its own")
	}
	e, err := xtreme.New(conf.FromEnvironment())
	require.NoError(t, err)
	n, err := New(e, Config{Loops: ownLoops})
	require.NoError(t, err)
	l, err := n.Listen("tcp", at)
	require.NoError(t, err)
	fmt.Println("serving")
	served := map[*loop]int{}
	for range ownLoopClients {
		c, err := l.Accept()
		require.NoError(t, err)
		require.Equal(t, "bypass", c.(*Conn).Path().Tier)
		served[c.(*Conn).loop]++
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		_, err = io.WriteString(c, line)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, c)
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	require.Equal(t, serving, fmt.Sprint(len(served)))
	require.NoError(t, l.Close())
	require.NoError(t, n.Close())
	require.NoError(t, e.Close())
}
