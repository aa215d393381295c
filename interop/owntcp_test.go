package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/reactor/netconn"
)

// ownVariable is set in the processes that TestOverOwnTCP starts: which side is our own TCP, and the addresses of both ends of the veth.
const ownVariable = "INTEROP_OWN_TCP"

// TestOverOwnTCP runs the other tests with our own TCP over a veth, and the kernel of another namespace at the far end. Each
// runs in a process of its own, all of whose threads are in the test's namespace: loops open sockets on goroutines of theirs.
func TestOverOwnTCP(t *testing.T) {
	if own != nil {
		t.Skip("this is a process that TestOverOwnTCP has started")
	}
	for _, x := range []struct{ test, side string }{
		{"TestRedis", "client"}, {"TestGRPC", "client"}, {"TestGRPC", "server"}, {"TestHTTP", "client"}, {"TestHTTP", "server"},
	} {
		t.Run(x.test+" "+x.side, func(t *testing.T) {
			n := testnet.New(t, testnet.Pair{})
			namespace := n.PeerNamespace()
			defer namespace.Close()
			cmd := exec.Command(os.Args[0], "-test.run=^"+x.test+"$", "-test.v", "-test.timeout=120s")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %v %v", ownVariable, x.side, n.Local(0), n.Peer(0)))
			cmd.ExtraFiles = []*os.File{namespace}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS: "+x.test+"/"+x.side, "%s", out)
		})
	}
}

// ownTCP is the world of a process that TestOverOwnTCP has started.
type ownTCP struct {
	side, local, peer string
	namespace         *os.File // of the far end
}

// own is nil in all other processes.
var own = func() *ownTCP {
	f := strings.Fields(os.Getenv(ownVariable))
	if len(f) != 3 {
		return nil
	}
	return &ownTCP{f[0], f[1], f[2], os.NewFile(3, "peer")}
}()

// onServersSide calls f where servers that are programs of their own run: over our own TCP, in the namespace at the far end.
func onServersSide(f func() error) error {
	if own == nil {
		return f()
	}
	return own.inPeer(f)
}

func (o *ownTCP) inPeer(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := testnet.EnterNamespace(o.namespace)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// world has our own TCP at the one end and the kernel's at the other.
func (o *ownTCP) world(t *testing.T) world {
	n := newNetwork(t, conf.RingOffload)
	dialer := new(net.Dialer)
	w := world{name: o.side}
	if o.side == "client" {
		w.at = net.JoinHostPort(o.peer, "0")
		w.listen = func(network, address string) (l net.Listener, err error) {
			err = o.inPeer(func() (err error) { l, err = net.Listen(network, address); return err })
			return l, err
		}
		w.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := n.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return c, isOwn(c)
		}
		return w
	}
	w.at = net.JoinHostPort(o.local, "0")
	w.listen = func(network, address string) (net.Listener, error) {
		l, err := n.Listen(network, address)
		return ownListener{l}, err
	}
	w.dial = func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = o.inPeer(func() (err error) { c, err = dialer.DialContext(ctx, network, address); return err })
		return c, err
	}
	return w
}

// ownListener accepts connections of our own TCP, and no others.
type ownListener struct{ net.Listener }

func (l ownListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c, isOwn(c)
}

// isOwn is an error if our own TCP does not carry the connection.
func isOwn(c net.Conn) error {
	if p := c.(*netconn.Conn).Path(); p.Tier != "bypass" {
		return fmt.Errorf("carried by %v", p.Explain())
	}
	return nil
}
