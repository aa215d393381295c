package simnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// KernelConfig describes a machine with a kernel. Only Addrs is needed.
type KernelConfig struct {
	Addrs    []netip.Prefix // the first one's interface is eth0, the next one's eth1, and so on
	MTU      int            // of all interfaces; 0 means 1,500
	Queues   int            // receive queues of each interface; 0 means 1
	QueueLen int            // frames that wait at each queue's AF_XDP socket; 0 means 256
	// MirrorDelay is the longest time until a change of the tables is in the mirror, ClaimDelay until a claim has effect, JobDelay until a
	// job of a ring (opening and closing devices, joining again) runs; 0 means 1 ms, 100 µs and 5 ms. Each takes a part of it that is drawn
	// from the seed.
	MirrorDelay, ClaimDelay, JobDelay time.Duration
	// Reachable is how long a neighbour's entry is confirmed, and how long an unused one that is not is kept; 0 means 5 s.
	Reachable time.Duration

	device func(nic.Device) nic.Device        // for tests that plant bugs: what stands between the rings and the program on an interface,
	calls  func(shadow.Kernel) shadow.Kernel  // their sockets,
	job    func() (isLost bool)               // their jobs,
	notice func(what func()) (instead func()) // changes what the mirror is notified of
}

// complete checks the fields and sets those that are zero to their defaults.
func (c *KernelConfig) complete(name string) error {
	if err := checkAddrs(c.Addrs); err != nil {
		return fmt.Errorf("simnet: kernel %s: %w", name, err)
	}
	for _, x := range []*int{&c.MTU, &c.Queues, &c.QueueLen} {
		if *x < 0 {
			return fmt.Errorf("simnet: kernel %s: %d is negative", name, *x)
		}
	}
	c.MTU = orDefault(c.MTU, 1500)
	c.Queues = orDefault(c.Queues, 1)
	c.QueueLen = orDefault(c.QueueLen, 256)
	c.MirrorDelay = orDefault(c.MirrorDelay, time.Millisecond)
	c.ClaimDelay = orDefault(c.ClaimDelay, 100*time.Microsecond)
	c.JobDelay = orDefault(c.JobDelay, 5*time.Millisecond)
	c.Reachable = orDefault(c.Reachable, 5*time.Second)
	return nil
}

// orDefault returns x, or otherwise if x is zero.
func orDefault[T int | time.Duration](x, otherwise T) T {
	if x == 0 {
		return otherwise
	}
	return x
}

// Kernel is a machine whose kernel is the authority: it has the addresses, routes, neighbours, links, memberships and UDP sockets, and what no
// ring has claimed. Rings of it are Hosts, see [Kernel.Host]; KernelSockets are those of its other programs. It belongs to its world's
// goroutine.
type Kernel struct {
	world    *World
	name     string
	number   int
	config   KernelConfig
	random   *rand.Rand
	nics     []*KernelNIC
	exchange *offload.Exchange
	mirror   *host.Host
	steps    *host.Steps
	snapshot *host.Snapshot // the tables as the kernel has them
	changes  uint64
	mirrored int64 // when the mirror has all notifications so far

	sockets   map[int]*ksocket // by descriptor
	sorted    []*ksocket       // the same in order; nil after a change
	nextFD    int
	nextIndex int
	lists     []*readyList
	hosts     []*Host

	neighbours map[host.Target]*neighbour
	stats      KernelStats
	watcher    kernelWatcher
}

// KernelStats are totals of a kernel's stack. Each lost frame or datagram is in one of them.
type KernelStats struct {
	Steered    uint64 // frames that went to a ring's queue
	Strayed    uint64 // frames that a claim matches and that came on a queue without a ring: the kernel has them
	Received   uint64 // datagrams for the kernel's stack
	Delivered  uint64 // to sockets: each as often as it has some
	NoSocket   uint64 // datagrams that no socket is for
	RcvbufFull uint64 // datagrams that found no room at a socket
	Sent       uint64 // datagrams that sockets sent by interfaces
	Unresolved uint64 // frames whose neighbour did not answer
	LostDown   uint64 // frames that came or were to leave while the interface was down, or had no carrier
	Malformed  uint64 // frames that are not whole
	NotOurs    uint64 // frames for other stations, addresses or groups
}

