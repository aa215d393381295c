package simnet

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// kqueue is a queue of an interface with a ring's AF_XDP socket: frames are copied into buffers that the ring has given the kernel.
//
//	Start    the kernel gets its buffers     Stop     nothing comes and goes any more
//	Receive  it gets new ones                Shut     the kernel lets go (a job); another ring may open the queue
//	                                         Retire   the buffers return to the pool
type kqueue struct {
	device     *kdevice
	number     int
	pool       *buffers.DriverPool
	fill       int
	host       *Host // the host that has the pool: a frame schedules its turn; set by Start
	eventfd    sys.EventFD
	empty      []uint32 // buffers of the kernel
	rx         []link.Frame
	tx         []link.Out // taken by Send, not yet sent
	done       []link.Done
	unreported []buffers.Packet // sent without a token, not yet taken back
	stats      link.Stats
	full       uint64 // frames that found no room
	noBuffer   uint64 // frames for which there was no buffer
	unread     uint64 // frames that the ring had not taken when it was stopped
	ended      uint64 // frames that were not sent when it was retired
	noLink     uint64 // frames that were lost for want of a carrier
	started    bool
	stopped    bool
	shut       bool
	retired    bool
}

var _ link.Staged = (*kqueue)(nil)

func newKQueue(d *kdevice, number int, pool *buffers.DriverPool, fill int) *kqueue {
	return &kqueue{device: d, number: number, pool: pool, fill: min(fill, d.nic.kernel.config.QueueLen)}
}

// arrive copies a frame into one of the queue's buffers; false if there is none.
func (q *kqueue) arrive(f *frame) bool {
	l := q.pool.Layout()
	switch {
	case len(f.b) > l.SmallSize:
		q.noBuffer++
		return false
	case len(q.rx) >= q.device.nic.kernel.config.QueueLen:
		q.full++
		return false
	case len(q.empty) == 0:
		q.noBuffer++
		return false
	}
	i := q.empty[len(q.empty)-1]
	q.empty = q.empty[:len(q.empty)-1]
	n := copy(q.pool.Memory(i)[l.Headroom:l.Headroom+l.SmallSize], f.b)
	w := q.device.nic.kernel.world
	q.rx = append(q.rx, link.Frame{Packet: q.pool.Fill(i, l.Headroom, n, 0), Nanos: epoch + w.now, Source: link.ClockHardware})
	q.stats.RxFrames++
	q.stats.RxBytes += uint64(n)
	q.host.scheduleTurn(w.now + int64(q.host.config.Latency)) // not nil: before Start the queue has no buffer
	return true
}

// refill takes buffers from the pool until as many as configured are ready to receive into.
func (q *kqueue) refill() {
	for len(q.empty)+len(q.rx) < q.fill {
		i, ok := q.pool.Take(buffers.Small)
		if !ok {
			return
		}
		q.empty = append(q.empty, i)
	}
}

// Start finds the host that has the queue's pool, so that frames wake it, and takes the buffers for receiving from the pool. The descriptor is
// for FD alone: nothing signals it.
func (q *kqueue) Start() error {
	var err error
	if q.eventfd, err = sys.NewEventFD(); err != nil {
		return err
	}
	for _, h := range q.device.nic.kernel.hosts {
		if h.pool == q.pool {
			q.host = h
		}
	}
	q.started = true
	q.refill()
	return nil
}

// Stop ends receiving and sending. Frames that were received and not read are dropped.
func (q *kqueue) Stop() {
	if q.stopped {
		return
	}
	q.stopped = true
	q.unread += uint64(len(q.rx))
	for _, f := range q.rx {
		if j := q.device.nic.kernel.watcher; j != nil && f.Packet.Len() > 42 {
			j.lost(f.Packet.Bytes()[42:])
		}
		_ = f.Packet.Release() // nobody else has it
	}
	q.rx = nil
	if q.started {
		_ = q.eventfd.Close() // nothing is in it
	}
}

// Shut frees the queue's number, so that another ring can open the queue.
func (q *kqueue) Shut() error {
	if n := q.device.nic; !q.shut && n.queues[q.number] == q {
		n.queues[q.number] = nil
	}
	q.shut = true
	return nil
}

// Retire returns the buffers to the pool. Frames with a token that were not sent are reported by Complete.
func (q *kqueue) Retire() error {
	if q.retired {
		return link.ErrClosed
	}
	q.retired = true
	q.Stop()
	_ = q.Shut() // cannot fail
	for _, i := range q.empty {
		q.pool.Return(i)
	}
	q.empty = nil
	for _, o := range q.tx {
		q.ended++
		q.finish(o, unix.ENETDOWN)
	}
	q.tx = nil
	q.releaseUnreported()
	return nil
}

// Close is Retire that also releases the frames that Complete has not reported.
func (q *kqueue) Close() error {
	err := q.Retire()
	for _, d := range q.done {
		_ = d.Packet.Release()
	}
	q.done = nil
	return err
}

