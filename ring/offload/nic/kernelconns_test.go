package nic

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// fakeConns are the connections of a world's kernel.
type fakeConns struct {
	full bool // devices have no room to pass one more

	mu    sync.Mutex
	list  []host.Connection
	err   error
	asked int
}

func (c *fakeConns) set(list ...host.Connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = list
}

func (c *fakeConns) connections(port uint16) (list []host.Connection, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	for _, x := range c.list {
		if port == 0 || x.Local.Port() == port {
			list = append(list, x)
		}
	}
	return list, c.err
}

// client is the kernel's connection of one to a port of e0.
func client(port, of uint16) host.Connection {
	return host.Connection{Local: segments(port).Local, Remote: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), of)}
}

func flowOf(c host.Connection) link.Flow {
	return link.Flow{Protocol: link.TCP, Local: c.Local, Remote: c.Remote}
}

// kernelled is guarded in a world whose kernel has connections.
func kernelled(t *testing.T) (*world, *fakeRing, *nic) {
	w, r, n := guarded(t)
	w.table.config.Connections = w.conns.connections
	return w, r, n
}

// The kernel's connections on a port are passed before the port is claimed; those of other ports, of loopback and of the host itself are not.
func TestKernelsConnectionsPassBeforeTheClaim(t *testing.T) {
	w, r, n := kernelled(t)
	loopback, itself := client(80, 9), client(80, 10)
	loopback.Local = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 80)
	itself.Remote = netip.AddrPortFrom(itself.Local.Addr(), 10)
	w.conns.set(client(80, 7), client(81, 8), loopback, itself)
	require.NoError(t, n.Claim(segments(80)))
	require.Equal(t, []string{"guard 1 claims 80", "device passes 80", "device claims 80"}, w.asked())
	require.Equal(t, map[link.Flow]bool{flowOf(client(80, 7)): true}, w.open["e0"].passed)
	connection := flowOf(client(80, 9))
	require.NoError(t, n.Claim(connection), "the stack's own is not asked for")
	require.Equal(t, 1, w.conns.asked)
	anywhere := link.Flow{Protocol: link.TCP, VLAN: 5, Local: netip.AddrPortFrom(netip.IPv4Unspecified(), 81)}
	require.NoError(t, n.Claim(anywhere))
	passed := flowOf(client(81, 8))
	passed.VLAN = 5
	require.True(t, w.open["e0"].passed[passed], "with the tag of the claim")
	r.close()
}

// While the device is away the kernel accepts after a while, on ports that are claimed meanwhile too. Before the next one has its claims nobody
// does, and what was accepted is passed.
func TestKernelAcceptsWhileTheProgramIsAway(t *testing.T) {
	w, r, n := kernelled(t)
	require.NoError(t, n.Claim(segments(80)))
	w.hold("open")
	w.asked()
	w.lose("e0")
	r.until("e0", Opening)
	w.held("open")
	require.Equal(t, []string{"guard 1 accepts in 500ms 80", "device closes"}, w.asked())
	require.NoError(t, n.Claim(segments(81)))
	require.Equal(t, []string{"guard 1 claims 81", "guard 1 accepts in 500ms 81"}, w.asked())
	w.conns.set(client(80, 7), client(81, 8))
	w.pass("open")
	r.until("e0", Attached)
	require.Equal(t, []string{"guard 1 accepts in -1ns 80", "device passes 80", "device claims 80", "device passes 80",
		"guard 1 accepts in -1ns 81", "device passes 81", "device claims 81"}, w.asked())

	// A try that fails lets the kernel accept on.
	w.mu.Lock()
	w.refuse[0] = true
	w.mu.Unlock()
	w.lose("e0")
	r.until("e0", Closed)
	require.Contains(t, w.asked(), "guard 1 accepts in 500ms 80")
	w.mu.Lock()
	w.refuse[0] = false
	w.mu.Unlock()
	r.until("e0", Attached)
	r.close()
}

// Entries end with the kernel's connections. One that is made while the kernel is asked stays.
func TestEndedConnectionsAreSwept(t *testing.T) {
	w, r, n := kernelled(t)
	w.conns.set(client(80, 7), client(80, 8))
	require.NoError(t, n.Claim(segments(80)))
	passed := func() (list []link.Flow) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for f := range w.open["e0"].passed {
			list = append(list, f)
		}
		slices.SortFunc(list, func(a, b link.Flow) int { return int(a.Remote.Port()) - int(b.Remote.Port()) })
		return list
	}
	require.Equal(t, []link.Flow{flowOf(client(80, 7)), flowOf(client(80, 8))}, passed())
	w.conns.set(client(80, 8))
	require.Eventually(t, func() bool { return len(passed()) == 1 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, []link.Flow{flowOf(client(80, 8))}, passed())

	stop := n.passed.stop
	sweep := n.passed.sweeps + 1
	require.False(t, n.removeEnded(w.open["e0"], stop, 0, nil), "passed since that sweep began")
	require.Len(t, passed(), 1)
	require.True(t, n.removeEnded(w.open["e0"], stop, sweep, nil))
	require.Empty(t, passed())
	require.Nil(t, n.passed.stop, "there is nothing to be swept")
	r.close()
}

// Where the kernel's connections cannot be listed it accepts nothing, and the status says why; one for which there is no room is counted.
func TestConnectionsThatCannotPass(t *testing.T) {
	w, r, n := kernelled(t)
	w.conns.err = errFake
	require.NoError(t, n.Claim(segments(80)))
	require.Equal(t, "tcp.no_diag", r.a.Statuses()[0].Unlisted.Code)
	require.Contains(t, r.a.Statuses()[0].Unlisted.Text, errFake.Error())
	w.asked()
	r.reopened()
	require.NotContains(t, w.asked(), "guard 1 accepts in 500ms 80")
	w.conns.mu.Lock()
	w.conns.err = nil
	w.conns.mu.Unlock()
	w.conns.set(client(81, 7))
	w.mu.Lock()
	w.conns.full = true
	w.mu.Unlock()
	require.NoError(t, n.Claim(segments(81)))
	require.Equal(t, uint64(1), w.table.Unpassed())
	require.Empty(t, r.a.Statuses()[0].Unlisted)
	r.close()
}

// A connection that moves is dropped by the guard until both sides know where it is; without a guard it does not move.
func TestMoveOrder(t *testing.T) {
	w, r, n := kernelled(t)
	connection := flowOf(client(80, 7))
	require.NoError(t, n.Claim(segments(80)))
	w.asked()
	require.NoError(t, n.BeginMove(connection))
	require.NoError(t, n.PassMoved(connection))
	n.EndMove(connection)
	require.Equal(t, []string{"guard 1 claims 80", "device passes 80", "guard 1 passes 80", "guard 1 releases 80"}, w.asked())
	require.Contains(t, n.passed.flows, connection, "it is swept when it has ended")

	require.NoError(t, n.BeginMove(connection))
	require.NoError(t, n.Claim(connection))
	n.StopPassing(connection)
	n.EndMove(connection)
	require.Equal(t, []string{"guard 1 claims 80", "guard 1 claims 80", "device claims 80", "device stops passing 80", "guard 1 claims 80"}, w.asked())
	require.NotContains(t, n.passed.flows, connection)
	require.True(t, w.guards.live.flows[connection], "the stack's claim keeps its guard")
	n.guard = nil
	require.ErrorIs(t, n.BeginMove(connection), ErrUnguarded)
	n.guard = w.guards.live
	r.close()
}
