package protocol

import (
	"errors"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// The errors of a Table's set-up.
var (
	ErrInUse  = errors.New("protocol: address in use")
	ErrNoPort = errors.New("protocol: no free port")
)

// Table is the connections of one host. One goroutine at a time uses it.
type Table struct {
	config    Config
	host      Host
	conns     []Conn
	free      []ID
	lookup    map[pair]ID
	listeners []listener // by number, from 1 on
	bound     map[Endpoint]int
	timers    *wheel.Wheel
	now       clock.Time // of the call being made
	blocked   []ID       // connections with flagBlocked: Resume lets them send
	owing     []ID       // connections with flagOwing: Flush sends their acknowledgements
	batch     []ID
	onTimer   func(uint64)
	out       Segment // the one being sent: here, so that showing it to the Host allocates nothing
	stats     Stats
}

// pair finds a connection: its own endpoint, then the peer's.
type pair struct{ local, remote Endpoint }

type listener struct {
	local   Endpoint
	backlog int
	waiting int // half open, or established and not taken
	open    bool
}

// Stats are totals.
type Stats struct {
	In, Out                 uint64 // segments
	Retransmitted           uint64 // segments that were sent before
	Held                    uint64 // retransmissions put off because the link still had the frame
	Duplicate, Ahead        uint64 // segments received before; with a gap before them
	BeyondWindow            uint64
	NoBuffer                uint64 // segments with data for which there was no buffer
	Overflows               uint64 // SYNs for a full backlog
	NoConnection            uint64
	ResetsSent, ResetsTaken uint64
	Probes                  uint64 // of a window that is shut
	TimeOuts                uint64
}

// New makes an empty table.
func New(c Config, h Host, now clock.Time) *Table {
	c.setDefaults()
	t := &Table{config: c, host: h, lookup: map[pair]ID{}, bound: map[Endpoint]int{}, timers: wheel.New(now, 0), now: now}
	t.onTimer = t.timerExpired
	return t
}

// Stats are the totals so far.
func (t *Table) Stats() Stats { return t.stats }

// Len is how many connections there are, those that were closed and are not over included.
func (t *Table) Len() int { return len(t.conns) - len(t.free) }

// State is the state of a connection.
func (t *Table) State(id ID) State { return t.conns[id].state }

// Local is a connection's own endpoint.
func (t *Table) Local(id ID) Endpoint { return t.conns[id].local }

// Remote is a connection's endpoint at the peer.
func (t *Table) Remote(id ID) Endpoint { return t.conns[id].remote }

// Unacknowledged is the number of the first byte that the peer has not confirmed.
func (t *Table) Unacknowledged(id ID) Seq { return t.conns[id].una }

// End is the number that the next byte given to Queue gets.
func (t *Table) End(id ID) Seq { return t.conns[id].end }

// Held is how many received bytes count against the window.
func (t *Table) Held(id ID) int { return int(t.conns[id].held) }

// SetUserTimeout gives the connection up when nothing that was sent is acknowledged for so many milliseconds (RFC 5482); 0: never.
func (t *Table) SetUserTimeout(id ID, milliseconds int) {
	t.conns[id].userTimeout = uint32(milliseconds)
}

// Bind reserves a local endpoint and returns it. With port 0 it chooses a free one. The zero address is all of the host's. Errors: ErrInUse,
// ErrNoPort.
func (t *Table) Bind(e Endpoint) (Endpoint, error) {
	if e.Port != 0 {
		if !t.isFree(e) {
			return e, ErrInUse
		}
		t.bound[e]++
		return e, nil
	}
	const first, count = 32768, 60999 - 32768 + 1 // Linux's range
	from := t.config.Random() % count
	for i := range uint64(count) {
		e.Port = uint16(first + (from+i)%count)
		if t.isFree(e) {
			t.bound[e]++
			return e, nil
		}
	}
	return e, ErrNoPort
}

// isFree reports whether no reserved endpoint conflicts with e: the zero address conflicts with every other one of the same port.
func (t *Table) isFree(e Endpoint) bool {
	if len(t.bound) == 0 {
		return true
	}
	if e.Addr != ([4]byte{}) {
		return t.bound[e] == 0 && t.bound[Endpoint{Port: e.Port}] == 0
	}
	for b := range t.bound {
		if b.Port == e.Port {
			return false
		}
	}
	return true
}

// Unbind gives an endpoint back.
func (t *Table) Unbind(e Endpoint) {
	if t.bound[e]--; t.bound[e] <= 0 {
		delete(t.bound, e)
	}
}

// Listen accepts connections for an endpoint that was bound; at most backlog of them wait to be taken. The number is the listener's.
func (t *Table) Listen(e Endpoint, backlog int) int32 {
	l := listener{local: e, backlog: max(backlog, 1), open: true}
	for i := range t.listeners {
		if !t.listeners[i].open && t.listeners[i].waiting == 0 {
			t.listeners[i] = l
			return int32(i) + 1
		}
	}
	t.listeners = append(t.listeners, l)
	return int32(len(t.listeners))
}

// Unlisten ends a listener and its half-open connections. The caller must Abort those that were accepted and not taken.
func (t *Table) Unlisten(number int32) {
	t.listeners[number-1].open = false
	for id := range t.conns {
		if c := &t.conns[id]; c.listener == number && c.state == SynReceived {
			t.forget(ID(id))
		}
	}
}

// listening finds the listener for an endpoint: one bound to its address, else one bound to all addresses; nil when there is none.
func (t *Table) listening(e Endpoint) *listener {
	var any *listener
	for i := range t.listeners {
		switch l := &t.listeners[i]; {
		case !l.open || l.local.Port != e.Port:
		case l.local.Addr == e.Addr:
			return l
		case l.local.Addr == [4]byte{}:
			any = l
		}
	}
	return any
}

// open makes the record of a new connection, with a random initial sequence number, and puts it into the lookup.
func (t *Table) open(local, remote Endpoint) ID {
	id := t.newRecord()
	iss := Seq(t.config.Random())
	t.conns[id] = Conn{local: local, remote: remote, una: iss, nxt: iss, max: iss, end: iss + 1, sndEdge: iss + 1,
		due: clock.Never, ackDue: clock.Never, flags: flagInLookup}
	t.lookup[pair{local, remote}] = id
	return id
}

// newRecord takes a free record, or a new one.
func (t *Table) newRecord() ID {
	if n := len(t.free); n > 0 {
		id := t.free[n-1]
		t.free = t.free[:n-1]
		return id
	}
	t.conns = append(t.conns, Conn{})
	return ID(len(t.conns)) - 1
}

// removeLookup takes a connection out of the lookup: no segment finds it.
func (t *Table) removeLookup(c *Conn) {
	if c.flags&flagInLookup != 0 {
		delete(t.lookup, pair{c.local, c.remote})
		c.flags &^= flagInLookup
	}
}

// closeConn moves a connection to CLOSED: no segment finds it any more, and its timer is stopped. The record lives until forget.
func (t *Table) closeConn(c *Conn) {
	if c.state != Closed {
		c.become(Closed)
	}
	t.removeLookup(c)
	c.due, c.ackDue = clock.Never, clock.Never
	if c.timer != 0 {
		t.timers.Stop(c.timer)
		c.timer = 0
	}
}

// end moves a connection that is through in both directions to CLOSED, and frees its record if it was closed; else Close does.
func (t *Table) end(id ID) {
	if c := &t.conns[id]; c.flags&flagClosed != 0 {
		t.forget(id)
	} else {
		t.closeConn(c)
	}
}

// forget frees the record of a connection, and its ID: EventGone.
func (t *Table) forget(id ID) {
	c := &t.conns[id]
	t.closeConn(c)
	t.leaveBacklog(c)
	if c.flags&flagBlocked != 0 {
		t.blocked = slices.DeleteFunc(t.blocked, func(x ID) bool { return x == id })
	}
	if c.flags&flagOwing != 0 {
		t.owing = slices.DeleteFunc(t.owing, func(x ID) bool { return x == id })
	}
	t.host.Event(id, Event{Kind: EventGone})
	t.conns[id] = Conn{}
	t.free = append(t.free, id)
}

// leaveBacklog takes the connection off its listener's backlog, if it waits there.
func (t *Table) leaveBacklog(c *Conn) {
	if c.listener > 0 {
		t.listeners[c.listener-1].waiting--
		c.listener = 0
	}
}

// fail ends a connection with the event why. One that was closed, or was never announced by EventAccepted, is freed without that event.
func (t *Table) fail(id ID, why EventKind) {
	c := &t.conns[id]
	if c.flags&flagClosed != 0 || c.state == SynReceived && c.listener > 0 {
		t.forget(id)
		return
	}
	t.closeConn(c)
	t.host.Event(id, Event{Kind: why})
}
