package stack

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Host is where routes and neighbours come from. *Own is one; the kernel's mirror becomes one in package ring/offload. Only
// Snapshot is called regularly, once per turn at most.
type Host interface {
	// Snapshot is the host as it is known now.
	Snapshot() *host.Snapshot
	// Resolve asks for a neighbour; the answer is in a later snapshot. It may be called for every packet.
	Resolve(t host.Target)
	// Use tells that frames were sent to a neighbour within the last second, so that its entry is kept alive.
	Use(t host.Target)
}

// Interface is one link of the stack.
type Interface struct {
	Index    int      // in the host's tables
	MAC      wire.MAC // the station that frames are addressed to
	Chosen   bool     // the MAC is the caller's choice, not the interface's, which is followed when it changes
	VLAN     uint16   // of the frames' 802.1Q tag; 0: untagged
	MTU      int      // largest IP packet
	Checksum udp.Policy
	Member   Member // of a bond, if the interface is one: see SetMember
	deaf     uint16 // not 0: no frame has the tag that is expected then, see SetDeaf
	Wire     int    // links with the same one, unless it is 0, are one wire: what comes in on any is told apart by its tag
}

// Config is what a stack is made from.
type Config struct {
	Pool       *buffers.Pool
	Host       Host
	Own        *Own // not nil: Host is this one, and the stack answers ARP, ICMP and IGMP
	Interfaces []Interface
	Random     func() uint64
	// Cut sends datagrams that are longer than the MTU in fragments: by the socket's descriptor, so that the kernel makes them, or, on links
	// without a kernel, made here. Otherwise they are refused with EMSGSIZE.
	Cut bool
	// MTU, unless 0, bounds the IP packets that are sent on all links, whatever their own allow. What is cut for it is cut here.
	MTU int
	// Kernel, unless nil, is asked when the way to a destination of a socket (Endpoint.Owner) is found, which is kept: true leaves it to the
	// socket's descriptor.
	Kernel func(owner uint64, to wire.Addr, port uint16) bool
	// Loop is asked when the way to a group is found for a socket with MulticastLoop, by a link of the interface: true leaves it to the
	// socket's descriptor, because sockets of the kernel are to receive it as well; nil always does. The sockets of the directory's stacks get
	// it from this one. Not asked where there is no kernel.
	Loop func(owner uint64, to wire.Addr, port uint16, iface int) bool
	// Directory is shared with the other stacks of the host, Number is what its Enter gave this one. Without it the stack is alone.
	Directory *Directory
	Number    int
}

// Stack is the protocols of one ring. It belongs to the ring's owner.
type Stack struct {
	pool   *buffers.Pool
	host   Host
	own    *Own
	random func() uint64
	cut    bool
	mtu    int // bound of all links; 0: none
	kernel func(uint64, wire.Addr, uint16) bool
	loops  func(uint64, wire.Addr, uint16, int) bool
	dir    *Directory
	number int32
	book   *phonebook // of dir, as the burst found it; nil while the stack is alone
	all    *udp.Table // what the burst looks sockets up in: that of the book, or the stack's own

	links   []attached
	udp     *udp.Table
	sockets []record // by udp.ID
	local   []localAddr
	last    localAddr // looked up last: the next packet mostly goes to the same address

	now     clock.Time // as the caller said last
	snap    *host.Snapshot
	stamp   uint64 // moves with the host's generation and with every change of a socket: what prepared routes are compared with
	routes  [routeCount]route
	hops    hopSet // that routes have
	made    uint32 // routes, up to now
	used    bool   // a route was sent through since the last sweep
	sweep   clock.Time
	waiting *host.Waiting[parked]
	askAt   clock.Time // when those that are waited for are asked for again; while there are any
	pmtu    []pathMTU
	id      uint16

	queued int // frames in the links' lists
	looks  [MaxBurst]look
	ids    []udp.ID
	looped []looped
	events []Event
	failed []Failure
	igmp   igmp

	answers     int // ICMP messages made in the current second
	answersFrom clock.Time
	scratch     []byte
	parts       []buffers.Packet // fragments of the datagram being cut

	drops [wire.NumDrops]uint64
	stats Stats
}

