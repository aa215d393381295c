package memory

import (
	"errors"
	"fmt"
	"math"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Fault decides what becomes of a frame on the wire: it returns the frame, changed in place or cut if it likes, and how often it
// arrives; 0 loses it. The slice has room for the longest frame. It runs inside Send and must not keep the slice.
type Fault func(frame []byte) (arrives []byte, copies int)

// Config describes a pair of ends.
type Config struct {
	Names  [2]string
	Addrs  [2][6]byte // Ethernet addresses
	MTU    int        // 68 to 65,535; 0 means 1,500
	Slots  int        // frames on the wire each way, a power of two; 0 means 256
	Faults [2]Fault   // for frames that end 0 and end 1 send; nil: none
}

// etherOverhead is what a frame has beyond the IP packet: Ethernet header and two tags.
const etherOverhead = 14 + 2*4

// End is one end of a pair, owned by the goroutine that owns its pool.
type End struct {
	pool  *buffers.DriverPool
	class buffers.Class
	info  link.Info
	in    *queue
	out   *queue
	fault Fault

	sent   []link.Out // sent and not yet taken back, from first to next
	first  uint32
	next   uint32
	mask   uint32
	stats  link.Stats
	starve uint64 // Receive found no buffer for a frame
	faults uint64 // frames that the fault hook lost
	gone   uint64 // frames sent to an end that was closed
	long   uint64 // frames longer than the link takes
	closed bool

	shut, retired bool
}

var _ link.Staged = (*End)(nil)

// Pair makes two ends over the pools of their owners; the pools may be the same if one goroutine owns both ends.
func Pair(a, b *buffers.DriverPool, c Config) (*End, *End, error) {
	if c.MTU == 0 {
		c.MTU = 1500
	}
	if c.MTU < 68 || c.MTU > 65535 {
		return nil, nil, fmt.Errorf("link/memory: MTU is %d, must be 68 to 65535", c.MTU)
	}
	if c.Slots == 0 {
		c.Slots = 256
	}
	if c.Slots < 1 || c.Slots > 1<<20 || c.Slots&(c.Slots-1) != 0 {
		return nil, nil, fmt.Errorf("link/memory: Slots is %d, must be a power of two up to %d", c.Slots, 1<<20)
	}
	if a == nil || b == nil {
		return nil, nil, fmt.Errorf("link/memory: a pool is nil")
	}
	size := c.MTU + etherOverhead
	ab, err := newQueue(c.Slots, size)
	if err != nil {
		return nil, nil, fmt.Errorf("link/memory: %w", err)
	}
	ba, err := newQueue(c.Slots, size)
	if err != nil {
		_ = ab.eventfd.Close()
		return nil, nil, fmt.Errorf("link/memory: %w", err)
	}
	return newEnd(a, c, 0, ba, ab), newEnd(b, c, 1, ab, ba), nil
}

// newEnd makes end i of a pair, which receives from one queue and sends into the other. It fills small buffers if the pool has any.
func newEnd(pool *buffers.DriverPool, c Config, i int, in, out *queue) *End {
	l := pool.Layout()
	e := &End{pool: pool, in: in, out: out, fault: c.Faults[i], sent: make([]link.Out, c.Slots), mask: uint32(c.Slots - 1)}
	e.info = link.Info{Name: c.Names[i], Addr: c.Addrs[i], MTU: c.MTU, MaxFrame: in.size, PerBuffer: l.SmallSize, Headroom: l.Headroom,
		MaxPieces: math.MaxInt}
	if l.SmallCount == 0 {
		e.class, e.info.PerBuffer = buffers.Large, l.LargeSize
	}
	return e
}

// Info is what the link is.
func (e *End) Info() link.Info { return e.info }

// Caps is that frames may be longer than a buffer.
func (e *End) Caps() link.Caps { return link.CapJumbo }

// Why explains a missing capability.
func (e *End) Why(c link.Caps) link.Reason {
	switch {
	case e.Caps().Has(c):
		return link.Reason{}
	case c.Has(link.CapZeroCopy):
		return link.Reason{Code: "memory.copies", Text: "the ends have pools of their own: frames are copied between them"}
	case c.Has(link.CapSteering):
		return link.Reason{Code: "memory.no_kernel", Text: "no kernel is on the wire that could take the other frames"}
	}
	return link.Reason{Code: "memory.no_clock", Text: "a memory link has no clock"}
}

// Path is how frames travel.
func (e *End) Path() link.Path { return link.Path{Kind: "memory", Interface: e.info.Name, Jumbo: true} }

// Receive takes the frames that the other end has flushed.
func (e *End) Receive(dst []link.Frame) int {
	n := 0
	head, tail := e.in.head.Load(), e.in.tail.Load()
	for n < len(dst) && head != tail && !e.closed {
		slot := e.in.slot(head)
		p := e.fill(slot[:e.in.lens[head&e.in.mask]])
		if p.IsZero() {
			e.starve++
			break
		}
		dst[n] = link.Frame{Packet: p}
		e.stats.RxFrames++
		e.stats.RxBytes += uint64(p.Len())
		n++
		head++
	}
	if n > 0 {
		e.in.head.Store(head) // after the frames were copied: the producer may write there again
	}
	return n
}

// fill copies a received frame into as many buffers as it needs; the zero packet when too few are free.
func (e *End) fill(frame []byte) (p buffers.Packet) {
	for {
		i, ok := e.pool.Take(e.class)
		if !ok {
			if !p.IsZero() {
				_ = p.Release() // it cannot fail: the packet is ours alone
			}
			return buffers.Packet{}
		}
		k := copy(e.pool.Memory(i)[e.info.Headroom:e.info.Headroom+e.info.PerBuffer], frame)
		p = e.pool.Append(p, e.pool.Fill(i, e.info.Headroom, k, 0))
		if frame = frame[k:]; len(frame) == 0 {
			return p
		}
	}
}

// Send copies frames onto the wire.
func (e *End) Send(src []link.Out) int {
	for n := range src {
		if e.closed || e.next-e.first > e.mask {
			return n
		}
		e.transmit(src[n].Packet)
		e.sent[e.next&e.mask] = src[n]
		e.next++
	}
	return len(src)
}

// transmit copies one frame into the next slot, as often as the fault hook says. Each way in which it is lost is counted; shorter than an
// Ethernet header it is a bug of the caller, and panics.
func (e *End) transmit(p buffers.Packet) {
	length := p.Len()
	if length < 14 {
		panic(fmt.Sprintf("link/memory: Send: frame of %d bytes, must be at least 14", length))
	}
	if length > e.info.MaxFrame {
		e.long++
		return
	}
	e.stats.TxFrames++
	e.stats.TxBytes += uint64(length)
	if e.out.closed.Load() {
		e.gone++
		return
	}
	slot := e.out.reserve()
	if slot == nil {
		e.out.full.Add(1)
		return
	}
	frame, copies := slot[:p.CopyTo(slot)], 1
	if e.fault != nil {
		if frame, copies = e.fault(frame); copies <= 0 {
			e.faults++
			return
		}
		frame = slot[:copy(slot, frame)]
	}
	e.out.commit(len(frame))
	for range copies - 1 {
		again := e.out.reserve()
		if again == nil {
			e.out.full.Add(1)
			return
		}
		e.out.commit(copy(again, frame))
	}
}

// Flush shows the other end what was sent and wakes it if it sleeps.
func (e *End) Flush() error {
	if e.closed {
		return link.ErrClosed
	}
	e.out.publish()
	return nil
}

// Complete takes back the buffers of frames that are on the wire.
func (e *End) Complete(dst []link.Done) int {
	n := 0
	for ; e.first != e.next; e.first++ {
		o := &e.sent[e.first&e.mask]
		if o.Token != 0 && n == len(dst) {
			break
		}
		e.pool.Complete(o.Packet)
		if o.Token == 0 {
			_ = o.Packet.Release() // it was alone when it was sent
		} else {
			dst[n] = link.Done{Packet: o.Packet, Token: o.Token}
			n++
		}
		*o = link.Out{}
	}
	return n
}

// Unsent is how many frames have not come back by Complete.
func (e *End) Unsent() int { return int(e.next - e.first) }

// Pending is false: Flush shows all there is.
func (e *End) Pending() bool { return false }

// FD is readable when the end was armed and frames have come.
func (e *End) FD() int {
	if e.closed {
		return -1
	}
	return e.in.eventfd.FD()
}

// Arm makes FD readable with the next frame; pending: frames wait already.
func (e *End) Arm() (pending bool) {
	if e.closed {
		return false
	}
	e.in.armed.Store(true)
	return e.in.ready() > 0
}

// Disarm ends what Arm began.
func (e *End) Disarm() {
	if !e.closed && !e.in.armed.Swap(false) {
		e.in.eventfd.Drain()
	}
}

// Check is ErrDetached when the other end is closed.
func (e *End) Check() error {
	switch {
	case e.closed:
		return link.ErrClosed
	case e.out.closed.Load():
		return fmt.Errorf("link/memory: %s: the other end is closed: %w", e.info.Name, link.ErrDetached)
	}
	return nil
}

// Stats are the totals. What the wire lost is the receiver's loss when its slots were full, the sender's otherwise.
func (e *End) Stats() link.Stats {
	s := e.stats
	s.RxLost = e.in.full.Load()
	s.TxLost = e.faults + e.gone + e.long
	return s
}

// Counters appends the counts.
func (e *End) Counters(dst []link.Counter) []link.Counter {
	return append(dst,
		link.Counter{Name: "memory.rx_ring_full", Value: e.in.full.Load()},
		link.Counter{Name: "memory.rx_no_buffer", Value: e.starve},
		link.Counter{Name: "memory.tx_fault", Value: e.faults},
		link.Counter{Name: "memory.tx_peer_closed", Value: e.gone},
		link.Counter{Name: "memory.tx_too_long", Value: e.long})
}

// Start has nothing to do: Receive takes buffers when frames come.
func (e *End) Start() error { return nil }

// Stop ends receiving and sending for this end; the other one can still receive what was flushed.
func (e *End) Stop() { e.closed = true }

// Shut leaves the wire, after Stop.
func (e *End) Shut() error {
	if e.shut {
		return nil
	}
	e.shut = true
	e.in.closed.Store(true)
	return errors.Join(e.in.leave(), e.out.leave())
}

// Retire is Close, but that Complete still reports the frames with a token.
func (e *End) Retire() error {
	if e.retired {
		return link.ErrClosed
	}
	e.retired = true
	e.Stop()
	kept := e.first
	for i := e.first; i != e.next; i++ {
		o := e.sent[i&e.mask]
		e.sent[i&e.mask] = link.Out{}
		if o.Token != 0 {
			e.sent[kept&e.mask] = o
			kept++
			continue
		}
		e.pool.Complete(o.Packet)
		_ = o.Packet.Release()
	}
	e.next = kept
	return e.Shut()
}

// Close ends the link for this end; the other one can still receive what was flushed.
func (e *End) Close() error {
	err := e.Retire()
	for ; e.first != e.next; e.first++ {
		o := &e.sent[e.first&e.mask]
		e.pool.Complete(o.Packet)
		_ = o.Packet.Release()
		*o = link.Out{}
	}
	return err
}
