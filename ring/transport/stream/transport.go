package stream

import (
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Below is the transport that sockets are made by. It reserves their addresses and ports: the kernel does, or a host that is made up.
type Below interface {
	ring.Transport
	// ListenBeside has a host that has TCP of its own listen at the listener's address too, once its flow is claimed: what is not redirected
	// becomes a connection there, which Sink.Accepted reports with a number of the host's.
	ListenBeside(s *ring.Socket, backlog int) error
	// Release ends what Open began, for a connection whose socket may be closed already.
	Release(c ring.Conn) error
}

// Host is the driver that the transport belongs to.
type Host interface {
	// Pull has the stack take the frames that have come; PullIfIdle only if the ring was not polled for a while: a Poll takes them as well.
	Pull()
	PullIfIdle()
	// Claim redirects a flow to the links: of a listener, which has no peer, or of a connection. Its number names it until Unclaim; 0 where
	// every frame of the wire comes to the stack. With exact the host claims no more than the flow.
	Claim(local, remote netip.AddrPort, device int, exact bool) (claim int32, err error)
	Unclaim(claim int32)
	// WakeOwner wakes the ring if it sleeps: HasRequests. Any goroutine.
	WakeOwner()
}

// Options are what the user of a driver sets of TCP.
type Options struct {
	// Table are the limits and times of all connections. Random, unless it is set, is the driver's; Path is the transport's.
	Table tcp.Config
	// Settings are what connections begin with; nil: tcp.DefaultSettings. ResetUnread is not used: what the application has not read when it
	// closes is dropped, as on every ring.
	Settings *tcp.Settings
	// MoveAfter is how long the interface of a connection may carry no frames before the driver moves the connection into the kernel, where
	// there is one; 0: five seconds, negative: never.
	MoveAfter clock.Duration
	// PollOnSend has each send take the frames that have come, not only one that comes some microseconds after the ring last read its clock.
	PollOnSend bool
	// CloseClaims is how many connections of a listener get claims of their own when it is closed, so that its port is left to the kernel: each
	// takes system calls of Close, and an entry of the steering program and of the guard. With more connections the port stays claimed until the
	// last one has ended. 0: 2,048, negative: none.
	CloseClaims int
}

// Config is what a Transport is made from.
type Config struct {
	Options
	Host       Host
	Below      Below
	IP         *ip.Stack
	Clock      clock.Source
	QueueLimit int // frames that may wait for the links: beyond it segments stay to be sent
	// Transit is where connections wait that AcceptTo was offered; nil: one of the transport's own.
	Transit *Transit
	// Record is where connections are written down, so that their peers can be reset when the process is killed; nil: nowhere. The caller closes
	// it.
	Record *flowrecord.Record
}

// Transport is the TCP of one ring. It belongs to the ring's owner.
type Transport struct {
	ring.Transport // below
	host           Host
	below          Below
	ip             *ip.Stack
	pool           *buffers.DriverPool
	table          *tcp.Table
	clock          clock.Source
	queueLimit     int
	settings       tcp.Settings
	pollOnSend     bool
	closeClaims    int
	drops          *[wire.NumDrops]uint64 // the stack's

	records    []*[chunk]record  // by tcp.ID
	sentAgain  map[tcp.ID]uint32 // segments; most connections send none again, and have no entry
	listeners  map[ring.Conn]*listener
	byListener []*listener // by tcp.ListenerID - 1

	arrivals    []arrival // received data that was not delivered
	freeArrival int32
	pieces      []piece // what is to be sent, or is not confirmed
	freePiece   int32
	awaited     int // pieces that are confirmed, and whose frames a link still holds
	hasAnswer   bool

	ready      []int32 // records with facts to report; ^n: the listener n of byListener
	reporting  []int32 // those of this Report
	done       []done  // transmissions to give back
	roomless   []int32 // records that wait for free buffers to send from, in the order in which they began to wait
	unfilled   []int32 // and for buffers that what they have received is copied into
	holds      holds   // what connections rest on
	timeWait   clock.Duration
	looped     []buffers.Packet // segments of this host for itself, from the IPv4 header on
	exhausted  uint64           // how often the pool had no buffer, at the last MakeRoom
	copyFailed bool             // since then CopyPacket was one of those

	transit  *Transit
	backlogs map[tcp.ID][]byte // what connections that were adopted had received, and the application has not
	requests requests

	recorded     recordedFlows
	destinations [destinationCount]destination
	segment      tcp.Segment // being received, or sent

	fetching fetching

	stats Stats
}

// IsStreamStack implements ring.StreamStack.
func (t *Transport) IsStreamStack() {}

// Stats are counts beside those of the table.
type Stats struct {
	InPlace    uint64 // segments with payload that left from the buffer it was in
	Copied     uint64 // and those that were copied: a link held the frame, or it is a part of its buffer
	NoBuffer   uint64 // segments that were not sent because no buffer was free
	NoRoute    uint64 // and those without a link to the peer
	TooLong    uint64 // and those longer than the MTU has become
	Partial    uint64 // received checksums that were only the pseudo header's and were accepted
	LoopFull   uint64 // segments of this host for itself that were lost because too many waited
	Gathered   uint64 // large buffers that received segments were copied into, for connections that asked for them
	Unrecorded uint64 // connections for which Config.Record has no room
	PortsKept  uint64 // closed listeners whose port stayed claimed: claimChildren
	Collapsed  uint64 // received segments that were copied behind others, because their reader had stopped
}

var (
	_ ring.Transport = (*Transport)(nil)
	_ ring.Creditor  = (*Transport)(nil)
	_ ip.Protocol    = (*Transport)(nil)
)

// New makes the TCP of a ring. The caller gives it the segments: usually it registers the transport with the stack.
func New(c Config) (*Transport, error) {
	if c.Table.Random == nil {
		c.Table.Random = c.IP.Random
	}
	var t *Transport
	c.Table.Path = func(from tcp.ListenerID, local, remote wire.Addr, tos, ttl uint8) tcp.Path {
		return t.findDestination(local, remote, tos, ttl, t.deviceOf(from)).path()
	}
	table, err := tcp.New(c.Table, c.Clock())
	if err != nil {
		return nil, fmt.Errorf("stream: %w", err)
	}
	t = &Transport{Transport: c.Below, host: c.Host, below: c.Below, ip: c.IP, pool: c.IP.Pool(), table: table, clock: c.Clock, queueLimit: c.QueueLimit, drops: c.IP.Drops(),
		settings: tcp.DefaultSettings(), pollOnSend: c.PollOnSend, listeners: map[ring.Conn]*listener{}, freeArrival: none, freePiece: none, recorded: recordedFlows{record: c.Record},
		transit: c.Transit, holds: holds{adopted: map[holdKey]int32{}}, backlogs: map[tcp.ID][]byte{}}
	if t.transit == nil {
		t.transit = NewTransit(nil)
	}
	if t.closeClaims = c.CloseClaims; t.closeClaims == 0 {
		t.closeClaims = defaultCloseClaims
	}
	if t.timeWait = c.Table.TimeWait; t.timeWait <= 0 {
		t.timeWait = 60 * clock.Second // as package tcp has it
	}
	if c.Settings != nil {
		t.settings = *c.Settings
	}
	t.settings.ResetUnread = false // see Config.Settings
	return t, nil
}

// Table is the protocol engine, for looking at. Stats are the counts beside its own.
func (t *Transport) Table() *tcp.Table { return t.table }
func (t *Transport) Stats() Stats      { return t.stats }

// Deadline is when Expire has to be called at the latest.
func (t *Transport) Deadline() clock.Time {
	return min(t.table.Deadline(), t.holds.nextEnd())
}

// expireRounds bounds the work of one Expire.
const expireRounds = 16

// Expire does what is due.
func (t *Transport) Expire(now clock.Time) {
	if now < t.Deadline() {
		return
	}
	t.expireHolds(now)
	for range expireRounds {
		if !t.table.Expire(now) {
			return
		}
	}
}

// HasOutput reports whether Output has something to do, HasFacts whether Report has. AwaitsLinks reports that there may be something to report
// when a link gives back a frame: the end of something that is confirmed, or a buffer.
func (t *Transport) HasOutput() bool { return t.table.HasOutput() }
func (t *Transport) HasFacts() bool {
	return len(t.ready) > 0 || len(t.done) > 0 || t.table.HasEvents() || len(t.looped) > 0 || t.requests.pending.Load() || t.hasBuffers()
}
func (t *Transport) AwaitsLinks() bool {
	return t.awaited > 0 || len(t.roomless) > 0 || len(t.unfilled) > 0
}

// HasAnswer reports whether the application has sent something, or has closed a connection, since ForgetAnswers. A driver forgets at the
// beginning of a turn and asks at its end: what callbacks have answered leaves in their turn, and in turns without an answer the
// acknowledgements wait for one.
func (t *Transport) HasAnswer() bool { return t.hasAnswer }
func (t *Transport) ForgetAnswers()  { t.hasAnswer = false }

// EachSocket calls f for each listener, and for each connection with a socket on the ring. It takes time proportional to the most connections
// that there ever were.
func (t *Transport) EachSocket(f func(*ring.Socket)) {
	for _, l := range t.byListener {
		if l != nil {
			f(l.socket.Socket())
		}
	}
	for id := range tcp.ID(len(t.records) * chunk) {
		if r := t.record(id); r.flags&isOpen != 0 {
			f(r.socket.Socket())
		}
	}
}

// ClaimOf is the number of the host's claim that a socket rests on; 0: none.
func (t *Transport) ClaimOf(s *ring.Socket) int32 {
	at := int32(0)
	if id := idOfSocket(s); id != tcp.NoID {
		at = t.record(id).hold
	} else if l := t.listeners[ring.HandleOf(s).Conn]; l != nil {
		at = l.hold
	}
	if at == 0 {
		return 0
	}
	return t.holds.at(at).claim
}

// IsFinishing reports whether a connection whose socket is closed has something that its peer has not acknowledged.
func (t *Transport) IsFinishing() bool { return t.table.OwesPeers() }

// ResetAll resets all connections, because the ring is closed, but those that are finished. Output sends the resets; ReleaseAll is to follow.
func (t *Transport) ResetAll() {
	now := t.clock()
	for id := range tcp.ID(len(t.records) * chunk) {
		if t.record(id).flags&isLive != 0 {
			t.table.AbortUnfinished(now, id)
		}
	}
	t.takeEvents()
}

// ReleaseClaims ends all claims and gives all ports back, before the links are closed.
func (t *Transport) ReleaseClaims() {
	for i := range t.holds.list {
		if h := &t.holds.list[i]; h.claim != 0 || h.below != 0 {
			t.endHold(int32(i) + 1)
		}
	}
	t.holds.leaving = nil
}

// ReleaseAll gives the pool back all that is left, after the links and the stack were closed.
func (t *Transport) ReleaseAll() {
	t.transit.closeRing(t) // what this ring has accepted, and the program has refused, is not reset any more
	t.takeEvents()         // buffers that the table has let go of go back to the pool, or to done
	for i := range t.pieces {
		p := &t.pieces[i]
		if !p.packet.IsZero() && p.socket == nil {
			t.pool.RemoveQueued(p.packet)
		}
		if !p.packet.IsZero() && p.packet.Valid() { // what the stack had queued it has freed
			t.pool.FreeTransmit(p.packet)
		}
	}
	for _, p := range t.looped {
		_ = p.Release()
	}
	for _, x := range t.done { // left only if the ring gave up waiting for its sockets
		t.pool.FreeTransmit(x.sent.Packet)
	}
	for i := range t.arrivals {
		if p := t.arrivals[i].packet; !p.IsZero() {
			_ = p.Release()
		}
	}
	t.pieces, t.done, t.arrivals, t.ready, t.looped = nil, nil, nil, nil, nil
}