// Stats are counts beside the drops.
type Stats struct {
	Delivered   uint64 // datagrams handed out, one for each socket that got it
	Partial     uint64 // checksums that were only the pseudo header's and were accepted
	Backlogged  uint64 // datagrams kept for sockets that do not read
	Discarded   uint64 // and those thrown away because their socket was closed
	Gathered    uint64 // frames copied because they spanned buffers
	NoBuffer    uint64 // lost because no buffer was free: answers, looped and gathered datagrams
	Sent        uint64 // frames queued for links
	Looped      uint64 // datagrams that stayed in this stack
	LoopFull    uint64 // and those lost because too many did
	Resolutions uint64 // datagrams that waited for a neighbour
	Lost        uint64 // frames that could not be sent: no neighbour, or the link went down
	Copied      uint64 // datagrams of other stacks that were copied for sockets of this one
	Strayed     uint64 // and those whose sockets were gone
	Fragmented  uint64 // datagrams that left in parts
	Prepared    uint64 // routes of destinations that were found
}

// attached is a link with its state.
type attached struct {
	Interface
	out  []Out
	most int  // the MTU that the link was made for
	down bool // carries nothing at the moment
}

// record is what the stack knows of a socket beside its place in the table.
type record struct {
	options Options
	backlog udp.Backlog
	dropped uint64
	shared  udp.ID // in the directory
	open    bool
}

// Options of a socket that concern sending and keeping.
type Options struct {
	TTL, TOS, MulticastTTL uint8
	MulticastLoop          bool
	Broadcast              bool
	MulticastInterface     int // 0: the routing table chooses
	ReceiveBuffer          int // bytes of the backlog
}

// Out is a frame for a link.
type Out struct {
	Packet buffers.Packet // transmitting, complete from the Ethernet header on
	Token  uint64         // as given to Send
	put    udp.ID         // whose Put took it, plus 1; 0: nobody's
}

// Delivery is a datagram for a socket.
type Delivery struct {
	Packet buffers.Packet // received; shared when several sockets get it
	ID     udp.ID
	Owner  uint64
	Flow   udp.Flow
	Nanos  int64 // as the frame's
	Clock  uint8
	// To is 0 for sockets of this stack. Otherwise the datagram is for the stack of this number in the directory, which gets it by
	// Accept; with an Owner of 0 it is for whatever members of the group that one has.
	To int32
}

// Event is an error of a socket that an ICMP message told of.
type Event struct {
	Owner uint64
	Errno syscall.Errno
}

// Failure is a datagram with a token that Send had taken and that will not go out.
type Failure struct {
	Packet buffers.Packet // transmitting
	Token  uint64
	Errno  syscall.Errno
}

// MaxBurst is the most frames that Input takes at once.
const MaxBurst = 64

// Limits that are not settings.
const (
	waitingPackets   = 512 // for neighbours, over all
	waitingPerTarget = 128
	waitingTime      = 3 * time.Second // three requests, one a second
	loopLimit        = 256
	answerLimit      = 1000 // ICMP messages a second
	sweepEvery       = clock.Time(time.Second)
)

// New makes a stack. Errors name the field.
func New(c Config) (*Stack, error) {
	switch {
	case c.Pool == nil:
		return nil, errors.New("stack: Pool is nil")
	case c.Own != nil && c.Host == nil:
		c.Host = c.Own
	case c.Own != nil && c.Host != Host(c.Own):
		return nil, errors.New("stack: Host and Own are two")
	case c.Host == nil:
		return nil, errors.New("stack: Host is nil")
	case c.MTU != 0 && c.MTU < leastMTU:
		return nil, fmt.Errorf("stack: MTU %d: want 0, or at least %d", c.MTU, leastMTU)
	case c.Directory != nil && c.Own != nil:
		return nil, errDirectory
	case c.Directory != nil && (c.Number < 1 || c.Number > MaxStacks):
		return nil, fmt.Errorf("stack: Number %d: not one that Directory.Enter gives", c.Number)
	}
	if c.Random == nil {
		return nil, errors.New("stack: Random is nil")
	}
	s := &Stack{pool: c.Pool, host: c.Host, own: c.Own, random: c.Random, udp: udp.New([2]uint64{c.Random(), c.Random()}),
		id: uint16(c.Random()), stamp: 1, cut: c.Cut, mtu: c.MTU, kernel: c.Kernel, loops: c.Loop, dir: c.Directory, number: int32(c.Number)}
	for i, l := range c.Interfaces {
		if err := l.Validate(); err != nil {
			return nil, fmt.Errorf("stack: Interfaces[%d]: %w", i, err)
		}
		s.links = append(s.links, attached{Interface: l})
	}
	var err error
	s.waiting, err = host.NewWaiting(host.WaitingLimits{Packets: waitingPackets, PerTarget: waitingPerTarget, Time: waitingTime}, s.gaveUp)
	if err != nil {
		return nil, err
	}
	if s.own != nil {
		s.own.stack = s
	}
	s.Refresh()
	return s, nil
}

