package netconn

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

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
		t.Skip("missing: a namespace: this is the process that TestSuiteOverOwnTCP is for")
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
		t.Skip("missing: a namespace: TestConnOverOwnTCP runs this in a process of its own")
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
