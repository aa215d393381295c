package host

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

const patience = 20 * time.Second

// fake is a kernel made up by a test.
type fake struct {
	mu      sync.Mutex
	tables  Facts
	errs    []error // of the next reads
	read    []part  // what was read
	kicked  []Target
	kickErr error
	after   func() // called once, at the end of a read

	said  chan func() (batch, error)
	ended chan struct{}
}

func newFake(f Facts) *fake {
	return &fake{tables: f, said: make(chan func() (batch, error), 1000), ended: make(chan struct{})}
}

func (f *fake) next(wait bool, deadline time.Time) (batch, error) {
	if !wait {
		select {
		case s := <-f.said:
			return s()
		case <-f.ended:
			return batch{}, errClosed
		default:
			return batch{}, errTime
		}
	}
	var late <-chan time.Time
	if !deadline.IsZero() {
		late = time.After(time.Until(deadline))
	}
	select {
	case s := <-f.said:
		return s()
	case <-f.ended:
		return batch{}, errClosed
	case <-late:
		return batch{}, errTime
	}
}

func (f *fake) fetch(want part, to *Facts) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = append(f.read, want)
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		if err != nil {
			return err
		}
	}
	if want&partLinks != 0 {
		to.Links = append([]Link(nil), f.tables.Links...)
	}
	if want&partAddresses != 0 {
		to.Addresses = append([]Address(nil), f.tables.Addresses...)
	}
	if want&partRoutes != 0 {
		to.Routes = append([]Route(nil), f.tables.Routes...)
	}
	if want&partRules != 0 {
		to.Rules = f.tables.Rules
	}
	if want&partNeighbours != 0 {
		to.Neighbours = append([]Neighbour(nil), f.tables.Neighbours...)
	}
	if f.after != nil {
		f.after()
		f.after = nil
	}
	return nil
}

func (f *fake) request(t Target) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kicked = append(f.kicked, t)
	return f.kickErr
}

func (f *fake) refresh() bool {
	f.said <- func() (batch, error) { return batch{stale: partRefresh}, nil }
	return true
}

func (f *fake) stop()  { close(f.ended) }
func (f *fake) close() {}

// say changes the tables and notifies.
func (f *fake) say(edit func(t *Facts), b batch) {
	f.mu.Lock()
	if edit != nil {
		edit(&f.tables)
	}
	f.mu.Unlock()
	f.said <- func() (batch, error) { return b, nil }
}

// neighbour notifies of one neighbour.
func (f *fake) neighbour(n Neighbour, gone bool) {
	f.say(nil, batch{neighbours: []neighbourChange{{n, gone}}})
}

func (f *fake) kicks() []Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Target(nil), f.kicked...)
}