// Refresh notices that the host's tables changed. Once per turn, before Input and Send.
func (s *Stack) Refresh() {
	if now := s.host.Snapshot(); now != s.snap {
		was := s.snap
		s.snap = now
		if was == nil || now.Generation() != was.Generation() {
			s.stamp++
			s.readAddresses()
		} else if now.NeighbourChanges() != was.NeighbourChanges() {
			s.followNeighbours(was.NeighbourChanges())
		}
	}
	if s.waiting.Len() > 0 {
		s.waiting.Check(s.snap, s.resolved)
	}
}

// Stamp is what prepared routes are compared with: they are good while it stays. The pointer may be kept.
func (s *Stack) Stamp() *uint64 { return &s.stamp }

// Reroute makes all prepared routes void: an answer of Config.Loop has changed.
func (s *Stack) Reroute() { s.stamp++ }

// Generation is the host's as Refresh saw it.
func (s *Stack) Generation() uint64 { return s.snap.Generation() }

// Snapshot is the host as Refresh saw it.
func (s *Stack) Snapshot() *host.Snapshot { return s.snap }

// Awaited appends the neighbours that datagrams wait for to list.
func (s *Stack) Awaited(list []host.Target) []host.Target {
	s.waiting.Targets(func(t host.Target) { list = append(list, t) })
	return list
}

// Deadline is when Advance has something to do; clock.Never when nothing is pending.
func (s *Stack) Deadline() clock.Time {
	next := min(s.waiting.Deadline(), s.pathMTUDeadline())
	if s.waiting.Len() > 0 {
		next = min(next, s.askAt)
	}
	if s.used {
		next = min(next, s.sweep)
	}
	if s.own != nil {
		next = min(next, s.own.deadline(), s.igmpDeadline())
	}
	return next
}

// Advance does what is due: gives datagrams up that waited too long, keeps neighbours alive, repeats requests and reports.
func (s *Stack) Advance(now clock.Time) {
	s.now = now
	s.waiting.Expire(now)
	s.askForWaited(now)
	s.forgetMTUs(now)
	if s.used && now >= s.sweep {
		s.used = false
		for i := range s.routes {
			if r := &s.routes[i]; r.used {
				r.used = false
				s.host.Use(s.targetOf(r))
			}
		}
	}
	if s.own != nil {
		s.own.advance(now)
		s.igmpAdvance(now)
	}
}

// Add puts a socket in.
func (s *Stack) Add(e udp.Endpoint, o Options) (udp.ID, error) {
	id, err := s.udp.Add(e)
	if err != nil {
		return 0, err
	}
	for int(id) >= len(s.sockets) {
		s.sockets = append(s.sockets, record{})
	}
	s.sockets[id] = record{options: o, open: true}
	s.sockets[id].backlog.Limit(o.ReceiveBuffer)
	if s.dir != nil {
		if s.sockets[id].shared, err = s.dir.add(int(s.number), id, e); err != nil {
			s.udp.Remove(id)
			s.sockets[id] = record{}
			return 0, err
		}
	}
	s.stamp++
	return id, nil
}

// Change gives a socket other facts and options.
func (s *Stack) Change(id udp.ID, e udp.Endpoint, o Options) error {
	if err := s.udp.Change(id, e); err != nil {
		return err
	}
	if s.dir != nil {
		if err := s.dir.change(s.sockets[id].shared, e); err != nil {
			return err
		}
	}
	s.sockets[id].options = o
	s.sockets[id].backlog.Limit(o.ReceiveBuffer)
	s.stamp++
	return nil
}

// Remove takes a socket out. What it has sent and still waits for a neighbour goes on waiting.
func (s *Stack) Remove(now clock.Time, id udp.ID) {
	groups := s.udp.Memberships(id, nil)
	s.disown(id)
	if s.dir != nil {
		s.dir.remove(s.sockets[id].shared)
	}
	s.udp.Remove(id)
	for _, g := range groups {
		s.membershipChanged(now, g.Group, g.Interface)
	}
	s.stats.Discarded += uint64(s.sockets[id].backlog.Len())
	s.sockets[id] = record{}
	s.stamp++
}

// Dropped is how many datagrams the socket lost because its backlog was full.
func (s *Stack) Dropped(id udp.ID) uint64 { return s.sockets[id].dropped }

// Drops are the counts of what was not delivered, by reason.
func (s *Stack) Drops() *[wire.NumDrops]uint64 { return &s.drops }

// Stats are the other counts.
func (s *Stack) Stats() Stats { return s.stats }

// GivenUp is how many datagrams did not find their neighbour, by reason.
func (s *Stack) GivenUp(why host.GiveUp) uint64 { return s.waiting.GivenUp(why) }

