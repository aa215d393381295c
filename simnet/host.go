package simnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// poller is what the world does with a host's ring.
type poller interface {
	Poll(dst []ring.Completion) (int, error)
	Arm() (bool, error)
}

// Host is a machine with the production stack: a ring.Set with one ring, driven by ring/offload. It belongs to its world's goroutine.
type Host struct {
	world      *World
	name       string
	number     int
	config     HostConfig
	pool       *buffers.DriverPool
	memoryHost *offload.MemoryHost
	exchange   *offload.Exchange // of the memory host; a machine with a kernel has its own
	set        *ring.Set
	ring       *ring.Ring
	poller     poller
	nics       []*NIC
	handler    func(*ring.Completion)
	dst        []ring.Completion
	kernel     *Kernel    // nil for a machine without one
	queues     []int      // of its interfaces that the ring serves
	shadows    *readyList // of the kernel, which the ring's driver looks at
	due        int64      // when the next turn is
	resume     int64      // of a pause
	turns      uint64
}

// Host adds a host.
func (w *World) Host(name string, c HostConfig) (*Host, error) {
	if err := c.complete(name); err != nil {
		return nil, err
	}
	for _, h := range w.hosts {
		if h.name == name {
			return nil, fmt.Errorf("simnet: host %s: there is one already", name)
		}
	}
	h := &Host{world: w, name: name, number: len(w.hosts) + 1, config: c, due: never, dst: make([]ring.Completion, c.Batch)}
	if err := h.makeStack(w.Rand("host " + name)); err != nil {
		for _, n := range h.nics {
			_ = n.Close() // what the driver has closed already says so
		}
		return nil, fmt.Errorf("simnet: host %s: %w", name, err)
	}
	w.hosts = append(w.hosts, h)
	return h, nil
}

// makeStack makes a host's pool, cards, tables and ring on links of its own. All its memory is of the Go heap.
func (h *Host) makeStack(random *rand.Rand) (err error) {
	c := &h.config
	// Memory of the Go heap: no kernel and no card is to reach it, and it goes by itself.
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	if h.pool, err = buffers.New(make([]byte, c.Layout.Bytes()), c.Layout); err != nil {
		return err
	}
	links := map[string]link.Staged{}
	var on []nic.Interface
	for i := range c.Addrs {
		n := &NIC{host: h, index: i + 1, name: fmt.Sprintf("eth%d", i), mac: mac(h.number, i+1), mtu: c.MTU, rx: make([]arrived, c.Slots)}
		if n.eventfd, err = sys.NewEventFD(); err != nil {
			return err
		}
		h.nics = append(h.nics, n)
		l := link.Staged(n)
		if c.link != nil {
			l = c.link(l)
		}
		links[n.name] = l
		on = append(on, nic.Interface{Name: n.name})
	}
	if h.memoryHost, err = offload.NewMemoryHost(h.hostFacts(), random.Uint64); err != nil {
		return err
	}
	h.exchange, err = offload.NewExchange(offload.ExchangeConfig{MemoryHost: h.memoryHost, Open: nic.OpenLinks(h.memoryHost, links)})
	if err != nil {
		return err
	}
	return h.buildRing(offload.Config{Exchange: h.exchange, Interfaces: on, Random: random.Uint64}, h.memoryHost)
}

// buildRing makes the host's ring.
func (h *Host) buildRing(oc offload.Config, below ring.Transport) (err error) {
	w, c := h.world, &h.config
	now := func() clock.Time { return clock.Time(w.now + boot + w.after) }
	oc.Clock = now
	oc.Sleep = func(until clock.Time) {
		if until != clock.Never {
			h.scheduleTurn(max(int64(until)-boot, w.now+1))
		}
	}
	oc.Wall = func() int64 { return epoch + w.now }
	oc.Woken = func() { h.scheduleTurn(w.now) }
	driver := offload.New(oc)
	if c.driver != nil {
		inner := driver
		driver = func(dc ring.DriverConfig) (ring.Driver, error) {
			d, err := inner(dc)
			if err != nil {
				return nil, err
			}
			return c.driver(d), nil
		}
	}
	h.set, err = ring.NewSet(ring.SetConfig{Pool: h.pool, Kind: "offload", Driver: driver, Clock: now, Transport: below,
		OneRing: offload.OneRing, Card: h.card})
	if err != nil {
		return err
	}
	if h.ring, err = h.set.NewRing(); err != nil {
		return err
	}
	h.poller = h.ring
	if c.poller != nil {
		h.poller = c.poller(h.ring)
	}
	return nil
}

// boot is what the hosts' clocks show when the world begins: a time of zero may mean none.
const boot = int64(time.Hour)

// hostFacts returns the interfaces, addresses and routes that a kernel would have for the host's cards as they are now.
func (h *Host) hostFacts() (all host.Facts) {
	for i, n := range h.nics {
		f := offload.Facts(host.Link{Index: n.index, Name: n.name, Type: unix.ARPHRD_ETHER, MAC: wire.MAC(n.mac), MTU: n.mtu,
			Flags: unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_BROADCAST | unix.IFF_MULTICAST}, h.config.Addrs[i])
		all.Links = append(all.Links, f.Links...)
		all.Addresses = append(all.Addresses, f.Addresses...)
		all.Routes = append(all.Routes, f.Routes...)
	}
	return all
}