func ip(s string) netip.Addr       { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

const up = unix.IFF_UP | unix.IFF_LOWER_UP

// twoLinks is a host with eth0 (10.0.0.1/24) and eth1 (10.0.1.1/24), a default route through each, eth0's preferred.
func twoLinks() Facts {
	f := Facts{
		Links: []Link{
			{Index: 1, Name: "lo", Type: unix.ARPHRD_LOOPBACK, MTU: 65536, Flags: up | unix.IFF_LOOPBACK, Netns: -1},
			{Index: 2, Name: "eth0", Type: unix.ARPHRD_ETHER, MAC: wire.MAC{2, 0, 0, 0, 0, 2}, MTU: 1500, Flags: up, Netns: -1},
			{Index: 3, Name: "eth1", Type: unix.ARPHRD_ETHER, MAC: wire.MAC{2, 0, 0, 0, 0, 3}, MTU: 9000, Flags: up, Netns: -1},
		},
		Addresses: []Address{{Interface: 1, Local: ip("127.0.0.1"), Prefix: prefix("127.0.0.0/8"), Scope: unix.RT_SCOPE_HOST}},
		Routes: []Route{{Table: unix.RT_TABLE_LOCAL, Type: Local, Prefix: prefix("127.0.0.0/8"), Scope: unix.RT_SCOPE_HOST,
			Source: ip("127.0.0.1"), Hops: []NextHop{{Interface: 1, Weight: 1}}}},
	}
	for i := range 2 {
		net := fmt.Sprintf("10.0.%d.", i)
		f.Addresses = append(f.Addresses, Address{Interface: i + 2, Local: ip(net + "1"), Prefix: prefix(net + "0/24"),
			Broadcast: ip(net + "255")})
		hop := []NextHop{{Interface: i + 2, Weight: 1}}
		f.Routes = append(f.Routes,
			Route{Table: unix.RT_TABLE_LOCAL, Type: Local, Prefix: prefix(net + "1/32"), Scope: unix.RT_SCOPE_HOST, Source: ip(net + "1"), Hops: hop},
			Route{Table: unix.RT_TABLE_LOCAL, Type: Broadcast, Prefix: prefix(net + "255/32"), Scope: unix.RT_SCOPE_LINK, Source: ip(net + "1"), Hops: hop},
			Route{Table: unix.RT_TABLE_MAIN, Type: Unicast, Prefix: prefix(net + "0/24"), Scope: unix.RT_SCOPE_LINK, Source: ip(net + "1"), Hops: hop},
			Route{Table: unix.RT_TABLE_MAIN, Type: Unicast, Prefix: prefix("0.0.0.0/0"), Metric: uint32(100 * (i + 1)),
				Hops: []NextHop{{Interface: i + 2, Gateway: ip(net + "254"), Weight: 1}}})
	}
	return f
}

// newHost opens a host on a fake; it is closed at the end of the test.
func newHost(t *testing.T, f *fake) *Host {
	t.Helper()
	h, err := open(f, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(200 * time.Microsecond) {
		require.True(t, time.Now().Before(end), "waiting until %s", what)
	}
}

func neighbour(t Target, state State, mac byte) Neighbour {
	n := Neighbour{Target: t, State: state}
	if mac != 0 {
		n.MAC = wire.MAC{2, 0, 0, 0, 0, mac}
	}
	return n
}

var gateway = Target{2, ip("10.0.0.254")}

func TestMirrorFollows(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	q := Query{Target: ip("8.8.8.8")}
	route := func() RouteResult {
		w, err := h.Snapshot().Route(q)
		require.NoError(t, err)
		return w
	}
	require.Equal(t, 2, route().Interface)
	old := h.Snapshot()
	require.Equal(t, old.Generation(), h.Generation())

	f.say(func(t *Facts) { t.Links[1].Flags = 0 }, batch{stale: partLinks | partRoutes})
	eventually(t, "the generation moves", func() bool { return h.Generation() != old.Generation() })
	require.Equal(t, 3, route().Interface, "eth0 is down")
	w, err := old.Route(q)
	require.NoError(t, err)
	require.Equal(t, 2, w.Interface, "a snapshot never changes")

	before := h.Generation()
	f.say(func(t *Facts) { t.Links[2].MTU = 1400 }, batch{stale: partLinks})
	eventually(t, "the generation moves", func() bool { return h.Generation() != before })
	require.Equal(t, 1400, route().MTU)
}

// TestNothingNewKeepsTheGeneration: a socket must not ask again for nothing.
func TestNothingNewKeepsTheGeneration(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	before, reads := h.Generation(), h.Stats().Reads
	f.say(nil, batch{stale: partAll &^ partNeighbours})
	eventually(t, "it was read again", func() bool { return h.Stats().Reads > reads })
	f.neighbour(neighbour(gateway, unix.NUD_REACHABLE, 9), false)
	eventually(t, "the neighbour is there", func() bool { return h.Snapshot().NumNeighbours() == 1 })
	require.Equal(t, before, h.Generation(), "a neighbour is no table")
	changes := h.Snapshot().NeighbourChanges()
	require.EqualValues(t, 1, changes)

	for _, s := range []State{unix.NUD_STALE, unix.NUD_DELAY, unix.NUD_PROBE, unix.NUD_REACHABLE} {
		f.neighbour(neighbour(gateway, s, 9), false)
		eventually(t, "the state is "+s.String(), func() bool { n, _ := h.Snapshot().Neighbour(gateway); return n.State == s })
		require.Equal(t, changes, h.Snapshot().NeighbourChanges(), "%s has the same MAC address", s)
		require.Equal(t, before, h.Generation())
	}
}

// TestNeighbourChangesAreLogged: who has changed, and that the tables have not.
func TestNeighbourChangesAreLogged(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	var told []Change
	var mu sync.Mutex
	cancel := h.Watch(func(c Change) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, c)
	})
	for i, c := range []struct {
		n    Neighbour
		gone bool
	}{
		{neighbour(gateway, unix.NUD_INCOMPLETE, 0), false},
		{neighbour(gateway, unix.NUD_REACHABLE, 9), false},
		{neighbour(gateway, unix.NUD_REACHABLE, 7), false}, // another MAC address
		{neighbour(gateway, unix.NUD_FAILED, 7), false},
		{neighbour(gateway, unix.NUD_FAILED, 7), false}, // a failure again: no new answer, but a waiting packet is given up
		{neighbour(gateway, unix.NUD_REACHABLE, 7), false},
		{neighbour(gateway, 0, 0), true},
	} {
		was := h.Snapshot()
		mu.Lock()
		calls := len(told)
		mu.Unlock()
		f.neighbour(c.n, c.gone)
		eventually(t, "a new snapshot", func() bool { return h.Snapshot() != was })
		eventually(t, "the watcher knows", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) > calls })
		require.Equal(t, was.Generation(), h.Generation(), "step %d", i)
		list, whole := h.Snapshot().ChangedNeighbours(was.NeighbourChanges())
		require.True(t, whole)
		require.Equal(t, []Target{gateway}, list, "step %d", i)
		mu.Lock()
		require.Equal(t, Change{Neighbours: list}, told[calls])
		mu.Unlock()
		n, ok := h.Snapshot().Neighbour(gateway)
		require.Equal(t, !c.gone, ok, "step %d", i)
		if ok {
			require.Equal(t, h.Snapshot().serial, n.Serial, "step %d", i)
		}
	}
	cancel()
	calls := len(told)
	f.neighbour(neighbour(gateway, unix.NUD_REACHABLE, 9), false)
	eventually(t, "the neighbour is there", func() bool { return h.Snapshot().NumNeighbours() == 1 })
	require.Len(t, told, calls, "nobody watches")
}

