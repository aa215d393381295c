package simnet

import (
	"fmt"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// NIC is a network card of a host: the link under its driver, with a receive ring of bounded length. Frames are copied from and to the
// host's pool. Received frames are stamped with the virtual time of their arrival.
type NIC struct {
	host  *Host
	index int // of the interface
	name  string
	mac   [6]byte
	mtu   int
	out   *Line

	rx      []arrived
	head    int
	n       int
	starved bool   // Receive found no buffer
	freed   uint64 // of the pool then

	tx           []link.Out // taken by Send, not yet flushed
	done         []link.Out // on the line, not yet taken back
	stats        link.Stats
	in           uint64 // frames that came from the line
	sentUncabled uint64 // sent without a cable
	waited       uint64 // times that Receive found no buffer
	eventfd      sys.EventFD
	closed       bool
	retired      bool
}

type arrived struct {
	f  *frame
	at int64
}

var _ link.Staged = (*NIC)(nil)

// etherOverhead is what a frame has beyond the IP packet: Ethernet header and two tags.
const etherOverhead = 14 + 2*4

// Name is the interface's name, "eth0" for the first of a host.
func (n *NIC) Name() string { return n.name }

// plug connects the card to the line out, on which it sends; a card has one cable.
func (n *NIC) plug(out *Line) (socketPlace, error) {
	if n.out != nil {
		return socketPlace{}, fmt.Errorf("simnet: connect %s: it has a cable already", n.label())
	}
	n.out = out
	return socketPlace{nic: n}, nil
}

func (n *NIC) label() string { return n.host.name + "." + n.name }
func (n *NIC) home() *World  { return n.host.world }

// arrive puts a frame into the receive ring, or drops it if the ring is full.
func (n *NIC) arrive(f *frame) {
	n.in++
	w := n.host.world
	if n.n == len(n.rx) || n.closed {
		n.stats.RxLost++
		w.releaseFrame(f)
		return
	}
	n.rx[(n.head+n.n)%len(n.rx)] = arrived{f, w.now}
	n.n++
	n.host.scheduleTurn(w.now + int64(n.host.config.Latency))
}

// Info is what the link is.
func (n *NIC) Info() link.Info {
	l := n.host.pool.Layout()
	return link.Info{Name: n.name, Index: n.index, Addr: n.mac, MTU: n.mtu, MaxFrame: maxFrame, PerBuffer: l.SmallSize,
		Headroom: l.Headroom, MaxPieces: 1 << 16}
}

// maxFrame is the longest there is: what a card of a larger MTU sent arrives as well.
const maxFrame = 65535 + etherOverhead

const nicCaps = link.CapJumbo | link.CapHardwareTime

// Caps: frames may be longer than a buffer, and are stamped.
func (n *NIC) Caps() link.Caps { return nicCaps }

// Why explains a missing capability.
func (n *NIC) Why(c link.Caps) link.Reason {
	switch {
	case nicCaps.Has(c):
		return link.Reason{}
	case c.Has(link.CapZeroCopy):
		return link.Reason{Code: "simnet.copies", Text: "simulated hosts have pools of their own: frames are copied between them"}
	case c.Has(link.CapSteering):
		return link.Reason{Code: "simnet.no_kernel", Text: "a simulated host has no kernel that could take the other frames"}
	}
	return link.Reason{Code: "simnet.card_time", Text: "the simulated card stamps frames itself"}
}

// Path is how frames travel.
func (n *NIC) Path() link.Path {
	return link.Path{Kind: "simnet", Interface: n.name, Jumbo: true, Clock: link.ClockHardware}
}

// Receive takes frames that have arrived.
func (n *NIC) Receive(dst []link.Frame) int {
	k := 0
	w := n.host.world
	for k < len(dst) && n.n > 0 && !n.closed {
		x := &n.rx[n.head]
		p := n.fill(x.f.b)
		if p.IsZero() {
			n.waited++
			n.starved, n.freed = true, n.host.pool.Freed()
			return k
		}
		dst[k] = link.Frame{Packet: p, Nanos: epoch + x.at, Source: link.ClockHardware}
		n.stats.RxFrames++
		n.stats.RxBytes += uint64(len(x.f.b))
		if w.watch != nil {
			w.watch.taken(n, x.f, x.at)
		}
		w.releaseFrame(x.f)
		*x = arrived{}
		n.head = (n.head + 1) % len(n.rx)
		n.n--
		k++
	}
	n.starved = false
	return k
}

// epoch is when worlds begin, for time stamps: 2026-01-01 00:00 UTC.
const epoch = 1767225600 * int64(time.Second)

// fill copies a frame into as many buffers as it needs; the zero Packet if there are too few.
func (n *NIC) fill(b []byte) (p buffers.Packet) {
	pool := n.host.pool
	l := pool.Layout()
	for {
		i, ok := pool.Take(buffers.Small)
		if !ok {
			if !p.IsZero() {
				_ = p.Release() // nobody else has it
			}
			return buffers.Packet{}
		}
		k := copy(pool.Memory(i)[l.Headroom:l.Headroom+l.SmallSize], b)
		p = pool.Append(p, pool.Fill(i, l.Headroom, k, 0))
		if b = b[k:]; len(b) == 0 {
			return p
		}
	}
}

// Send takes frames to be sent; Flush sends them.
func (n *NIC) Send(src []link.Out) int {
	if n.closed {
		return 0
	}
	for i := range src {
		if k := src[i].Packet.Len(); k < 14 || k > maxFrame {
			panic(fmt.Sprintf("simnet: %s: Send: frame of %d bytes, must be 14 to %d", n.label(), k, maxFrame))
		}
	}
	n.tx = append(n.tx, src...)
	return len(src)
}

// Flush sends the frames on the line.
func (n *NIC) Flush() error {
	if n.closed {
		return link.ErrClosed
	}
	w := n.host.world
	for i := range n.tx {
		p := n.tx[i].Packet
		f := w.newFrame(p.Len())
		p.CopyTo(f.b)
		f.kind = kindOf(f.b)
		n.stats.TxFrames++
		n.stats.TxBytes += uint64(len(f.b))
		if w.watch != nil {
			w.watch.sent(n, f)
		}
		if n.out == nil {
			n.sentUncabled++
			n.stats.TxLost++
			w.releaseFrame(f)
			continue
		}
		n.out.send(f)
	}
	n.done = append(n.done, n.tx...)
	clear(n.tx)
	n.tx = n.tx[:0]
	return nil
}

// Complete reports frames that have left, and returns their buffers to the owner.
func (n *NIC) Complete(dst []link.Done) int {
	k, i := 0, 0
	for ; i < len(n.done); i++ {
		o := &n.done[i]
		if o.Token != 0 && k == len(dst) {
			break
		}
		n.host.pool.Complete(o.Packet)
		if o.Token == 0 {
			_ = o.Packet.Release() // it was alone when it was sent
		} else {
			dst[k] = link.Done{Packet: o.Packet, Token: o.Token}
			k++
		}
	}
	rest := copy(n.done, n.done[i:])
	clear(n.done[rest:])
	n.done = n.done[:rest]
	return k
}

// Unsent is how many frames have not come back by Complete.
func (n *NIC) Unsent() int { return len(n.tx) + len(n.done) }

// Pending is false: Flush puts all there is on the line.
func (n *NIC) Pending() bool { return false }

// FD is a descriptor that never becomes readable: the world knows when frames wait.
func (n *NIC) FD() int {
	if n.closed {
		return -1
	}
	return n.eventfd.FD()
}

// Arm reports whether frames wait that could be received: without a buffer they go on waiting.
func (n *NIC) Arm() (pending bool) {
	return n.n > 0 && !(n.starved && n.freed == n.host.pool.Freed())
}

// Disarm has nothing to end.
func (n *NIC) Disarm() {}

// Check is nil: a card without a cable loses frames, and says so in its counters.
func (n *NIC) Check() error {
	if n.closed {
		return link.ErrClosed
	}
	return nil
}

// Stats are the totals.
func (n *NIC) Stats() link.Stats { return n.stats }

// Counters appends the counts.
func (n *NIC) Counters(dst []link.Counter) []link.Counter {
	return append(dst,
		link.Counter{Name: "simnet.rx_ring_full", Value: n.stats.RxLost},
		link.Counter{Name: "simnet.rx_no_buffer", Value: n.waited},
		link.Counter{Name: "simnet.tx_no_cable", Value: n.sentUncabled})
}

// Start has nothing to do: Receive takes buffers when frames come.
func (n *NIC) Start() error { return nil }

// Stop ends receiving and sending.
func (n *NIC) Stop() {
	n.closed = true
	for ; n.n > 0; n.n-- {
		n.host.world.releaseFrame(n.rx[n.head].f)
		n.head = (n.head + 1) % len(n.rx)
	}
}

// Shut has nothing to wait for.
func (n *NIC) Shut() error { return nil }

// Retire is Close, but that Complete still reports the frames with a token.
func (n *NIC) Retire() error {
	if n.retired {
		return link.ErrClosed
	}
	n.retired = true
	n.Stop()
	kept := n.done[:0:0]
	for _, o := range slices.Concat(n.done, n.tx) {
		if o.Token != 0 {
			kept = append(kept, o)
			continue
		}
		n.host.pool.Complete(o.Packet)
		_ = o.Packet.Release()
	}
	n.tx, n.done = nil, kept
	return n.eventfd.Close()
}

// Close ends the link.
func (n *NIC) Close() error {
	err := n.Retire()
	for _, o := range n.done {
		n.host.pool.Complete(o.Packet)
		_ = o.Packet.Release()
	}
	n.done = nil
	return err
}

// mac returns the address of a card: locally administered, made of the host's and the card's number.
func mac(host, card int) [6]byte {
	return wire.MAC{2, 0, byte(host >> 8), byte(host), 0, byte(card)}
}
