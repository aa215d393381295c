package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/handoff"
)

// pollHandoff is the turn's look at what other rings have received for sockets of this one.
func (d *driver) pollHandoff(k *ring.Sink) {
	first, queues := d.handoff.Poll()
	for i := range queues {
		q := queues[(first+i)%len(queues)]
		if q.IsReady() && !d.shadows.LinksWait() {
			d.takeOver(k, q)
		}
	}
}

// takeOver copies a burst of datagrams out of another ring's buffers, returns those, and delivers. Callbacks of the application run in
// the delivering only: they may do whatever they like, closing the other ring included.
func (d *driver) takeOver(k *ring.Sink, q *handoff.Queue) {
	n := q.Begin(min(k.Room(), ip.MaxBurst))
	if n == 0 {
		return
	}
	d.idle = 0
	for i := range n {
		x, payload := q.At(i)
		d.udp.TakeHandoff(&x, payload)
	}
	q.End(n)
	d.handoff.CountTaken(n)
	d.hand(k)
}

// wakeOwner wakes the driver if it sleeps: another ring or a job has something for it. Any goroutine.
func (d *driver) wakeOwner() {
	if d.sleeping.Load() && d.sleeping.CompareAndSwap(true, false) {
		d.Wake()
	}
}
