package nic

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// fakeGuards is what a world's devices open for guards, and the order of what devices and guards are asked.
type fakeGuards struct {
	tcp    bool       // flows of TCP can be claimed: there are guards
	refuse error      // opening one fails
	full   bool       // they take no further flow
	live   *fakeGuard // the one that is open
	opened int        // ever
	gone   bool       // it is off the interface
	log    []string   // since it was read last
}

// note adds to the log what is asked of the devices and guards of a world with TCP.
func (g *fakeGuards) note(what string, f link.Flow) {
	if !g.tcp {
		return
	}
	if f.Local.IsValid() {
		what += fmt.Sprint(" ", f.Local.Port())
	}
	g.log = append(g.log, what)
}

// asked is what was asked since the last call.
func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.guards.log
	w.guards.log = nil
	return list
}

func (w *world) openGuard(link.Info) (Guard, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch g := &w.guards; {
	case !g.tcp:
		return nil, nil
	case g.refuse != nil:
		return nil, g.refuse
	}
	w.guards.opened++
	w.guards.gone = false
	g := &fakeGuard{w: w, number: w.guards.opened, flows: map[link.Flow]bool{}}
	w.guards.live = g
	return g, nil
}

// fakeGuard is a guard that keeps its entries.
type fakeGuard struct {
	w      *world
	number int
	flows  map[link.Flow]bool
	addrs  int
	closed bool
}

func (g *fakeGuard) note(what string, f link.Flow) {
	g.w.guards.note(fmt.Sprintf("guard %d %s", g.number, what), f)
}

func (g *fakeGuard) Claim(f link.Flow) error {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if g.w.guards.full {
		return errFake
	}
	g.note("claims", f)
	g.flows[f] = true
	return nil
}

func (g *fakeGuard) Release(f link.Flow) error {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.note("releases", f)
	delete(g.flows, f)
	return nil
}

func (g *fakeGuard) Pass(f link.Flow) error {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.note("passes", f)
	delete(g.flows, f)
	return nil
}

func (g *fakeGuard) AcceptAfter(f link.Flow, d time.Duration) error {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.note(fmt.Sprintf("accepts in %v", d), f)
	return nil
}

func (g *fakeGuard) AddAddr(netip.Addr, uint16) error    { g.addrs++; return nil }
func (g *fakeGuard) RemoveAddr(netip.Addr, uint16) error { g.addrs--; return nil }

func (g *fakeGuard) Check() error {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if g.w.guards.gone || g.closed {
		return link.ErrDetached
	}
	return nil
}

func (g *fakeGuard) Counters(dst []link.Counter) []link.Counter {
	return append(dst, link.Counter{Name: "guard.segment", Value: uint64(g.number)})
}

func (g *fakeGuard) Close() error {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.note("closes", link.Flow{})
	if g.closed {
		return link.ErrClosed
	}
	if g.closed = true; g.w.guards.live == g {
		g.w.guards.live = nil
	}
	return nil
}

// segments is a flow of TCP to a port of e0.
func segments(port uint16) link.Flow {
	return link.Flow{Protocol: link.TCP, Local: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port)}
}

// guarded is a ring on e0 of a world with guards, and where its flows are claimed.
func guarded(t *testing.T) (*world, *fakeRing, *nic) {
	w := newWorld(t)
	w.guards.tcp = true
	t.Cleanup(func() { require.Nil(t, w.guards.live, "a guard is left open") })
	r := w.attached(1)
	return w, r, r.a.list[0].nic
}

// reopened has the program taken off, and waits until the interface is attached again.
func (r *fakeRing) reopened() {
	r.w.t.Helper()
	r.w.lose("e0")
	opened := func() int {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		return r.w.opened
	}
	for end := time.Now().Add(10 * time.Second); opened() < 2 || r.state("e0") != Attached; r.check() {
		require.True(r.w.t, time.Now().Before(end), "e0 is %v", r.state("e0"))
		time.Sleep(time.Millisecond)
	}
}

// A flow is guarded before it is redirected and as long as it is: no segment of it reaches the kernel in between. Flows of UDP have no guard.
func TestGuardSurroundsClaims(t *testing.T) {
	w, r, n := guarded(t)
	require.Equal(t, 1, w.guards.opened)
	require.NoError(t, n.Claim(segments(80)))
	require.NoError(t, n.Claim(segments(80)), "of another ring")
	require.NoError(t, n.Claim(link.Flow{Protocol: link.UDP, Local: segments(53).Local}))
	require.Equal(t, []string{"guard 1 claims 80", "device claims 80", "device claims 53"}, w.asked())
	require.NoError(t, n.Release(segments(80)))
	require.NoError(t, n.Release(link.Flow{Protocol: link.UDP, Local: segments(53).Local}))
	require.NoError(t, n.Release(segments(80)))
	require.Equal(t, []string{"device releases 53", "device releases 80", "guard 1 releases 80"}, w.asked())

	w.guards.full = true
	require.ErrorIs(t, n.Claim(segments(81)), errFake)
	require.Empty(t, w.asked(), "a flow that cannot be guarded is not redirected")
	r.close()
	require.Equal(t, []string{"device closes", "guard 1 closes"}, w.asked())
}

