package simnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// judge holds the invariants. It sees what each host's driver hands to its card and takes from it, works out by rules of its own which
// sockets a frame is for, and compares that with what the application gets. What is missing must be in the counters, to the last one.
type judge struct {
	w       *World
	sockets []*sockState // by user data
	places  [][slots]*sockState
	// lingering are sockets of a host whose Close waits for their sends: what comes for them is thrown away, by the ring or, from a
	// moment on that the completions do not show exactly, by the stack.
	lingering [][]*sockState
	posted    []datagram
	buf       []byte
	hold      []int // packets that a host's application is to keep
	held      [][]buffers.Packet
	hosts     []account
}

// account is what is known of a host's datagrams.
type account struct {
	accepted, out, looped uint64 // taken by Send; seen on the card; those that stay on the host
	failed                uint64 // SENT with an error other than that the neighbour did not answer
	drops                 uint64 // frames that the stack must have dropped
	expected, delivered   uint64 // datagrams for sockets: each counts as often as it has sockets
	lingered              uint64 // datagrams for sockets whose Close waits: as well
	icmp, refused         uint64
	blocked               uint64
}

type datagram struct {
	from   *sockState
	to     netip.AddrPort
	length int
	out    bool
}

// sockState is a socket of the scenario.
type sockState struct {
	s               *ring.Socket
	host, slot      int
	local, remote   netip.AddrPort
	group           netip.Addr
	loop            bool
	closing, closed bool
	wantOut         bool
	tokens          map[uint64]bool
	expect          []fifo // by sending host
	lastOut         map[netip.AddrPort]int
	skipped         []uint32
	done            []uint32
}

// fifo is the datagrams that are to come, oldest first.
type fifo struct {
	list []expected
	head int
}

type expected struct {
	id uint32
	at int64
}

const magic = 0x53696d4e

func newJudge(w *World, hosts int) *judge {
	return &judge{w: w, places: make([][slots]*sockState, hosts), lingering: make([][]*sockState, hosts),
		hold: make([]int, hosts), held: make([][]buffers.Packet, hosts),
		hosts: make([]account, hosts), buf: make([]byte, 2048)}
}

func (j *judge) fail(what, format string, args ...any) {
	j.w.Fail(fmt.Errorf("%s: "+format, append([]any{what}, args...)...))
}

func (j *judge) at(h, slot int) *sockState { return j.places[h][slot] }

func (j *judge) opened(h, slot int, s *ring.Socket) *sockState {
	k := &sockState{s: s, host: h, slot: slot, local: s.LocalAddr(), remote: s.RemoteAddr(), tokens: map[uint64]bool{},
		lastOut: map[netip.AddrPort]int{}, expect: make([]fifo, len(j.hosts))}
	s.SetUserData(uint64(len(j.sockets)))
	j.sockets = append(j.sockets, k)
	j.places[h][slot] = k
	return k
}

func (k *sockState) String() string { return fmt.Sprintf("host %d slot %d", k.host, k.slot) }

// content fills a payload in: who it is, and what only it has.
func content(b []byte, id int) {
	binary.BigEndian.PutUint32(b, magic)
	binary.BigEndian.PutUint32(b[4:], uint32(id))
	x := splitmix(uint64(id) + 1)
	for b = b[8:]; len(b) >= 8; b = b[8:] {
		x = x*factor + 1
		binary.LittleEndian.PutUint64(b, x)
	}
	for i := range b {
		b[i] = byte(x >> (8 * i))
	}
}

func idOf(b []byte) (int, bool) {
	if len(b) < 16 || binary.BigEndian.Uint32(b) != magic {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(b[4:])), true
}

func (j *judge) completed(*Host, *ring.Completion) {}

// completion is what the application of a host gets.
func (j *judge) completion(h int, c *ring.Completion) {
	if c.UserData >= uint64(len(j.sockets)) {
		j.fail("completion", "host %d: user data %d", h, c.UserData)
		return
	}
	k := j.sockets[c.UserData]
	switch {
	case k.host != h || k.s != c.Socket:
		j.fail("completion", "%v's user data comes with another socket", k)
	case k.closed:
		j.fail("closed", "%v: %v comes after CLOSED", k, c.Events)
	case k.closing && c.Events&^(ring.EventSent|ring.EventClosed) != 0:
		j.fail("closed", "%v: %v comes after Close", k, c.Events)
	}
	if c.Events.Has(ring.EventClosed) {
		if !k.closing || c.Events != ring.EventClosed || len(k.tokens) > 0 {
			j.fail("closed", "%v: %v, closing %v, %d sends under way", k, c.Events, k.closing, len(k.tokens))
		}
		k.closed = true
	}
	if c.Events.Has(ring.EventSent) {
		j.token(k, c)
	}
	if c.Events.Has(ring.EventOut) {
		if !k.wantOut {
			j.fail("out", "%v: OUT was not promised", k)
		}
		k.wantOut = false
	}
	if c.Events.Has(ring.EventErr) && !c.Events.Has(ring.EventSent) {
		a := &j.hosts[h]
		if a.refused++; !errors.Is(c.Err, unix.ECONNREFUSED) || !k.remote.IsValid() || a.refused > a.icmp+a.looped {
			j.fail("refused", "%v: %v with %v; %d such messages came", k, c.Events, c.Err, a.icmp)
		}
	}
	if c.Packet.IsZero() {
		if c.Events.Has(ring.EventPacket) {
			j.fail("completion", "%v: a packet without one", k)
		}
		return
	}
	j.packet(k, c)
	if j.hold[h] > 0 {
		j.hold[h]--
		j.held[h] = append(j.held[h], c.Packet)
	} else if err := c.Packet.Release(); err != nil {
		j.fail("ledger", "%v: %v", k, err)
	}
}

