package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/handoff"
)

// pollHandoff takes what other rings have received for sockets of this one; each turn calls it. The queue that comes first changes from turn
// to turn.
func (d *driver) pollHandoff(k *ring.Sink) {
	first, queues := d.handoff.Poll()
	for i := range queues {
		q := queues[(first+i)%len(queues)]
		if q.IsReady() && !d.shadows.LinksWait() { // as for the links: the kernel may have older datagrams of a new flow
			d.receiveHandoff(k, q)
		}
	}
}

// receiveHandoff delivers a burst that another ring has received. Callbacks of the application run only after the buffers are returned: they may
// close the other ring.
func (d *driver) receiveHandoff(k *ring.Sink, q *handoff.Queue) {
	if !d.takeHandoff(q, min(k.Room(), ip.MaxBurst)) {
		return
	}
	d.turn.idle = 0
	d.deliver(k)
	if d.tcp.streams != nil && d.tcp.streams.HasFacts() {
		d.tcp.streams.Report(k)
	}
}
