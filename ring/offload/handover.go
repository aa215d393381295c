package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/stack"
	"github.com/socketxtreme/socketxtreme/ring"
)

// give lends a datagram to the driver whose sockets it is for. One that finds no room is lost and counted, as a card's full queue
// loses frames.
func (d *driver) give(x *stack.Delivery) {
	l := d.out[x.To]
	if l == nil || l.closed.Load() { // it came just now, or went
		d.config.Exchange.meet(d)
		l = d.out[x.To]
	}
	switch {
	case l == nil:
		d.stats.HandoverClosed++
	case l.full() && !d.returned(l), d.lent >= d.lentMax && !d.returns():
		d.stats.HandoverFull++
	default:
		l.put(d.pool, x)
		d.lent++
		d.given++
		d.stats.HandedOver++
		return
	}
	_ = x.Packet.Release() // a reference of its own
}

// returned takes back what a driver has copied, and tells whether that was anything.
func (d *driver) returned(l *lane) bool {
	n, unread := l.reclaim()
	d.lent -= n
	d.stats.HandoverClosed += uint64(unread)
	return n > 0
}

// returns takes back what all of them have copied.
func (d *driver) returns() (some bool) {
	for _, l := range d.outward {
		if l.freed != l.next {
			some = d.returned(l) || some
		}
	}
	return some
}

// publish shows the others what a burst has brought them.
func (d *driver) publish() {
	d.given = 0
	for _, l := range d.outward {
		l.publish()
	}
}

// trade is the turn's look at the other drivers: one atomic load, and one for each lane.
func (d *driver) trade(k *ring.Sink) {
	if v := d.config.Exchange.version.Load(); v != d.met {
		d.config.Exchange.meet(d)
	}
	if d.lent > 0 {
		d.returns()
	}
	for i := range d.inward {
		l := d.inward[(uint64(i)+d.turn)%uint64(len(d.inward))]
		if l.ready() && !d.shadow.waits() {
			d.takeOver(k, l)
		}
	}
}

// takeOver copies a burst of datagrams out of another driver's buffers, gives those back, and delivers. Hooks of the application run in
// the delivering only: they may do whatever they like, closing the other ring included.
func (d *driver) takeOver(k *ring.Sink, l *lane) {
	room := min(k.Room(), stack.MaxBurst)
	if room == 0 || !l.begin() {
		return
	}
	d.idle = 0
	d.deliveries = d.deliveries[:0]
	head, tail := l.head.Load(), l.tail.Load()
	for n := 0; head != tail && n < room; n++ {
		s := &l.slots[head&l.mask]
		x := stack.Delivery{ID: s.id, Owner: s.owner, Flow: s.flow, Nanos: s.nanos, Clock: s.clock}
		d.deliveries = d.stack.Accept(&x, l.region[s.off:s.off+s.len], d.deliveries)
		head++
		d.stats.TakenOver++
	}
	l.end(head)
	d.hand(k)
}

// rouse wakes the driver if it rests: another one has put something down for it. Any goroutine.
func (d *driver) rouse() {
	if d.resting.Load() && d.resting.CompareAndSwap(true, false) {
		d.Wake()
	}
}
