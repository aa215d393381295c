package handoff

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Hub connects the rings of a process: a queue for each ordered pair. Any goroutine.
type Hub struct {
	version atomic.Uint64 // moves when a ring comes or goes, after the queues are what they are to be

	mu     sync.Mutex
	ports  map[int]*Port
	queues map[[2]int]*Queue // from, to
	closed bool
}

// NewHub makes a hub without rings.
func NewHub() *Hub { return &Hub{ports: map[int]*Port{}, queues: map[[2]int]*Queue{}} }

// ErrClosed: the hub was closed.
var ErrClosed = errors.New("it was closed")

// Close ends the hub, once all rings have left; EBUSY before.
func (h *Hub) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.ports); n > 0 {
		return fmt.Errorf("%d rings are on it: %w", n, unix.EBUSY)
	}
	h.closed = true
	return nil
}

// WakeAll wakes the rings that sleep, in the order of their numbers: a simulation is repeatable.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ring := range slices.Sorted(maps.Keys(h.ports)) {
		h.ports[ring].wake()
	}
}

// Join adds a ring to the hub, with queues from and to each of the others. wake wakes that ring if it sleeps; the others call it, on their
// goroutines.
func (h *Hub) Join(ring int, pool *buffers.DriverPool, wake func()) (*Port, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	p := &Port{hub: h, ring: ring, pool: pool, wake: wake, lendLimit: lendLimit(pool)}
	for other, o := range h.ports {
		h.queues[[2]int{ring, other}] = newQueue(pool, o)
		h.queues[[2]int{other, ring}] = newQueue(o.pool, p)
	}
	h.ports[ring] = p
	h.version.Add(1)
	return p, nil
}

// Port is one ring's ends of the queues. It belongs to the ring's goroutine.
type Port struct {
	hub       *Hub
	ring      int
	pool      *buffers.DriverPool
	wake      func()
	version   uint64                    // of the hub when the queues were taken
	inward    []*Queue                  // from the other rings
	outward   []*Queue                  // to them
	out       [udp.MaxStacks + 1]*Queue // the same by number
	lent      int                       // packets that the others may be reading
	lendLimit int                       // and the most of them
	turn      uint64                    // the queue that comes first changes with it
	lost      atomic.Uint64             // datagrams for this ring that another one took with it when it closed
	stats     Stats
}

// Stats are counts of datagrams between rings.
type Stats struct {
	Given  uint64 // came in here for another ring's sockets
	Taken  uint64 // came in elsewhere for sockets of this ring
	Full   uint64 // lost because the other ring was too slow
	Closed uint64 // lost because a ring was closed
}

// Stats are the counts until now.
func (p *Port) Stats() Stats {
	s := p.stats
	s.Closed += p.lost.Load()
	return s
}

// Close removes the ring from the hub. Datagrams under way from or to it are lost: the other rings read no more of its buffers, and release
// what they have queued for it. Owner, or any goroutine before the first Poll.
func (p *Port) Close() {
	h := p.hub
	h.mu.Lock()
	for pair, q := range h.queues {
		switch p.ring {
		case pair[0]:
			q.closeByProducer()
			_, unread := q.reclaim()
			q.to.lost.Add(uint64(unread)) // this ring's own counters end here
			delete(h.queues, pair)
		case pair[1]:
			q.closed.Store(true) // the ring does not read now: this is its goroutine
			delete(h.queues, pair)
		}
	}
	delete(h.ports, p.ring)
	h.version.Add(1)
	h.mu.Unlock()
	for _, q := range p.outward { // those to rings that had left before
		p.reclaim(q)
	}
	p.inward, p.outward, p.out = nil, nil, [udp.MaxStacks + 1]*Queue{}
}

// HasIncoming reports whether rings have come or gone, or have queued datagrams for this one. A ring asks after it has announced its sleep:
// the other rings look whether it sleeps after they have queued something, so one of the two notices the other.
func (p *Port) HasIncoming() bool {
	return p.hub.version.Load() != p.version || slices.ContainsFunc(p.inward, (*Queue).IsReady)
}

// Send lends a datagram to the ring whose sockets it is for; Publish shows it. One that finds no room is lost and counted, as a card's full
// queue loses frames.
func (p *Port) Send(x *udp.Delivery) { p.send(x, 0) }

// SendSegment is Send for a TCP segment: the packet is an IPv4 packet in one buffer, of which the receiving network layer has proven the
// checksum.
func (p *Port) SendSegment(to int, ifIndex uint32, packet buffers.Packet) {
	p.send(&udp.Delivery{Packet: packet, To: int32(to), Flow: udp.Flow{Interface: ifIndex}}, ToTCP)
}

// send is Send; kind is what At is to return as To.
func (p *Port) send(x *udp.Delivery, kind int32) {
	q := p.out[x.To]
	if q == nil || q.closed.Load() { // it came just now, or went
		p.syncPeers()
		q = p.out[x.To]
	}
	switch {
	case q == nil:
		p.stats.Closed++
	case q.isFull() && !p.reclaim(q), p.lent >= p.lendLimit && !p.Reclaim():
		p.stats.Full++
	default:
		q.push(p.pool, x, kind)
		p.lent++
		p.stats.Given++
		return
	}
	_ = x.Packet.Release() // a reference of its own
}

// Publish makes what Send has queued visible to the other rings, once for a burst, and wakes those that sleep.
func (p *Port) Publish() {
	for _, q := range p.outward {
		q.publish()
	}
}

// reclaim releases the packets of one queue that its consumer has copied, and reports whether there were any.
func (p *Port) reclaim(q *Queue) bool {
	n, unread := q.reclaim()
	p.lent -= n
	p.stats.Closed += uint64(unread)
	return n > 0
}

// Reclaim releases the packets that the other rings have copied, and reports whether there were any.
func (p *Port) Reclaim() (some bool) {
	if p.lent == 0 {
		return false
	}
	for _, q := range p.outward {
		if q.freed != q.next {
			some = p.reclaim(q) || some
		}
	}
	return some
}

// Poll returns the queues from other rings, and the index of the one to read first, which changes from turn to turn; the caller asks each
// whether it is ready. It also releases what others have copied. One atomic load where nothing has happened.
func (p *Port) Poll() (first int, queues []*Queue) {
	if p.hub.version.Load() != p.version {
		p.syncPeers()
	}
	p.Reclaim()
	if len(p.inward) == 0 {
		return 0, nil
	}
	p.turn++
	return int(p.turn % uint64(len(p.inward))), p.inward
}

// CountTaken counts datagrams that were taken from a queue.
func (p *Port) CountTaken(n int) { p.stats.Taken += uint64(n) }

// syncPeers updates the port's queues after rings have come or gone.
func (p *Port) syncPeers() {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	old := p.outward
	p.version, p.outward, p.inward, p.out = h.version.Load(), nil, nil, [udp.MaxStacks + 1]*Queue{}
	order := func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }
	for _, pair := range slices.SortedFunc(maps.Keys(h.queues), order) {
		q := h.queues[pair]
		switch p.ring {
		case pair[0]:
			p.outward = append(p.outward, q)
			p.out[pair[1]] = q
		case pair[1]:
			p.inward = append(p.inward, q)
		}
	}
	for _, q := range old {
		if !slices.Contains(p.outward, q) {
			p.reclaim(q) // its reader is gone
		}
	}
}
