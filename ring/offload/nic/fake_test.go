package nic

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
)

// world is a made-up host with the interfaces e0 and e1, the members of the bond b0, and v0, VLAN 5 of e0; their devices are made up too.
type world struct {
	t      *testing.T
	facts  host.Facts
	change func(host.Facts)
	host   *host.Host
	table  *Table
	pool   *buffers.DriverPool
	now    clock.Time

	mu      sync.Mutex
	gates   map[string]chan struct{} // calls that wait there, by what they do: open, prepare, close, shut
	waiting map[string]int
	open    map[string]*fakeDevice
	opened  int
	links   int             // that are not closed
	failing map[string]bool // opening them fails
	queues  int             // of each device
	leftOut []int           // of them, those that devices are not to open
	linkMTU int             // of each queue
	refuse  map[int]bool    // queues that cannot be opened
	broken  map[int]bool    // queues that cannot be started
	guards  fakeGuards
	conns   fakeConns
}

const (
	e0 = iota + 1
	e1
	v0
	b0
)

var errFake = errors.New("not now")

func newWorld(t *testing.T) *world {
	up := uint32(unix.IFF_UP | unix.IFF_LOWER_UP)
	w := &world{t: t, gates: map[string]chan struct{}{}, waiting: map[string]int{}, open: map[string]*fakeDevice{}, failing: map[string]bool{},
		refuse: map[int]bool{}, broken: map[int]bool{}, queues: 1, linkMTU: 1500, now: 1e9}
	w.facts.Links = []host.Link{
		{Index: e0, Name: "e0", Type: unix.ARPHRD_ETHER, Flags: up, MTU: 1500},
		{Index: e1, Name: "e1", Type: unix.ARPHRD_ETHER, Flags: up, MTU: 1500},
		{Index: v0, Name: "v0", Type: unix.ARPHRD_ETHER, Flags: up, MTU: 1500, Kind: host.KindVLAN, Parent: e0, VLAN: 5},
		{Index: b0, Name: "b0", Type: unix.ARPHRD_ETHER, Flags: up, MTU: 1500, Kind: host.KindBond},
	}
	var err error
	w.host, w.change, err = host.OpenTables(w.facts)
	require.NoError(t, err)
	l := buffers.Layout{SmallSize: 2048, SmallCount: 64, Headroom: 192}
	w.pool, err = buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	w.table = NewTable(TableConfig{Host: w.host, Open: w.openDevice})
	t.Cleanup(func() {
		require.Zero(t, w.links, "links are left open")
		require.Empty(t, w.open, "devices are left open")
		require.NoError(t, w.host.Close())
	})
	return w
}

// having changes the host's tables and waits until the mirror has them.
func (w *world) having(name string, change func(*host.Link)) {
	w.facts.Links = slices.Clone(w.facts.Links)
	i := slices.IndexFunc(w.facts.Links, func(l host.Link) bool { return l.Name == name })
	change(&w.facts.Links[i])
	before := w.host.Snapshot().Generation()
	w.change(w.facts)
	require.Eventually(w.t, func() bool { return w.host.Snapshot().Generation() != before }, 10*time.Second, time.Millisecond)
}

// hold has calls of a kind wait until they are let pass.
func (w *world) hold(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gates[what] = make(chan struct{})
}

func (w *world) pass(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gates[what])
	delete(w.gates, what)
}

func (w *world) gate(what string) {
	w.mu.Lock()
	g := w.gates[what]
	w.waiting[what]++
	w.mu.Unlock()
	if g != nil {
		<-g
	}
	w.mu.Lock()
	w.waiting[what]--
	w.mu.Unlock()
}

// held waits until a call waits there.
func (w *world) held(what string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.waiting[what] > 0
	}, 10*time.Second, time.Millisecond, what)
}

