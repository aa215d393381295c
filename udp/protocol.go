package udp

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Config is what UDP is made from.
type Config struct {
	// Fragment sends datagrams that are longer than the MTU in fragments: by the socket's descriptor, so that the kernel makes them, or, on
	// links without a kernel and where the stack's own MTU is the smaller one, made by the stack. Otherwise they are refused with EMSGSIZE.
	Fragment bool
	// Directory is shared with the stacks of the host's other rings, Number is what its AddStack gave this one. Without it the stack is alone.
	Directory *Directory
	Number    int
}

// Protocol is UDP on one stack: its sockets, what they receive and what they send. It belongs to the ring's owner, as the stack does.
type Protocol struct {
	stack    *ip.Stack
	pool     *buffers.DriverPool
	drops    *[wire.NumDrops]uint64 // the stack's
	fragment bool

	// sockets
	table   *Table
	sockets []record // by ID
	changes uint64   // of sockets: destinations are found again

	// received datagrams
	ids        []ID // receivers of the burst's groups and broadcasts
	deliveries []Delivery
	errors     []SocketError

	fast           [NumFastFlows]FastFlow
	fastGeneration uint64 // moves when they are stale
	fastKnown      bool   // at least one was remembered since
	fastPartial    uint64 // 1: the checksum of the datagram that was matched last was a partial one

	// the sockets of other stacks
	directory *Directory
	number    int32
	snapshot  *directorySnapshot // of the directory, as the burst found it; nil while the stack is alone
	lookup    *Table             // what the burst looks sockets up in: that of the snapshot, or the stack's own

	// sent datagrams
	generation   *uint64 // of the stack's routes
	destinations [destinationCount]destination
	foundCount   uint32 // destinations, up to now
	looped       []loopedDatagram

	stats Stats
}

// record is the part of a socket that lookups do not read.
type record struct {
	options     Options
	backlog     Backlog
	dropped     uint64
	directoryID ID // in the directory
	open        bool
}

// Options of a socket that concern sending and keeping.
type Options struct {
	TTL, TOS, MulticastTTL uint8
	MulticastLoop          bool
	Broadcast              bool
	MulticastInterface     int // 0: the routing table chooses
	ReceiveBuffer          int // bytes of the backlog
}

// Stats are counts beside the drops, which are the stack's.
type Stats struct {
	Delivered  uint64 // datagrams handed out, one for each socket that got it
	Partial    uint64 // checksums that were only the pseudo header's and were accepted
	Backlogged uint64 // datagrams kept for sockets that do not read
	Discarded  uint64 // and those dropped because their socket was closed
	NoBuffer   uint64 // lost because no buffer was free: datagrams of this stack for itself
	Looped     uint64 // datagrams that stayed in this stack
	LoopFull   uint64 // and those lost because too many did
	Copied     uint64 // datagrams of other stacks that were copied for sockets of this one
	NoReceiver uint64 // and those whose sockets were closed, or had left the group
	Found      uint64 // routes of destinations that were found
}

var _ ip.Protocol = (*Protocol)(nil)

// New makes UDP a protocol of a stack.
func New(s *ip.Stack, c Config) (*Protocol, error) {
	switch {
	case c.Directory != nil && !s.HasKernel():
		return nil, errDirectory
	case c.Directory != nil && (c.Number < 1 || c.Number > MaxStacks):
		return nil, fmt.Errorf("udp: Number %d: not one that Directory.AddStack gives", c.Number)
	}
	u := &Protocol{stack: s, pool: s.Pool(), drops: s.Drops(), fragment: c.Fragment, directory: c.Directory, number: int32(c.Number),
		table: NewTable([2]uint64{s.Random(), s.Random()}), generation: s.RouteGeneration(), fastGeneration: 1}
	if err := s.Register(wire.ProtocolUDP, u, u.table); err != nil {
		return nil, err
	}
	return u, nil
}

// errDirectory is for stacks that are hosts of their own: they share no interface with another ring.
var errDirectory = errors.New("udp: Directory on a stack without a kernel, which shares no interface")