// kernelWatcher sees what passes a kernel; the world's own tests judge by it.
type kernelWatcher interface {
	arrived(n *KernelNIC, f *frame, to arrivedAt)
	left(n *KernelNIC, b []byte, byRing bool)
	lost(payload []byte) // behind arrived: at a queue that is closed, or at a socket without room
}

// arrivedAt is where a frame went.
type arrivedAt uint8

const (
	atQueue arrivedAt = iota
	atQueueFull
	atStack
	atDown
)

// Kernel adds a machine with a kernel.
func (w *World) Kernel(name string, c KernelConfig) (*Kernel, error) {
	if err := c.complete(name); err != nil {
		return nil, err
	}
	k := &Kernel{world: w, name: name, number: 0x8000 + len(w.kernels), config: c, random: w.Rand("kernel " + name), sockets: map[int]*ksocket{},
		nextFD: 100, neighbours: map[host.Target]*neighbour{}}
	for i, a := range c.Addrs {
		k.nextIndex++
		n := &KernelNIC{kernel: k, index: k.nextIndex, name: fmt.Sprintf("eth%d", i), mac: mac(k.number, i+1), mtu: c.MTU,
			addrs: []netip.Prefix{a}, present: true, up: true, carrier: true, queues: make([]*kqueue, c.Queues)}
		k.nics = append(k.nics, n)
	}
	k.snapshot = host.NewSnapshot(k.facts(), 1)
	calls := shadow.Kernel(kernelCalls{k})
	if c.calls != nil {
		calls = c.calls(calls)
	}
	var err error
	k.mirror, k.steps, err = host.OpenStepped(host.SteppedConfig{Facts: k.facts, Request: k.probeNeighbour,
		Now: func() time.Time { return time.Unix(0, epoch+w.now) }})
	if err != nil {
		return nil, fmt.Errorf("simnet: kernel %s: %w", name, err)
	}
	k.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: k.mirror, Open: k.openDevice,
		System: &offload.System{Kernel: calls, Transport: func() ring.Transport { return transport{k} }, Background: k.background,
			Repeat: k.repeat}})
	if err != nil {
		return nil, fmt.Errorf("simnet: kernel %s: %w", name, err)
	}
	w.kernels = append(w.kernels, k)
	k.tick()
	return k, nil
}

// Name is the machine's; NIC is its i-th interface, to be connected; Stats are its totals.
func (k *Kernel) Name() string         { return k.name }
func (k *Kernel) NIC(i int) *KernelNIC { return k.nics[i] }
func (k *Kernel) Stats() KernelStats   { return k.stats }

// after runs f at a later time. No host takes a turn for it.
func (k *Kernel) after(d time.Duration, f func()) {
	w := k.world
	if !w.closing {
		w.push(event{at: w.now + max(int64(d), 0), kind: evKernel, run: f})
	}
}

// randomPart returns a random time up to longest, at least a microsecond.
func (k *Kernel) randomPart(longest time.Duration) time.Duration {
	return time.Microsecond + time.Duration(k.random.Int64N(int64(longest)))
}

// facts returns the kernel's tables as the mirror reads them.
func (k *Kernel) facts() (f host.Facts) {
	for _, n := range k.nics {
		if !n.present {
			continue
		}
		flags := uint32(unix.IFF_BROADCAST | unix.IFF_MULTICAST)
		if n.up {
			flags |= unix.IFF_UP
			if n.carrier {
				flags |= unix.IFF_LOWER_UP
			}
		}
		x := offload.Facts(host.Link{Index: n.index, Name: n.name, Type: unix.ARPHRD_ETHER, MAC: wire.MAC(n.mac), MTU: n.mtu, Flags: flags,
			Netns: -1, Program: n.otherProgram}, n.addrs...)
		f.Links = append(f.Links, x.Links...)
		f.Addresses = append(f.Addresses, x.Addresses...)
		for _, r := range x.Routes {
			if n.up || r.Type == host.Local { // fib_sync_down_dev
				f.Routes = append(f.Routes, r)
			}
		}
	}
	for t, e := range k.neighbours {
		f.Neighbours = append(f.Neighbours, e.entry(t))
	}
	slices.SortFunc(f.Neighbours, func(a, b host.Neighbour) int {
		if a.Interface != b.Interface {
			return a.Interface - b.Interface
		}
		return a.Addr.Compare(b.Addr)
	})
	return f
}

