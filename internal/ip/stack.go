package ip

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Config is what a stack is made from.
type Config struct {
	Pool       *buffers.DriverPool
	Host       Host
	LocalHost  *LocalHost // not nil: there is no kernel, Host is this one, and the stack answers ARP, ICMP and IGMP
	Interfaces []Interface
	Random     func() uint64
	// Drops is the memory that what is dropped is counted in; nil: the stack's own.
	Drops *[wire.NumDrops]uint64
	// MTU, unless 0, bounds the IP packets that are sent on all links, whatever their own allow. Longer packets are fragmented here.
	MTU int
	// SendViaKernel, unless nil, is asked when a route is found for a socket (Query.Owner): true leaves the destination to the socket's
	// descriptor.
	SendViaKernel func(owner uint64, to wire.Addr, port uint16) bool
	// LoopViaKernel is asked when a route to a group is found for a socket with Query.MulticastLoop, by a link of the interface: true leaves
	// it to the socket's descriptor, because sockets of the kernel are to receive it as well; nil always does. Not asked without a kernel.
	LoopViaKernel func(owner uint64, to wire.Addr, port uint16, iface int) bool
	// Cut is called with the token of a packet that leaves in fragments, and their number, before any of them can be lost.
	Cut func(token uint64, fragments int)
}

// Stack is the network layer of one ring, and belongs to the ring's owner.
type Stack struct {
	pool      *buffers.DriverPool
	host      Host
	localHost *LocalHost
	random    func() uint64
	config    Config

	now      clock.Time // as the caller said last
	snapshot *host.Snapshot

	// received frames
	burst     Burst
	protocols []Protocol
	slots     [256]uint8 // by protocol number: the protocol's place in protocols + 1, 0 for none
	members   Memberships
	addresses []localAddress
	lastAddr  localAddress // looked up last: the next packet mostly goes to the same address

	addressFilter uint64 // bits of addresses, see filterBit

	// routes
	tables          uint64 // moves with all that routes are found from, next hops excepted: a route of another value is stale
	routeGeneration uint64 // moves whenever any route may be stale
	hops            nextHops
	pathMTUs        []pathMTU

	// frames to be sent
	links    []attachedLink
	queued   int // frames in the links' queues
	id       uint16
	waiting  *host.Waiting[waitingFrame]
	askAt    clock.Time // when the neighbours that frames wait for are asked for again; while there are any
	failures []Failure
	chains   [MaxBurst][]byte // copies of frames that span buffers, by their place in the burst: parseChain
	scratch  []byte           // a control message
	parts    []buffers.Packet // fragments of the packet being fragmented

	awaitsBuffers bool // a packet whose neighbour is known waits for the buffers of its fragments

	igmp        igmp
	answers     int // ICMP messages made in the current second
	answersFrom clock.Time

	drops *[wire.NumDrops]uint64
	stats Stats
}

// Stats are counts beside the drops.
type Stats struct {
	Gathered    uint64 // frames copied because they spanned buffers
	NoBuffer    uint64 // lost because no buffer was free: answers, fragments and gathered frames
	Sent        uint64 // frames queued for links
	Resolutions uint64 // frames that waited for a neighbour
	Lost        uint64 // frames that could not be sent: no neighbour, or the link went down
	Fragmented  uint64 // packets that left in fragments
}

// New makes a stack. Errors name the field.
func New(c Config) (*Stack, error) {
	switch {
	case c.Pool == nil:
		return nil, errors.New("ip: Pool is nil")
	case c.LocalHost != nil && c.Host == nil:
		c.Host = c.LocalHost
	case c.LocalHost != nil && c.Host != Host(c.LocalHost):
		return nil, errors.New("ip: Host and LocalHost are two")
	case c.Host == nil:
		return nil, errors.New("ip: Host is nil")
	case c.MTU != 0 && c.MTU < leastMTU:
		return nil, fmt.Errorf("ip: MTU %d: want 0, or at least %d", c.MTU, leastMTU)
	}
	if c.Random == nil {
		return nil, errors.New("ip: Random is nil")
	}
	s := &Stack{pool: c.Pool, host: c.Host, localHost: c.LocalHost, random: c.Random, config: c, id: uint16(c.Random()),
		tables: 1, routeGeneration: 1, drops: c.Drops}
	if s.drops == nil {
		s.drops = new([wire.NumDrops]uint64)
	}
	s.hops.index = map[hopKey]int32{}
	s.hops.reset()
	for i, l := range c.Interfaces {
		if err := l.Validate(); err != nil {
			return nil, fmt.Errorf("ip: Interfaces[%d]: %w", i, err)
		}
		s.links = append(s.links, attachedLink{Interface: l})
	}
	var err error
	s.waiting, err = host.NewWaiting(host.WaitingLimits{Packets: waitingPackets, PerTarget: waitingPerTarget, Time: waitingTime}, s.onGiveUp)
	if err != nil {
		return nil, err
	}
	if s.localHost != nil {
		s.localHost.stack = s
	}
	s.Refresh()
	return s, nil
}

