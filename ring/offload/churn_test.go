package offload_test

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// owner polls a ring on a goroutine of its own and answers each datagram. Its system calls are counted.
type owner struct {
	set   *ring.Set
	ring  *ring.Ring
	s     *ring.Socket
	calls *testnet.Calls
	heard atomic.Int64
	waits atomic.Int64 // Waits that ended
	stop  atomic.Bool
	rests bool
	loses atomic.Bool // its interface is lost meanwhile: a send may fail
	wg    sync.WaitGroup
}

// own starts an owner with a socket that is a member of the groups on v0. sleeps: it waits when there is nothing.
func (s *shared) own(queues []int, local string, rests bool, groups ...netip.Addr) *owner {
	o := &owner{rests: rests}
	ready := make(chan struct{})
	s.on(&o.wg, func() {
		defer runtime.KeepAlive(o)
		var err error
		o.set, o.ring, err = s.trySet(queues)
		if err != nil {
			s.t.Errorf("the owner: %v", err)
			close(ready)
			runtime.Goexit()
		}
		o.s = s.open(o.set, local)
		for _, g := range groups {
			if err := o.s.JoinGroup(g, "v0", netip.Addr{}); err != nil {
				s.t.Errorf("the owner: join: %v", err)
			}
		}
		dst := make([]ring.Completion, 64)
		o.poll(s.t, dst)
		o.calls = testnet.ConfigurationCalls(s.t)
		close(ready)
		for !o.stop.Load() {
			if o.poll(s.t, dst) == 0 && o.rests {
				if err := o.ring.Wait(patience); err != nil {
					s.t.Errorf("the owner: wait: %v", err)
				}
				o.waits.Add(1)
			}
		}
		if err := o.set.Close(); err != nil {
			s.t.Errorf("the owner: close: %v", err)
		}
	})
	<-ready
	s.t.Cleanup(o.end)
	require.False(s.t, s.t.Failed())
	return o
}

func (o *owner) poll(t testing.TB, dst []ring.Completion) int {
	n, err := o.ring.Poll(dst)
	if err != nil {
		t.Errorf("the owner: %v", err)
	}
	for i := range dst[:n] {
		c := &dst[i]
		if !c.Events.Has(ring.EventPacket) {
			continue
		}
		o.heard.Add(1)
		if _, err := c.Socket.SendTo(c.Packet.Bytes(), c.Source); err != nil && err != ring.ErrWouldBlock && !o.loses.Load() {
			t.Errorf("the owner: send: %v", err)
		}
		if err := c.Packet.Release(); err != nil {
			t.Errorf("the owner: release: %v", err)
		}
	}
	return n
}

func (o *owner) end() {
	o.stop.Store(true)
	o.ring.Wake()
	o.wg.Wait()
}

// path is the socket's, asked on the owner's goroutine.
func (o *owner) path(t testing.TB) (p ring.Path) {
	done := make(chan struct{})
	require.NoError(t, o.ring.Post(func() { p = o.s.Path(); close(done) }))
	<-done
	return p
}

// counter reads a counter on the owner's goroutine.
func (o *owner) counter(t testing.TB, name string) (v uint64) {
	done := make(chan struct{})
	require.NoError(t, o.ring.Post(func() { v = counter(o.ring, name); close(done) }))
	<-done
	return v
}

// churn changes neighbours of v0 that nobody sends to, rate times a second at most, until enough says so of the number of changes, which it
// returns. Every change is one of a MAC address.
func churn(t testing.TB, rate int, enough func(changes int) bool) (changes int) {
	index := linkOf(t, "v0").Attrs().Index
	start := time.Now()
	for ; !enough(changes); changes++ {
		n := &netlink.Neigh{LinkIndex: index, IP: net.IPv4(10, 0, 0, byte(100+changes%100)), State: netlink.NUD_PERMANENT,
			HardwareAddr: net.HardwareAddr{2, 0, 0, 1, byte(changes / 100 >> 8), byte(changes / 100)}}
		require.NoError(t, netlink.NeighSet(n))
		if late := time.Since(start.Add(time.Duration(changes) * time.Second / time.Duration(rate))); late < 0 {
			time.Sleep(-late)
		}
	}
	return changes
}