func (w *world) openDevice(name string, _ Patience) (Device, error) {
	w.gate("open")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing[name] {
		return nil, errFake
	}
	if w.open[name] != nil {
		return nil, unix.EBUSY
	}
	l, _ := w.host.Snapshot().LinkByName(name)
	d := &fakeDevice{w: w, claims: map[link.Flow]bool{}, passed: map[link.Flow]bool{}, info: link.Info{Name: name, Index: l.Index, MTU: 1500, Headroom: 128}}
	w.open[name] = d
	w.opened++
	return d, nil
}

// fakeDevice is a device without frames.
type fakeDevice struct {
	w      *world
	info   link.Info
	claims map[link.Flow]bool
	passed map[link.Flow]bool
	lost   bool
}

func (d *fakeDevice) Claim(f link.Flow) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.guards.note("device claims", f)
	d.claims[f] = true
	return nil
}

func (d *fakeDevice) Release(f link.Flow) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.guards.note("device releases", f)
	delete(d.claims, f)
	return nil
}

func (d *fakeDevice) Pass(f link.Flow) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.w.conns.full {
		return errFake
	}
	d.w.guards.note("device passes", f)
	d.passed[f] = true
	return nil
}

func (d *fakeDevice) StopPassing(f link.Flow) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.guards.note("device stops passing", f)
	delete(d.passed, f)
	return nil
}

func (d *fakeDevice) OnLost(func()) {}

func (d *fakeDevice) OpenGuard() (Guard, error) { return d.w.openGuard(d.info) }

func (d *fakeDevice) AddAddr(netip.Addr, uint16) error    { return nil }
func (d *fakeDevice) RemoveAddr(netip.Addr, uint16) error { return nil }
func (d *fakeDevice) Info() link.Info                     { return d.info }
func (d *fakeDevice) Path() link.Path                     { return link.Path{Kind: "fake", Interface: d.info.Name} }

func (d *fakeDevice) Counters(dst []link.Counter) []link.Counter { return dst }

func (d *fakeDevice) Queues() (list []int) {
	for q := range d.w.queues {
		if !slices.Contains(d.w.leftOut, q) {
			list = append(list, q)
		}
	}
	return list
}

func (d *fakeDevice) LeftOut() []int { return d.w.leftOut }

func (d *fakeDevice) Check() error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.lost {
		return link.ErrDetached
	}
	return nil
}

func (d *fakeDevice) Close() error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.guards.note("device closes", link.Flow{})
	delete(d.w.open, d.info.Name)
	return nil
}

func (d *fakeDevice) PrepareQueue(queue int, _ *buffers.DriverPool, _ int) (link.Staged, error) {
	d.w.gate("prepare")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.w.refuse[queue] {
		return nil, errFake
	}
	d.w.links++
	i := d.info
	i.Queue, i.MTU = queue, d.w.linkMTU
	return &fakeLink{d: d, info: i}, nil
}

// lose has the program of an interface taken off.
func (w *world) lose(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[name].lost = true
}

// fakeLink is a queue without frames. Methods that an attachment does not call are those of nil.
type fakeLink struct {
	link.Link
	d      *fakeDevice
	info   link.Info
	closed bool
}

func (l *fakeLink) Info() link.Info            { return l.info }
func (l *fakeLink) Path() link.Path            { return l.d.Path() }
func (l *fakeLink) Check() error               { return l.d.Check() }
func (l *fakeLink) Pending() bool              { return false }
func (l *fakeLink) Complete(_ []link.Done) int { return 0 }
func (l *fakeLink) Stop()                      {}
func (l *fakeLink) Shut() error                { l.d.w.gate("shut"); return nil }
func (l *fakeLink) Retire() error              { return l.end() }
func (l *fakeLink) Close() error               { l.d.w.gate("close"); return l.end() }

func (l *fakeLink) Start() error {
	if l.d.w.broken[l.info.Queue] {
		return errors.Join(errFake, l.end())
	}
	return nil
}

func (l *fakeLink) end() error {
	l.d.w.mu.Lock()
	defer l.d.w.mu.Unlock()
	if l.closed {
		return link.ErrClosed
	}
	l.closed = true
	l.d.w.links--
	return nil
}