// TestOverrunReadsAllAnew: what the kernel dropped is found by reading.
func TestOverrunReadsAllAnew(t *testing.T) {
	f := newFake(twoLinks())
	f.tables.Neighbours = []Neighbour{neighbour(gateway, unix.NUD_REACHABLE, 9)}
	h := newHost(t, f)
	other := Target{3, ip("10.0.1.254")}
	f.mu.Lock()
	f.tables.Links = f.tables.Links[:2]
	f.tables.Neighbours = []Neighbour{neighbour(other, unix.NUD_REACHABLE, 5)}
	f.mu.Unlock()
	f.said <- func() (batch, error) { return batch{}, errOverrun }
	eventually(t, "eth1 is gone", func() bool { _, there := h.Snapshot().Link(3); return !there })
	require.EqualValues(t, 1, h.Stats().Overruns)
	require.Equal(t, partAll, f.read[len(f.read)-1])
	_, there := h.Snapshot().Neighbour(gateway)
	require.False(t, there, "its deletion was lost, the reading showed it")
	n, there := h.Snapshot().Neighbour(other)
	require.True(t, there)
	require.True(t, n.Usable())
}

// TestOlderNewsDoNotOutliveAReading: what was said before the table was read whole is not put on top of it.
func TestOlderNewsDoNotOutliveAReading(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	release := make(chan struct{})
	f.said <- func() (batch, error) { <-release; return batch{}, nil }
	f.neighbour(neighbour(gateway, unix.NUD_REACHABLE, 9), false) // its deletion is lost
	f.said <- func() (batch, error) { return batch{}, errOverrun }
	f.neighbour(neighbour(Target{3, ip("10.0.1.9")}, unix.NUD_REACHABLE, 5), false)
	close(release)
	eventually(t, "all was read", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.read) > 1 })
	f.neighbour(neighbour(Target{3, ip("10.0.1.8")}, unix.NUD_REACHABLE, 4), false)
	eventually(t, "the last news are there", func() bool { _, ok := h.Snapshot().Neighbour(Target{3, ip("10.0.1.8")}); return ok })
	_, ghost := h.Snapshot().Neighbour(gateway)
	require.False(t, ghost)
}