// Neighbours have a life of their own. While a thousand of them change a second beside ten thousand echoes, Poll makes no call that may wait for
// the lock of the kernel's configuration, no destination is prepared again, and a ring that sleeps is not woken. There are as many changes and
// echoes as 2.5 s have at these rates; a machine that cannot keep them takes longer, and no bound of time is judged.
func TestNeighbourChurn(t *testing.T) {
	const rate, echoRate, wantChanges, wantEchoes = 1000, 10_000, 2500, 25_000
	s := newShared(t, 1)
	busy, rests := s.own(nil, "10.0.0.1:7000", false), s.own([]int{}, "10.0.0.1:7001", true)
	f := s.flood(netip.MustParseAddrPort("10.0.0.1:7000"), echoRate)
	defer f.end()
	for end := time.Now().Add(patience); busy.heard.Load() < 1000 || busy.counter(t, "stack.prepared_routes") < floodThreads; {
		require.True(t, time.Now().Before(end), "no echoes")
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // what the start of the other ring had the first one do is done
	heard, calls, prepared, waits := busy.heard.Load(), busy.calls.Total(), busy.counter(t, "stack.prepared_routes"), rests.waits.Load()
	before := s.mirror.Stats().Notifications
	began := time.Now()
	changes := churn(t, rate, func(changes int) bool {
		return changes >= wantChanges && busy.heard.Load()-heard >= wantEchoes || time.Since(began) > patience
	})
	took := time.Since(began)
	assert.Equal(t, prepared, busy.counter(t, "stack.prepared_routes"), "destinations prepared again")
	assert.Equal(t, waits, rests.waits.Load(), "the ring that rests was woken")
	assert.Equal(t, calls, busy.calls.Total(), "configuration calls in Poll: %v", busy.calls)
	assert.Zero(t, rests.calls.Total(), "configuration calls of the ring that rests: %v", rests.calls)
	echoes := busy.heard.Load() - heard
	t.Logf("%d changes, %d echoes, in %v", changes, echoes, took)
	require.GreaterOrEqual(t, changes, wantChanges)
	require.GreaterOrEqual(t, echoes, int64(wantEchoes))
	require.GreaterOrEqual(t, s.mirror.Stats().Notifications-before, uint64(changes)/2, "the mirror was told")
}

// A neighbour that a ring sends to is another matter: its destinations are prepared again, those of other neighbours are not.
func TestNeighbourOfADestination(t *testing.T) {
	s := newShared(t, 1)
	set, r := s.set(nil)
	u := s.open(set, "10.0.0.1:7000")
	frames := newFrameSocket(t, s.Net)
	far := netip.MustParseAddrPort("10.0.0.200:9")
	mac := func(last byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 9, 9, last} }
	neighbour(t, "v0", far.Addr(), mac(0))
	near := netip.AddrPortFrom(s.Peer(0), 9)
	send := func(to netip.AddrPort, text string) {
		_, err := u.SendTo([]byte(text), to)
		require.NoError(t, err)
		require.NoError(t, r.Flush())
	}
	dst := make([]ring.Completion, 8)
	mirrored := func(last byte) { // until the mirror has it
		index := linkOf(t, "v0").Attrs().Index
		for end := time.Now().Add(patience); ; {
			require.True(t, time.Now().Before(end))
			if n, ok := s.mirror.Snapshot().Neighbour(host.Target{Interface: index, Addr: far.Addr()}); ok && n.MAC[5] == last {
				break
			}
		}
		_, err := r.Poll(dst)
		require.NoError(t, err)
	}
	mirrored(0)
	send(near, "near")
	send(far, "far 0")
	require.Equal(t, mac(0).String(), frames.target("far 0").String())
	for i := byte(1); i < 20; i++ {
		before := counter(r, "stack.prepared_routes")
		neighbour(t, "v0", far.Addr(), mac(i))
		mirrored(i)
		text := fmt.Sprint("far ", i)
		send(near, "near")
		require.Equal(t, before, counter(r, "stack.prepared_routes"), "the other neighbour's")
		send(far, text)
		require.Equal(t, before+1, counter(r, "stack.prepared_routes"))
		require.Equal(t, mac(i).String(), frames.target(text).String())
	}
}

// A driver whose links are its caller's asks them once a second whether they live: not in Poll.
func TestLinksAreCheckedBesidePoll(t *testing.T) {
	c := newCable(t, 1)
	var calls *testnet.Calls
	var wg sync.WaitGroup
	s := &shared{cable: c}
	s.on(&wg, func() {
		sc := ring.SetConfig{Transport: kernel.New(), Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 1024, Headroom: 192})}
		c.plug(&sc, xdp.Config{})
		set, err := ring.NewSet(sc)
		if !assert.NoError(t, err) {
			return
		}
		u := s.open(set, "10.0.0.1:7000")
		dst := make([]ring.Completion, 8)
		calls = testnet.ConfigurationCalls(t)
		for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); {
			_, err := u.Ring().Poll(dst)
			assert.NoError(t, err)
		}
		assert.Zero(t, calls.Total(), "%v", calls)
		assert.NoError(t, set.Close())
	})
	wg.Wait()
}

// An interface that is lost and comes back costs the owner's Poll no configuration call: not when the program is taken off, not when the
// interface goes down and up, not when it is deleted and made again and the kernel has forgotten the group that was joined on it.
func TestLossAndReturnBesidePoll(t *testing.T) {
	s, detach := detachable(t)
	group := netip.MustParseAddr("239.1.1.1")
	o := s.own(nil, "0.0.0.0:7000", false, group)
	o.loses.Store(true)
	until := func(tier string) {
		t.Helper()
		for end := time.Now().Add(patience); o.path(t).Tier != tier; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(end), "%v", o.path(t))
		}
	}
	until("bypass")
	for _, c := range []struct {
		name     string
		lose     func()
		restored func()
	}{
		{"the program is taken off", detach, func() {}},
		{"down and up", s.Lose, s.Restore},
		{"deleted and made again", func() { require.NoError(t, netlink.LinkDel(linkOf(t, "v0"))) }, func() { s.Again(0) }},
	} {
		before := o.calls.String()
		c.lose()
		until("kernel")
		c.restored()
		until("bypass")
		require.Equal(t, before, o.calls.String(), "%s: configuration calls of Poll", c.name)
		heard := o.heard.Load()
		for end := time.Now().Add(patience); o.heard.Load() == heard; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(end), "%s: nothing comes: %v", c.name, o.path(t))
			p := s.Dial(netip.AddrPortFrom(group, 7000))
			send(t, p, 1)
			require.NoError(t, p.Close())
		}
	}
}