// Add adds a socket to the table, and to the directory if rings share interfaces. If one of them refuses it, it is in neither.
func (u *Protocol) Add(e Endpoint, o Options) (ID, error) {
	id, err := u.table.Add(e)
	if err != nil {
		return 0, err
	}
	for int(id) >= len(u.sockets) {
		u.sockets = append(u.sockets, record{})
	}
	u.sockets[id] = record{options: o, open: true}
	u.sockets[id].backlog.Limit(o.ReceiveBuffer)
	if u.directory != nil {
		if u.sockets[id].directoryID, err = u.directory.add(int(u.number), id, e); err != nil {
			u.table.Remove(id)
			u.sockets[id] = record{}
			return 0, err
		}
	}
	u.socketsChanged()
	return id, nil
}

// Change changes a socket's addresses and options.
func (u *Protocol) Change(id ID, e Endpoint, o Options) error {
	if err := u.table.Change(id, e); err != nil {
		return err
	}
	if u.directory != nil {
		if err := u.directory.change(u.sockets[id].directoryID, e); err != nil {
			return err
		}
	}
	u.sockets[id].options = o
	u.sockets[id].backlog.Limit(o.ReceiveBuffer)
	u.socketsChanged()
	return nil
}

// Remove removes a socket. Its frames that wait for a neighbour go on waiting.
func (u *Protocol) Remove(now clock.Time, id ID) {
	var groups []Membership
	for m := range u.table.Memberships(id) {
		m.Source = wire.Addr{}
		groups = append(groups, m)
	}
	groups = slices.Compact(groups) // the sources of a group are in a row
	u.stack.ForgetSender(senderOf(id))
	if u.directory != nil {
		u.directory.remove(u.sockets[id].directoryID)
	}
	u.table.Remove(id)
	for _, g := range groups {
		u.stack.MembershipChanged(now, g.Group, g.Interface)
	}
	u.stats.Discarded += uint64(u.sockets[id].backlog.Len())
	u.sockets[id] = record{}
	u.socketsChanged()
}

// socketsChanged makes all destinations stale: each is found again before its next use.
func (u *Protocol) socketsChanged() {
	u.changes++
	u.forgetFlows()
	u.stack.MoveRouteGeneration()
}

// Join makes a socket a member of a group on an interface; see Table.Join.
func (u *Protocol) Join(now clock.Time, id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	if err := u.table.Join(id, group, iface, source); err != nil {
		return err
	}
	if u.directory != nil {
		if err := u.directory.join(u.sockets[id].directoryID, group, iface, source); err != nil {
			return err
		}
	}
	u.forgetFlows()
	u.stack.MembershipChanged(now, group, iface)
	return nil
}

// Leave undoes Join.
func (u *Protocol) Leave(now clock.Time, id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	if err := u.table.Leave(id, group, iface, source); err != nil {
		return err
	}
	if u.directory != nil {
		if err := u.directory.leave(u.sockets[id].directoryID, group, iface, source); err != nil {
			return err
		}
	}
	u.forgetFlows()
	u.stack.MembershipChanged(now, group, iface)
	return nil
}

// Memberships are what a socket has joined; see Table.Memberships.
func (u *Protocol) Memberships(id ID) iter.Seq[Membership] { return u.table.Memberships(id) }

// ReceivesGroup reports whether a socket that has this port and address is to have a datagram of a group: it has joined, from this source, or
// takes those of groups that it did not join.
func (u *Protocol) ReceivesGroup(id ID, group, source wire.Addr, iface uint32) bool {
	return u.table.PassesFilter(id, &Flow{Source: source, Target: group, Interface: iface})
}

// Changed makes the fast flows stale when links or addresses have changed. A destination compares generations before each use.
func (u *Protocol) Changed(c ip.Change) {
	if c.Kind == ip.TablesChanged {
		u.forgetFlows()
	}
}

// Dropped is how many datagrams the socket lost because its backlog was full.
func (u *Protocol) Dropped(id ID) uint64 { return u.sockets[id].dropped }

// Stats are the counts.
func (u *Protocol) Stats() Stats { return u.stats }

// Close releases the datagrams that are still on their way to sockets of this stack.
func (u *Protocol) Close() {
	for _, l := range u.looped {
		_ = l.packet.Release() // received, alone
	}
	u.looped = nil
}