func (j *judge) token(k *sockState, c *ring.Completion) {
	if !k.tokens[c.Token] {
		j.fail("sent", "%v: SENT with token %d, which is not under way", k, c.Token)
		return
	}
	if delete(k.tokens, c.Token); len(k.tokens) == 0 && k.closing {
		j.lingering[k.host] = slices.DeleteFunc(j.lingering[k.host], func(x *sockState) bool { return x == k })
	}
	d := &j.posted[c.Token-1]
	stays := !d.to.Addr().IsMulticast() && d.to.Addr() == addrOf(k.host)
	if (c.Err == nil) != (d.out || stays) {
		j.fail("sent", "%v: SENT for datagram %d with %v, on the line: %v", k, c.Token-1, c.Err, d.out)
	}
	if c.Err != nil && !errors.Is(c.Err, unix.EHOSTUNREACH) {
		j.hosts[k.host].failed++
		if !errors.Is(c.Err, unix.EMSGSIZE) {
			j.fail("sent", "%v: SENT for datagram %d with %v", k, c.Token-1, c.Err)
		}
	}
}

// packet judges one delivery.
func (j *judge) packet(k *sockState, c *ring.Completion) {
	b := c.Packet.Bytes()
	id, ok := idOf(b)
	if !ok || id >= len(j.posted) || j.posted[id].length != len(b) {
		j.fail("content", "%v: %d bytes that nobody sent", k, len(b))
		return
	}
	d := &j.posted[id]
	want := j.buf[:len(b)]
	content(want, id)
	switch from := netip.AddrPortFrom(addrOf(d.from.host), d.from.local.Port()); {
	case string(want) != string(b):
		j.fail("content", "%v: datagram %d was changed", k, id)
		return
	case c.Source != from:
		j.fail("source", "%v: datagram %d of %v comes from %v", k, id, from, c.Source)
		return
	case c.Destination != d.to:
		j.fail("target", "%v: datagram %d to %v comes as to %v", k, id, d.to, c.Destination)
		return
	}
	q := &k.expect[d.from.host]
	rest := q.list[q.head:]
	i := slices.IndexFunc(rest, func(e expected) bool { return e.id == uint32(id) })
	if i < 0 {
		switch {
		case slices.Contains(k.skipped, uint32(id)):
			j.fail("order", "%v: datagram %d comes behind a later one of the same sender", k, id)
		case slices.Contains(k.done, uint32(id)):
			j.fail("duplicate", "%v: datagram %d comes more often than it arrived", k, id)
		default:
			j.fail("target", "%v: datagram %d to %v was not for it", k, id, d.to)
		}
		return
	}
	for _, e := range rest[:i] {
		k.skipped = append(k.skipped, e.id)
	}
	if at := rest[i].at; d.from.host != k.host && c.Time.Nanos-epoch != at || at > j.w.now {
		j.fail("time", "%v: datagram %d arrived at %d and is stamped %d, now is %d", k, id, at, c.Time.Nanos-epoch, j.w.now)
	}
	q.head += i + 1
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	k.done = append(k.done, uint32(id))
	j.hosts[k.host].delivered++
}

func (j *judge) release(h int) {
	for _, p := range j.held[h] {
		if err := p.Release(); err != nil {
			j.fail("ledger", "host %d: %v", h, err)
		}
	}
	j.held[h] = j.held[h][:0]
	j.hold[h] = 0
}

// gone checks that every socket has been closed, once.
func (j *judge) gone() error {
	for _, k := range j.sockets {
		if !k.closed {
			return fmt.Errorf("closed: %v: CLOSED never came", k)
		}
	}
	return nil
}

// count adds what happened.
func (j *judge) count(t *totals) {
	if j == nil {
		return
	}
	for h := range j.hosts {
		a := &j.hosts[h]
		t.datagrams += a.accepted
		t.received += a.delivered
		t.refused += a.refused
		t.blocked += a.blocked
		t.drops += a.drops
		host := j.w.hosts[h]
		t.rings += host.nics[0].stats.RxLost
		t.kept += host.Counter("stack.kept")
		t.waiting += host.Counter("stack.waited_for_neighbour")
		t.resumed += host.ring.Stats().BudgetStops
	}
	for _, l := range j.w.lines {
		for i, n := range l.stats.Lost {
			t.lost[i] += n
		}
		t.duplicated += l.stats.Duplicated
		t.reordered += l.stats.Reordered
		t.corrupted += l.stats.Corrupted
		t.shortened += l.stats.Shortened
	}
}