// TestAReadingThatIsOvertakenIsRepeated: nobody sees routes without the address that they came with.
func TestAReadingThatIsOvertakenIsRepeated(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	seen := make(chan int, 100)
	h.Watch(func(Change) { l, _ := h.Snapshot().Link(2); seen <- l.MTU })
	f.mu.Lock()
	f.after = func() { // the next read has just been made
		f.tables.Links[1].MTU = 1002
		f.said <- func() (batch, error) { return batch{stale: partLinks}, nil }
	}
	f.mu.Unlock()
	f.say(func(t *Facts) { t.Links[1].MTU = 1001 }, batch{stale: partLinks})
	require.Equal(t, 1002, <-seen)
}

func TestInterruptedAndFailedReadsAreRepeated(t *testing.T) {
	f := newFake(twoLinks())
	f.errs = []error{fmt.Errorf("dump: %w", unix.EINTR), nil}
	h := newHost(t, f)
	f.mu.Lock()
	f.errs = []error{fmt.Errorf("dump: %w", unix.EINTR), fmt.Errorf("dump: %w", unix.ENOBUFS)}
	f.mu.Unlock()
	f.say(func(t *Facts) { t.Links[1].MTU = 1234 }, batch{stale: partLinks})
	eventually(t, "the change is seen", func() bool { l, _ := h.Snapshot().Link(2); return l.MTU == 1234 })
	require.EqualValues(t, 1, h.Stats().Interrupted)
	require.EqualValues(t, 1, h.Stats().Failures)
}

func TestOpenFailsWhenNothingCanBeRead(t *testing.T) {
	f := newFake(twoLinks())
	f.errs = []error{unix.EPERM}
	_, err := open(f, 0)
	require.ErrorIs(t, err, unix.EPERM)
	<-f.ended
}

func TestManyChangesAreFewReads(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	reads := h.Stats().Reads
	release := make(chan struct{})
	f.said <- func() (batch, error) { <-release; return batch{}, nil }
	for n := range 500 {
		f.say(func(t *Facts) { t.Links[1].MTU = 1000 + n }, batch{stale: partLinks})
	}
	close(release)
	eventually(t, "the last is seen", func() bool { l, _ := h.Snapshot().Link(2); return l.MTU == 1499 })
	require.Less(t, h.Stats().Reads-reads, uint64(10))
}

func TestResolveAsksOnceASecond(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	asked, err := h.Resolve(gateway)
	require.NoError(t, err)
	require.True(t, asked)
	for range 100 {
		asked, err = h.Resolve(gateway)
		require.NoError(t, err)
		require.False(t, asked)
	}
	asked, err = h.Resolve(Target{3, gateway.Addr})
	require.NoError(t, err)
	require.True(t, asked, "another interface is another neighbour")
	eventually(t, "both were asked for", func() bool { return len(f.kicks()) == 2 })
	require.Equal(t, []Target{gateway, {3, gateway.Addr}}, f.kicks())
	require.EqualValues(t, 100, h.Stats().RequestRefusals)
	require.EqualValues(t, 2, h.Stats().Requests)

	h.resolver.mu.Lock()
	h.resolver.asked[gateway] = time.Now().Add(-askEvery)
	h.resolver.mu.Unlock()
	asked, err = h.Resolve(gateway)
	require.NoError(t, err)
	require.True(t, asked, "a second later")
}