// Refresh follows changes of the host's tables. The driver calls it once per turn, before Input and before sending.
func (s *Stack) Refresh() {
	if latest := s.host.Snapshot(); latest != s.snapshot {
		s.followSnapshot(latest)
	} else if s.waiting.Len() > 0 {
		s.sendWaiting()
	}
}

// sendWaiting sends the waiting frames whose neighbour is known.
func (s *Stack) sendWaiting() {
	s.awaitsBuffers = false
	s.waiting.Check(s.snapshot, s.sendResolved)
}

// followSnapshot replaces the snapshot of the host's tables and updates addresses, interfaces, routes and next hops. Frames that waited for a
// neighbour are queued before the protocols are notified, which may queue newer ones.
func (s *Stack) followSnapshot(latest *host.Snapshot) {
	before := s.snapshot
	s.snapshot = latest
	tables := before == nil || latest.Generation() != before.Generation()
	if tables {
		s.readAddresses()
		s.followInterfaces()
	}
	if s.waiting.Len() > 0 {
		s.sendWaiting()
	}
	switch {
	case tables:
		s.InvalidateRoutes()
	case latest.NeighbourChanges() != before.NeighbourChanges():
		s.followNeighbours(before.NeighbourChanges())
	}
}

// Deadline is when Advance has something to do; clock.Never when nothing is pending.
func (s *Stack) Deadline() clock.Time {
	next := min(s.waiting.Deadline(), s.pathMTUDeadline(), s.hops.deadline())
	if s.waiting.Len() > 0 {
		next = min(next, s.askAt)
		if s.awaitsBuffers {
			next = min(next, s.now+bufferInterval)
		}
	}
	if s.localHost != nil {
		next = min(next, s.localHost.deadline(), s.igmpDeadline())
	}
	return next
}

// Advance does what is due: it gives up frames that waited too long, keeps neighbours alive, repeats requests and reports.
func (s *Stack) Advance(now clock.Time) {
	s.now = now
	s.waiting.Expire(now)
	s.resolveAwaited(now)
	s.forgetPathMTUs(now)
	s.keepNeighboursAlive(now)
	if s.localHost != nil {
		s.localHost.advance(now)
		s.igmpAdvance(now)
	}
}

// Pool, Snapshot and Generation: the ring's buffers; the host as Refresh saw it, and the generation of its tables.
func (s *Stack) Pool() *buffers.DriverPool { return s.pool }
func (s *Stack) Snapshot() *host.Snapshot  { return s.snapshot }
func (s *Stack) Generation() uint64        { return s.snapshot.Generation() }

// HasKernel reports whether the kernel has the interfaces too. Then it answers ARP, ICMP and IGMP, and sockets have descriptors.
func (s *Stack) HasKernel() bool { return s.localHost == nil }

// Random is the stack's source of randomness.
func (s *Stack) Random() uint64 { return s.random() }

// Drops are the counts of what was not delivered, by reason. The protocols count here as well.
func (s *Stack) Drops() *[wire.NumDrops]uint64 { return s.drops }

// Dropped is why frame n of the last Input was dropped, also by its protocol; wire.Accept: it was not.
func (s *Stack) Dropped(n int) wire.Drop { return s.burst.parsed[n].Drop }

// Stats are the other counts.
func (s *Stack) Stats() Stats { return s.stats }

// GivenUp is how many frames did not find their neighbour, by reason.
func (s *Stack) GivenUp(why host.GiveUp) uint64 { return s.waiting.GivenUp(why) }

// Close returns all packets that the stack holds to the pool.
func (s *Stack) Close() {
	s.waiting.Close()
	for i := range s.links {
		for _, o := range s.links[i].queue {
			s.pool.FreeTransmit(o.Packet)
		}
		s.queued -= len(s.links[i].queue)
		s.links[i].queue, s.links[i].senders = nil, nil
	}
	for _, f := range s.failures {
		s.pool.FreeTransmit(f.Packet)
	}
	s.failures = nil
}