// finish notes that a frame has left, or failed with e. One with a token is reported by Complete; of the others the packet is released.
func (q *kqueue) finish(o link.Out, e unix.Errno) {
	if o.Token == 0 {
		q.unreported = append(q.unreported, o.Packet)
		return
	}
	q.pool.Complete(o.Packet)
	q.done = append(q.done, link.Done{Packet: o.Packet, Token: o.Token, Errno: e})
}

// releaseUnreported releases the packets of frames that have left and had no token.
func (q *kqueue) releaseUnreported() {
	for _, p := range q.unreported {
		q.pool.Complete(p)
		_ = p.Release() // it was alone when it was sent
	}
	q.unreported = q.unreported[:0]
}

// Info is what the link is.
func (q *kqueue) Info() link.Info {
	i := q.device.Info()
	i.Queue = q.number
	return i
}

const queueCaps = link.CapSteering | link.CapHardwareTime

// Caps: frames are steered, and stamped.
func (q *kqueue) Caps() link.Caps { return queueCaps }

// Why explains a missing capability.
func (q *kqueue) Why(c link.Caps) link.Reason {
	if queueCaps.Has(c) {
		return link.Reason{}
	}
	return link.Reason{Code: "simnet.copies", Text: "a simulated kernel copies frames, each into one buffer"}
}

// Path is how frames travel.
func (q *kqueue) Path() link.Path {
	p := q.device.Path()
	p.Queue = q.number
	return p
}

// Receive takes frames, and gives the kernel new buffers.
func (q *kqueue) Receive(dst []link.Frame) int {
	if q.stopped {
		return 0
	}
	n := copy(dst, q.rx)
	rest := copy(q.rx, q.rx[n:])
	clear(q.rx[rest:])
	q.rx = q.rx[:rest]
	q.refill()
	return n
}

// Send takes frames to be sent; Flush sends them.
func (q *kqueue) Send(src []link.Out) int {
	if q.stopped {
		return 0
	}
	n := min(len(src), q.device.nic.kernel.config.QueueLen-len(q.tx))
	q.tx = append(q.tx, src[:n]...)
	return n
}

// Flush sends the frames on the line.
func (q *kqueue) Flush() error {
	n := q.device.nic
	switch {
	case q.stopped:
		return link.ErrClosed
	case !n.present || n.index != q.device.index:
		return fmt.Errorf("simnet: %v: %w: %w", q, link.ErrDetached, unix.ENXIO)
	case !n.up:
		return unix.ENETDOWN
	}
	for _, o := range q.tx {
		if n.carrier {
			b := make([]byte, o.Packet.Len())
			o.Packet.CopyTo(b)
			q.stats.TxFrames++
			q.stats.TxBytes += uint64(len(b))
			n.transmit(b, true)
		} else {
			q.noLink++
		}
		q.finish(o, 0)
	}
	lost := !n.carrier && len(q.tx) > 0
	q.tx = q.tx[:0]
	if lost {
		return link.ErrNoCarrier
	}
	return nil
}

// Complete reports frames that have left, and returns their buffers to the owner.
func (q *kqueue) Complete(dst []link.Done) int {
	q.releaseUnreported()
	n := copy(dst, q.done)
	q.done = append(q.done[:0:0], q.done[n:]...)
	return n
}

// Unsent is how many frames have not come back by Complete; Pending reports whether Flush has left some.
func (q *kqueue) Unsent() int   { return len(q.tx) + len(q.done) + len(q.unreported) }
func (q *kqueue) Pending() bool { return len(q.tx) > 0 }

// FD is a descriptor that never becomes readable: the world knows when frames wait.
func (q *kqueue) FD() int {
	if q.stopped {
		return -1
	}
	return q.eventfd.FD()
}

// Arm reports whether frames wait.
func (q *kqueue) Arm() (pending bool) { return len(q.rx) > 0 }

// Disarm has nothing to end.
func (q *kqueue) Disarm() {}

// Check is that of the device.
func (q *kqueue) Check() error {
	if q.stopped {
		return link.ErrClosed
	}
	return q.device.Check()
}

// Stats are the totals.
func (q *kqueue) Stats() link.Stats {
	s := q.stats
	s.RxLost, s.TxLost = q.full+q.noBuffer+q.unread, q.noLink+q.ended
	return s
}

// Counters appends the counts.
func (q *kqueue) Counters(dst []link.Counter) []link.Counter {
	return append(dst, link.Counter{Name: "simnet.rx_ring_full", Value: q.full}, link.Counter{Name: "simnet.rx_no_buffer", Value: q.noBuffer},
		link.Counter{Name: "simnet.rx_unread", Value: q.unread}, link.Counter{Name: "simnet.tx_no_carrier", Value: q.noLink},
		link.Counter{Name: "simnet.tx_closed", Value: q.ended})
}

// String names the queue.
func (q *kqueue) String() string { return fmt.Sprintf("%s queue %d", q.device.nic.label(), q.number) }