func TestResolveIsBounded(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	now := time.Now()
	for n := range askedMax {
		require.True(t, h.resolver.noteRequest(Target{1 + n, gateway.Addr}, now))
	}
	require.False(t, h.resolver.noteRequest(Target{askedMax + 1, gateway.Addr}, now))
	require.True(t, h.resolver.noteRequest(Target{askedMax + 1, gateway.Addr}, now.Add(askEvery)), "the old ones are forgotten")
}

func TestKickFailureIsCounted(t *testing.T) {
	f := newFake(twoLinks())
	f.kickErr = unix.ENETDOWN
	h := newHost(t, f)
	_, err := h.Resolve(gateway)
	require.NoError(t, err)
	eventually(t, "it is counted", func() bool { return h.Stats().RequestFailures == 1 })
}

func TestHopIsKeptWhileTouched(t *testing.T) {
	f := twoLinks()
	f.Neighbours = []Neighbour{neighbour(gateway, unix.NUD_REACHABLE, 9)}
	h := &Host{refresh: 4 * time.Second}
	h.publish(NewSnapshot(f, 1))
	h.resolver = newResolver(h) // not running: the test brings the time
	hop, err := h.Hold(gateway)
	require.NoError(t, err)
	again, err := h.Hold(gateway)
	require.NoError(t, err)
	require.Same(t, hop, again)

	start := time.Now()
	at := func(d time.Duration) int { return len(h.resolver.due(nil, start.Add(d))) }
	require.Zero(t, at(0), "nothing was sent")
	hop.Touch()
	require.Equal(t, 1, at(0))
	require.Zero(t, at(time.Hour), "nothing was sent since")
	hop.Touch()
	require.Zero(t, at(3*time.Second), "confirmed: every 4 s are enough")
	require.Equal(t, 1, at(4*time.Second))

	f.Neighbours[0].State = unix.NUD_STALE
	h.publish(NewSnapshot(f, 2))
	hop.Touch()
	require.Equal(t, 1, at(5*time.Second), "not confirmed: every second")
	hop.Touch()
	require.Zero(t, at(5*time.Second+900*time.Millisecond))

	hop.Release()
	require.Len(t, h.resolver.hops, 1)
	hop.Release()
	require.Empty(t, h.resolver.hops)
	require.Panics(t, hop.Release)
	require.Zero(t, testing.AllocsPerRun(100, hop.Touch))
}

// TestGivenEntriesAreLeftAlone: asking for a permanent entry would make it expire.
func TestGivenEntriesAreLeftAlone(t *testing.T) {
	f := newFake(twoLinks())
	f.tables.Neighbours = []Neighbour{neighbour(gateway, unix.NUD_PERMANENT, 9)}
	h := newHost(t, f)
	_, err := h.Resolve(gateway)
	require.NoError(t, err)
	_, err = h.Resolve(Target{3, ip("10.0.1.9")})
	require.NoError(t, err)
	eventually(t, "the other was asked for", func() bool { return len(f.kicks()) == 1 })
	require.Equal(t, 3, f.kicks()[0].Interface)
}

func TestArgumentsAreChecked(t *testing.T) {
	h := newHost(t, newFake(twoLinks()))
	for _, target := range []Target{{}, {-1, ip("10.0.0.1")}, {2, netip.Addr{}}, {2, ip("::1")}, {2, ip("0.0.0.0")}, {2, ip("239.0.0.1")}} {
		_, err := h.Resolve(target)
		require.ErrorIs(t, err, unix.EINVAL, "%v", target)
		_, err = h.Hold(target)
		require.ErrorIs(t, err, unix.EINVAL, "%v", target)
	}
	for says, c := range map[string]Config{
		"ReceiveBuffer -1": {ReceiveBuffer: -1}, "Refresh -1ns": {Refresh: -1}, "NamespaceFD -2": {NamespaceFD: -2},
		"both Namespace": {Namespace: "/x", NamespaceFD: 3}, "/there/is/none": {Namespace: "/there/is/none"},
	} {
		_, err := Open(c)
		require.ErrorContains(t, err, says)
	}
}