// Name is the host's; Addr its first address.
func (h *Host) Name() string     { return h.name }
func (h *Host) Addr() netip.Addr { return h.config.Addrs[0].Addr() }

// NIC returns the i-th card, to be connected.
func (h *Host) NIC(i int) *NIC { return h.nics[i] }

// Set makes sockets that OpenUDP does not; Ring is what they share; Pool is their buffers. The world polls the ring: nobody else does.
func (h *Host) Set() *ring.Set            { return h.set }
func (h *Host) Ring() *ring.Ring          { return h.ring }
func (h *Host) Pool() *buffers.DriverPool { return h.pool }

// Handle sets what takes the host's completions; the packets in them are its own. Without it they are released. It may send, open and close
// sockets of its host; what is meant for another host's sockets goes there by Host.After.
func (h *Host) Handle(f func(c *ring.Completion)) { h.handler = f }

// OpenUDP makes a socket bound to an address, port 0 meaning any.
func (h *Host) OpenUDP(local netip.AddrPort, c ring.Config) (*ring.Socket, error) {
	s, err := h.set.NewSocket(ring.KindDatagram, ring.IPv4, c)
	if err != nil {
		return nil, err
	}
	if err := s.Bind(local); err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s, nil
}

// After runs f when d has passed, in a turn of the host: what f sends leaves at that very time. While the host is paused f waits.
func (h *Host) After(d time.Duration, f func()) {
	w := h.world
	w.push(event{at: w.now + max(int64(d), 0), kind: evCall, host: h, run: f})
}

// Pause stops the host for so long: it is not polled, functions of After do not run, and received frames wait as far as the cards have room.
// That is how a long handler, a garbage collection or a stopped process looks to the network.
func (h *Host) Pause(d time.Duration) {
	h.resume = max(h.resume, h.world.now+int64(d))
	h.scheduleTurn(h.resume)
}

// SetMTU changes the MTU of an interface: longer packets are refused from now on. Cards receive longer ones nevertheless.
func (h *Host) SetMTU(nic, mtu int) error {
	if nic < 0 || nic >= len(h.nics) || mtu < 68 || mtu > 65535 {
		return fmt.Errorf("simnet: host %s: set MTU: interface %d of %d, MTU %d, must be 68 to 65535", h.name, nic, len(h.nics), mtu)
	}
	h.nics[nic].mtu = mtu
	h.memoryHost.SetFacts(h.hostFacts())
	h.scheduleTurn(h.world.now)
	return nil
}

// Counter is a count of the host's ring by its name, such as "udp.no_socket"; see ring.RingStats.Driver.
func (h *Host) Counter(name string) uint64 {
	for _, c := range h.ring.Stats().Driver {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

// never is later than every event.
const never = int64(1<<63 - 1)

// scheduleTurn makes the host take a turn at a time, or before.
func (h *Host) scheduleTurn(at int64) {
	if h.due <= at || h.world.closing {
		return
	}
	h.due = at
	h.world.push(event{at: at, kind: evTurn, host: h})
}

// turnLimit is how often a host may poll at one time before it is said to be going round in circles.
const turnLimit = 10_000

// turn polls the host's ring until it has nothing more to do, and gives the completions to the handler. The Arm that finds nothing schedules the
// next turn, for the ring's deadline: the driver sleeps by the function that buildRing gives it. While the host is paused the turn is put off.
func (h *Host) turn() {
	w := h.world
	if w.now < h.resume {
		h.due = never
		h.scheduleTurn(h.resume)
		return
	}
	h.due = never
	for range turnLimit {
		h.turns++
		n, err := h.poller.Poll(h.dst)
		if err != nil {
			w.fail(fmt.Errorf("simnet: host %s: poll: %w", h.name, err))
			return
		}
		for i := range h.dst[:n] {
			h.deliverCompletion(&h.dst[i])
		}
		if n == len(h.dst) {
			continue
		}
		pending, err := h.poller.Arm()
		if err != nil {
			w.fail(fmt.Errorf("simnet: host %s: arm: %w", h.name, err))
			return
		}
		if !pending && (h.shadows == nil || !h.shadows.isReady()) {
			return
		}
	}
	w.fail(fmt.Errorf("simnet: livelock: host %s has polled %d times at %v and still finds work", h.name, turnLimit, w.Now()))
}

// deliverCompletion notes a completion in the trace and gives it to the host's handler; without one it releases the packet.
func (h *Host) deliverCompletion(c *ring.Completion) {
	w := h.world
	w.noteCompletion(h, c)
	if w.watch != nil {
		w.watch.completed(h, c)
	}
	if h.handler != nil {
		h.handler(c)
	} else {
		_ = c.Packet.Release() // nobody asked for it; a completion without one has nothing to release
	}
	*c = ring.Completion{}
}