// While the steering program is away the guard stays, with all entries, those included that are made meanwhile.
func TestGuardStaysWhileTheProgramIsAway(t *testing.T) {
	w, r, n := guarded(t)
	require.NoError(t, n.Claim(segments(80)))
	connection := segments(80)
	connection.Remote = netip.MustParseAddrPort("10.0.0.2:5000")
	require.NoError(t, n.Claim(connection))
	w.hold("open")
	w.lose("e0")
	r.until("e0", Opening)
	w.held("open")
	g := w.guards.live
	require.Equal(t, map[link.Flow]bool{segments(80): true, connection: true}, g.flows)
	require.NoError(t, n.Claim(segments(81)))
	require.NoError(t, n.Release(connection))
	require.Equal(t, map[link.Flow]bool{segments(80): true, segments(81): true}, g.flows)
	require.Equal(t, []link.Counter{{Name: "e0.guard.segment", Value: 1}}, w.table.Counters(nil))
	w.asked()
	w.pass("open")
	r.until("e0", Attached)
	require.Equal(t, 1, w.guards.opened)
	require.ElementsMatch(t, []string{"device claims 80", "device claims 80", "device releases 80", "device claims 81"}, w.asked(),
		"the guard has its entries already")
	require.Equal(t, map[link.Flow]bool{segments(80): true, segments(81): true}, g.flows)
	r.close()
}

// The guard goes with its interface. When that was made again another guard has all entries before the device redirects anything.
func TestGuardOfInterfaceMadeAgain(t *testing.T) {
	w, r, n := guarded(t)
	require.NoError(t, n.Claim(segments(80)))
	w.mu.Lock()
	w.guards.gone = true
	w.mu.Unlock()
	w.asked()
	r.reopened()
	require.Equal(t, []string{"device closes", "guard 2 claims 80", "device claims 80", "guard 1 closes"}, w.asked())
	require.NoError(t, n.Release(segments(80)))
	require.Equal(t, []string{"device releases 80", "guard 2 releases 80"}, w.asked())
	r.close()
}

// Without a guard the interface carries frames, and the path says what is missing; one is tried for with the next device.
func TestInterfaceWithoutGuard(t *testing.T) {
	w := newWorld(t)
	w.guards.tcp = true
	w.guards.refuse = &link.Refusal{Reason: link.Reason{Code: "guard.no_capability", Text: "it is not permitted"}}
	r := w.attached(1)
	n := r.a.list[0].nic
	require.NoError(t, n.Claim(segments(80)))
	require.Equal(t, []string{"device claims 80"}, w.asked())
	why := r.a.Statuses()[0].Unguarded
	require.Equal(t, "guard.no_capability", why.Code)
	require.Contains(t, why.Text, "it is not permitted")
	w.mu.Lock()
	w.guards.refuse = nil
	w.mu.Unlock()
	w.asked()
	r.reopened()
	require.Equal(t, []string{"device closes", "guard 1 claims 80", "device claims 80"}, w.asked())
	require.Empty(t, r.a.Statuses()[0].Unguarded)
	r.close()
}

// A device that cannot be had takes the guard that was opened for it along.
func TestGuardOfDeviceThatFails(t *testing.T) {
	w := newWorld(t)
	w.guards.tcp = true
	w.refuse[0] = true
	r := w.ring(1)
	require.ErrorIs(t, r.a.Add(Interface{Name: "e0"}), errFake)
	require.Equal(t, 1, w.guards.opened)
	require.Nil(t, w.guards.live)
	require.Equal(t, []string{"device closes", "guard 1 closes"}, w.asked())
}

// A guard that somebody takes off while the steering program stays is noticed, and another one is put on, with all entries. The sockets' paths
// say what is missing until then.
func TestGuardTakenOff(t *testing.T) {
	w, r, n := guarded(t)
	require.NoError(t, n.Claim(segments(80)))
	w.mu.Lock()
	w.guards.gone = true
	w.guards.refuse = &link.Refusal{Reason: link.Reason{Code: "guard.busy", Text: "in use"}}
	w.mu.Unlock()
	told := r.told
	unguarded := func() string { r.check(); return r.a.Statuses()[0].Unguarded.Code }
	require.Eventually(t, func() bool { return unguarded() == "guard.busy" }, 10*time.Second, time.Millisecond)
	require.Greater(t, r.told, told)
	told = r.told
	w.mu.Lock()
	w.guards.refuse = nil
	w.mu.Unlock()
	require.True(t, n.checkGuard())
	require.Empty(t, unguarded())
	require.Greater(t, r.told, told)
	require.Equal(t, 2, w.guards.opened)
	require.Equal(t, map[link.Flow]bool{segments(80): true}, w.guards.live.flows)
	require.Equal(t, w.guards.live.addrs, len(n.addresses))
	require.True(t, n.checkGuard(), "it is there")
	require.Equal(t, 2, w.guards.opened)
	r.close()
}