// fakeRing is what a driver sees of its attachments.
type fakeRing struct {
	w        *world
	a        *Attachments
	links    []*Link // by place; nil: no link
	down     map[int]bool
	targets  []steering.Target
	told     int // PathsChanged
	refuse   error
	renamed  [][2]int
	rejoin   *Job
	unclosed int // removed, and not told to be closed yet

	onRenumbered func() // called by LinkRenumbered; nil: nothing
}

func (w *world) ring(number int) *fakeRing {
	r := &fakeRing{w: w, down: map[int]bool{}}
	r.a = New(Config{Table: w.table, Ring: number, Pool: w.pool, Clock: func() clock.Time { return w.now }, Wake: func() {}, Events: r})
	return r
}

func (r *fakeRing) LinkRenumbered(place int, l *Link) {
	c := *l
	r.links[place] = &c
	if r.onRenumbered != nil {
		r.onRenumbered()
	}
}

func (r *fakeRing) LinkAdded(place int, l *Link) error {
	for len(r.links) <= place {
		r.links = append(r.links, nil)
	}
	require.Nil(r.w.t, r.links[place], "the place is taken")
	c := *l
	r.links[place] = &c
	r.down[place] = false
	return nil
}

func (r *fakeRing) LinkRemoved(place int, l link.Link) {
	require.Equal(r.w.t, r.links[place].Link, l)
	if r.links[place] = nil; !IsChildLink(l) {
		r.unclosed++
	}
}

func (r *fakeRing) LinkStopped(place int, _ link.Link) { require.Nil(r.w.t, r.links[place]) }
func (r *fakeRing) LinkClosed(link.Link)               { r.unclosed-- }
func (r *fakeRing) LinkDown(place int, d Down)         { r.down[place] = d.Link }
func (r *fakeRing) LinkRole(place int, role Role)      { r.links[place].Role = role }
func (r *fakeRing) ClaimsChanged()                     {}
func (r *fakeRing) PathsChanged([]int)                 { r.told++ }
func (r *fakeRing) Renumbered(_ string, old, now int) *Job {
	r.renamed = append(r.renamed, [2]int{old, now})
	return r.rejoin
}
func (r *fakeRing) TargetRemoved(t steering.Target) {
	r.targets = slices.DeleteFunc(r.targets, func(x steering.Target) bool { return x == t })
}
func (r *fakeRing) TargetAdded(t steering.Target) error {
	if r.refuse == nil {
		r.targets = append(r.targets, t)
	}
	return r.refuse
}

// carrying is how many places have a link that carries frames.
func (r *fakeRing) carrying() (n int) {
	for i, l := range r.links {
		if l != nil && !r.down[i] {
			n++
		}
	}
	return n
}

// check is a Check some time later.
func (r *fakeRing) check() {
	r.w.now += clock.Time(50 * time.Millisecond)
	r.a.Check(r.w.now)
}

// until checks until an attachment is in a state.
func (r *fakeRing) until(name string, s State) {
	r.w.t.Helper()
	for end := time.Now().Add(10 * time.Second); r.state(name) != s; r.check() {
		require.True(r.w.t, time.Now().Before(end), "%s is %v, want %v", name, r.state(name), s)
		time.Sleep(time.Millisecond)
	}
}

// state is that of the attachment whose addresses are those of an interface; Left when there is none.
func (r *fakeRing) state(name string) State {
	for _, p := range r.a.list {
		if p.Name == name || p.On == name && p.base != nil {
			return p.state
		}
	}
	return Left
}

// close closes the ring's attachments, which waits for what is held: that passes meanwhile.
func (r *fakeRing) close(held ...string) {
	time.AfterFunc(10*time.Millisecond, func() {
		for _, what := range held {
			r.w.pass(what)
		}
	})
	require.NoError(r.w.t, r.a.Close())
	require.Zero(r.w.t, r.carrying())
	require.Zero(r.w.t, r.unclosed)
	require.Empty(r.w.t, r.targets)
}