// onTablesChanged is called after a change of the tables: the kernel's own snapshot is made anew at once, the mirror is notified later.
func (k *Kernel) onTablesChanged() {
	k.changes++
	k.snapshot = host.NewSnapshot(k.facts(), k.changes+1)
	k.notify(func() {
		if err := k.steps.Read(); err != nil {
			k.world.fail(fmt.Errorf("simnet: kernel %s: mirror: %w", k.name, err))
		}
	})
}

// notify makes the mirror read one more notification of the kernel, after a delay. Notifications stay in order.
func (k *Kernel) notify(f func()) {
	if k.config.notice != nil {
		f = k.config.notice(f)
	}
	at := max(k.mirrored, k.world.now+int64(k.randomPart(k.config.MirrorDelay)))
	k.mirrored = at
	k.after(time.Duration(at-k.world.now), f)
}

// tick runs once a second: the mirror does what is due on its clock, and the kernel ages its neighbours.
func (k *Kernel) tick() {
	k.steps.Tick()
	k.ageNeighbours()
	k.after(time.Second, k.tick)
}

// background runs a job that a ring does beside its polling after a delay, once. hasten runs it at once; with a configuration whose job
// function returns true only hasten runs it.
func (k *Kernel) background(work func()) (hasten func()) {
	ended := false
	run := func() {
		if !ended {
			ended = true
			work()
		}
	}
	if d := k.randomPart(k.config.JobDelay); k.config.job == nil || !k.config.job() {
		k.after(d, run)
	}
	return run
}

// repeated is a job that runs again and again, such as the exchange's search for other programs' sockets: each step returns when the next is
// due.
type repeated struct {
	kernel   *Kernel
	step     func(nudged bool) time.Duration
	number   int // of the step that is to come
	sleeping bool
	nudged   bool
	stopped  bool
}

func (k *Kernel) repeat(step func(nudged bool) time.Duration) (nudge, stop func()) {
	r := &repeated{kernel: k, step: step, sleeping: true}
	return r.runSoon, func() { r.stopped = true }
}

// runSoon makes the repeated job run its next step at once, if it is waiting for a call of this.
func (r *repeated) runSoon() {
	if r.nudged = true; r.sleeping {
		r.sleeping = false
		r.schedule(time.Microsecond, nudged)
	}
}

// nudged is the argument of a step that runSoon has asked for; else its time has come.
const nudged = true

// schedule runs the job's next step after d. The step returns when the next one is due; a negative time ends the job, and a very long one
// lets it wait for runSoon.
func (r *repeated) schedule(d time.Duration, isNudged bool) {
	r.number++
	number := r.number
	r.kernel.after(d, func() {
		if r.stopped || number != r.number {
			return
		}
		if isNudged {
			r.nudged = false
		}
		wait := r.step(isNudged)
		switch r.sleeping = wait >= shadow.Nudgeable; {
		case wait < 0:
			r.stopped = true
		case r.sleeping && r.nudged:
			r.sleeping = false
			r.schedule(time.Microsecond, nudged)
		default:
			r.schedule(wait, !nudged)
		}
	})
}

// close ends the machine, whose rings are closed, and returns an error for claims, sockets or memberships that they have left.
func (k *Kernel) close() error {
	if err := k.exchange.Close(); err != nil {
		return fmt.Errorf("simnet: kernel %s: %w", k.name, err)
	}
	for _, s := range k.sockets {
		if s.ours {
			return fmt.Errorf("simnet: leak: kernel %s: descriptor %d of a ring is open: %v", k.name, s.fd, s.local)
		}
	}
	for _, n := range k.nics {
		if d := n.device; d != nil {
			return fmt.Errorf("simnet: leak: kernel %s: %s has a device with %d claims", k.name, n.name, len(d.claims))
		}
	}
	if len(k.lists) > 0 {
		return fmt.Errorf("simnet: leak: kernel %s: %d lists of ready sockets are open", k.name, len(k.lists))
	}
	return errors.Join(k.mirror.Close())
}