// NumInterfaces is the number of links; Interface the one at a place.
func (s *Stack) NumInterfaces() int         { return len(s.links) }
func (s *Stack) Interface(i int) *Interface { return &s.links[i].Interface }

// SetDown says that a link carries nothing any more, or does again. While it is down what its interface sends leaves by another link of
// that, if there is one. Else its destinations are the kernel's, or unreachable where there is none; what was queued for it is lost, and told
// to those who wait for it.
func (s *Stack) SetDown(i int, down bool) {
	l := &s.links[i]
	if l.down == down {
		return
	}
	l.down = down
	s.stamp++
	if !down || s.move(i) {
		return
	}
	s.waiting.DropInterface(l.Index)
	s.dropQueued(l)
}

// dropQueued ends what is queued for a link that carries nothing any more.
func (s *Stack) dropQueued(l *attached) {
	for _, o := range l.out {
		s.lost(o.Packet, o.Token, unix.ENETDOWN)
	}
	s.queued -= len(l.out)
	clear(l.out)
	l.out = l.out[:0]
}

// lost ends a frame that will not go out.
func (s *Stack) lost(p buffers.Packet, token uint64, e syscall.Errno) {
	s.stats.Lost++
	if token == 0 {
		s.giveBack(p)
		return
	}
	s.failed = append(s.failed, Failure{Packet: p, Token: token, Errno: e})
}

// Output is the frames that wait for a link; Took removes the first n of them, which the link has taken.
func (s *Stack) Output(i int) []Out { return s.links[i].out }

// Took removes the first n frames that wait for link i: the link has taken them.
func (s *Stack) Took(i, n int) {
	out := s.links[i].out
	s.queued -= n
	if n == len(out) { // what stays behind the end names no memory but the pool's
		s.links[i].out = out[:0]
		return
	}
	rest := copy(out, out[n:])
	clear(out[rest:])
	s.links[i].out = out[:rest]
}

// Events are errors that came for sockets, Failures datagrams that will not go out; both until the next call of Clear.
func (s *Stack) Events() []Event     { return s.events }
func (s *Stack) Failures() []Failure { return s.failed }

// Clear forgets what Events and Failures have told.
func (s *Stack) Clear() {
	s.events = s.events[:0]
	clear(s.failed)
	s.failed = s.failed[:0]
}

// Close gives the pool back all packets that the stack holds.
func (s *Stack) Close() {
	s.waiting.Close()
	for i := range s.links {
		for _, o := range s.links[i].out {
			s.giveBack(o.Packet)
		}
		s.queued -= len(s.links[i].out)
		s.links[i].out = nil
	}
	for _, f := range s.failed {
		s.giveBack(f.Packet)
	}
	s.failed = nil
	for _, l := range s.looped {
		_ = l.packet.Release() // nobody else has it
	}
	s.looped = nil
}

// giveBack ends a packet that was to be sent.
func (s *Stack) giveBack(p buffers.Packet) { s.pool.Sent(p) }

// kinds of address.
const (
	addrForeign uint8 = iota
	addrOurs
	addrBroadcast
)

type localAddr struct {
	addr  wire.Addr
	iface uint32 // of a broadcast address
	kind  uint8
}

// readAddresses takes the host's addresses over.
func (s *Stack) readAddresses() {
	s.local, s.last = s.local[:0], localAddr{}
	for _, a := range s.snap.Addresses() {
		if addr, ok := wire.AddrFrom(a.Local); ok {
			s.local = append(s.local, localAddr{addr: addr, kind: addrOurs})
		}
		if a.Broadcast.IsValid() {
			if addr, ok := wire.AddrFrom(a.Broadcast); ok {
				s.local = append(s.local, localAddr{addr: addr, iface: uint32(a.Interface), kind: addrBroadcast})
			}
		}
	}
	s.follow()
}

// kindOf is whose address it is, for a packet of the interface: a host has few, and the last one asked for is kept.
func (s *Stack) kindOf(a wire.Addr, iface uint32) uint8 {
	if a == s.last.addr && (s.last.iface == iface || s.last.iface == 0) {
		return s.last.kind
	}
	if a.IsBroadcast() {
		return addrBroadcast
	}
	for i := range s.local {
		if l := &s.local[i]; l.addr == a && (l.iface == 0 || l.iface == iface) {
			s.last = *l
			return l.kind
		}
	}
	return addrForeign
}

// index is the place of the link that is this interface, -1 for none.
func (s *Stack) index(iface int) int {
	for i := range s.links {
		if s.links[i].Index == iface && !s.links[i].down {
			return i
		}
	}
	return -1
}
