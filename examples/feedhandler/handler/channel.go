// Package handler turns packets of market data into books: it parses what a packet claims, lets package feed arbitrate
// and order the lines, decodes what comes out, and counts everything on the way. It does not know where packets come
// from: a capture file and a ring feed it the same way. A Handler and its channels are for one goroutine, and from
// packet to book nothing allocates.
package handler

import (
	"fmt"
	"net/netip"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
)

// Ref is what keeps a packet: a ring's buffer. It is zero where packets come from a file and are copied when they must
// wait.
type Ref = buffers.Packet

// Config is what a channel is made with.
type Config struct {
	Proto       Proto
	Name        string
	Lines       []netip.AddrPort // the group of each line
	Feed        feed.Config      // Lines is filled in
	ClockOffset int64            // receive clock minus sender's clock, ns; 37 s where the receiver counts TAI
	OnEvent     func(*Channel, *feed.Event)
	// Symbols, Levels and Orders size the books; what is 0 has a default for one busy channel.
	Symbols, Levels, Orders int
	// Depth is how many levels a side of an MDP 3.0 book has, 0 means 10.
	Depth int
}

// Epoch is one run of sequence numbers.
type Epoch struct {
	Session     uint64
	First, Last uint64
	Packets     uint64
	Messages    uint64
}

// lineCount is what the handler itself counts of a line; package feed counts the rest.
type lineCount struct{ malformed, foreign, unsequenced, kernelDrops, kernelPackets uint64 }

// Channel is one feed channel: its lines, sequence and books.
type Channel struct {
	cfg        Config
	proto      Proto
	seq        *feed.Channel[Ref]
	identified bool
	id         uint64

	books  *book.Books   // of prices or orders
	prices *book.ByPrice // DEEP, TOPS
	orders *book.ByOrder // ITCH, PITCH
	levels *book.ByLevel // MDP 3.0

	segment feed.Segment[Ref]
	d       feed.Delivery[Ref]
	event   feed.Event
	epoch   uint32
	stale   bool

	lines        [9]lineCount // the last one is the recovery server's
	types        [256]uint64  // messages by type or template
	entries      [256]uint64  // entries by template
	messages     uint64
	skipped      uint64      // messages too short for their type, or of an unknown one
	published    uint64      // book changes that were consistent
	last         feed.Symbol // of the last one
	trades       uint64
	volume       uint64
	hidden       uint64 // non-displayed trades (ITCH)
	hiddenVolume uint64

	epochs      []Epoch
	unrecovered []feed.Range
	skew        skew
	sendReceive *hdrhistogram.Histogram
	outside     uint64 // send to receive that is no latency: below 0 or above an hour
}

// NewChannel makes a channel. With Auto the protocol is that of the first packet that has one.
func NewChannel(c Config) (*Channel, error) {
	if c.Depth < 0 || c.Depth > book.MaxDepth {
		return nil, fmt.Errorf("depth %d: want 1 to %d, or 0 for %d", c.Depth, book.MaxDepth, book.MaxDepth)
	}
	c.Feed.Lines = max(1, len(c.Lines))
	seq, err := feed.New[Ref](c.Feed)
	if err != nil {
		return nil, err
	}
	ch := &Channel{cfg: c, seq: seq, epochs: make([]Epoch, 0, 64), unrecovered: make([]feed.Range, 0, 1024),
		skew: newSkew(), sendReceive: hdrhistogram.New(1, 3600e9, 3)}
	if c.Proto != Auto {
		ch.become(c.Proto)
	}
	return ch, nil
}

// become makes the books of a protocol.
func (c *Channel) become(p Proto) {
	or := func(v, d int) int {
		if v > 0 {
			return v
		}
		return d
	}
	c.proto = p
	size := book.Capacity{Instruments: or(c.cfg.Symbols, 1<<14), Levels: or(c.cfg.Levels, 1<<18), Orders: or(c.cfg.Orders, 1<<20)}
	switch p {
	case DEEP, TOPS:
		c.prices = book.NewByPrice(size)
		c.books = &c.prices.Books
	case MoldUDP64, PITCH, ITCH:
		c.orders = book.NewByOrder(size)
		c.books = &c.orders.Books
	case MDP3:
		c.levels, _ = book.NewByLevel(or(c.cfg.Symbols, 1<<11), or(c.cfg.Depth, book.MaxDepth)) // NewChannel has checked the depth
	}
}

// Input takes one packet of a line (or feed.Recovery). The payload must stay valid until ref is released, or during the
// call if Config.Feed.CopyBytes is set; Input releases ref when the packet is done with, which may be later.
func (c *Channel) Input(line uint8, payload []byte, arrival int64, ref Ref) {
	n := c.count(line)
	if c.proto == Auto {
		p := Recognize(payload)
		if p == Auto {
			n.foreign++
			release(ref)
			return
		}
		c.become(p)
	}
	s := &c.segment
	*s = feed.Segment[Ref]{Arrival: arrival, Payload: payload, Ref: ref, Line: line}
	switch c.parse(payload, s) {
	case malformed:
		n.malformed++
		release(ref)
		return
	case foreign:
		n.foreign++
		release(ref)
		return
	case unsequenced:
		n.unsequenced++
		c.apply(payload, 0, s.Count)
		release(ref)
		return
	}
	if s.Sent != 0 && line != feed.Recovery {
		if d := arrival - s.Sent - c.cfg.ClockOffset; d < 0 || c.sendReceive.RecordValue(max(d, 1)) != nil {
			c.outside++
		}
	}
	c.seq.Input(s)
	c.drain()
	if k := len(c.epochs); k > 0 {
		c.epochs[k-1].Packets++
	}
}

// Message takes one message that came without packet or sequence number (BinaryFILE).
func (c *Channel) Message(m []byte) { c.message(m) }

// Truncated counts a packet that the capture has only the begin of: for the sequence it is lost on that line.
func (c *Channel) Truncated(line uint8) { c.lines[line].malformed++ }

// KernelDrops says how many packets the kernel dropped before they reached the line's socket.
func (c *Channel) KernelDrops(line uint8, n uint64) { c.count(line).kernelDrops = n }

// KernelPackets says how many packets came to the line's offloaded socket by the kernel's socket beside it.
func (c *Channel) KernelPackets(line uint8, n uint64) { c.count(line).kernelPackets = n }

// count is the counters of a line; beyond the lines, as feed.Recovery is, those of the recovery server.
func (c *Channel) count(line uint8) *lineCount { return &c.lines[min(int(line), len(c.lines)-1)] }

// Tick moves the sequencer's clock; see feed.Config.PollOnly.
func (c *Channel) Tick(now int64) { c.seq.Tick(now) }

// Poll reports that time has passed.
func (c *Channel) Poll(now int64) {
	c.seq.Poll(now)
	c.drain()
}

// Deadline is when Poll is wanted next.
func (c *Channel) Deadline() int64 { return c.seq.Deadline() }

// Request gives what to ask the recovery server for now; see feed.Channel.Request.
func (c *Channel) Request(now int64, r *feed.Request) bool { return c.seq.Request(now, r) }

// AppendRequest writes a request behind b, as the protocol has it.
func (c *Channel) AppendRequest(b []byte, r feed.Request) []byte {
	if c.proto == MoldUDP64 {
		return requestNasdaq(b, r)
	}
	return c.requestIEX(b, r)
}

// Rejected reports that the recovery server refused.
func (c *Channel) Rejected(now int64, r feed.Range) {
	c.seq.Rejected(now, r)
	c.drain()
}

// Finish gives up what is missing and delivers what waits behind it: nothing more will come.
func (c *Channel) Finish(now int64) {
	c.seq.Flush(now)
	c.drain()
}

// drain applies what can be delivered.
func (c *Channel) drain() {
	d := &c.d
	for c.seq.Next(d) {
		if d.Count > 0 {
			c.newEpoch(d.Epoch)
			if d.Lost > 0 {
				c.lose()
			}
			e := &c.epochs[len(c.epochs)-1]
			e.Messages += uint64(d.Count)
			e.Last = d.Seq + uint64(d.Count) - 1
			c.apply(d.Payload, d.Skip, d.Count)
		}
		if d.Twin {
			c.skew.add(d)
		}
		if d.Done {
			release(d.Ref)
		}
	}
	for c.seq.Event(&c.event) {
		c.note(&c.event)
	}
}

// newEpoch empties the books: they were the old sender's.
func (c *Channel) newEpoch(n uint32) {
	if n == c.epoch {
		return
	}
	if c.epoch != 0 {
		switch {
		case c.orders != nil:
			c.orders.Clear()
		case c.prices != nil:
			c.prices.Clear()
		case c.levels != nil:
			c.levels.Clear()
		}
	}
	c.epoch, c.stale = n, false
	st := c.seq.Stats()
	c.epochs = append(c.epochs, Epoch{Session: st.Session, First: st.First, Last: st.First - 1})
}

// lose marks what a loss may have concerned: every price book, because nobody knows which. MDP 3.0 instruments have
// counts of their own and are marked by them.
func (c *Channel) lose() {
	c.stale = true
	if c.books != nil {
		c.books.MarkStale()
	}
}

// publish notes that a symbol's book changed and is consistent.
func (c *Channel) publish(s feed.Symbol) {
	c.published++
	c.last = s
}

// trade counts a trade; hide one against an order that was not displayed.
func (c *Channel) trade(shares uint64) {
	c.trades++
	c.volume += shares
}

func (c *Channel) hide(shares uint64) {
	c.hidden++
	c.hiddenVolume += shares
}

// note keeps what the summary wants of an event and passes it on.
func (c *Channel) note(e *feed.Event) {
	switch e.Kind {
	case feed.EpochBegan:
		c.newEpoch(e.Epoch) // if no message of it has come yet
	case feed.GaveUp:
		c.unrecovered = append(c.unrecovered, feed.Range{From: e.Seq, To: e.End})
		if e.Epoch == c.epoch {
			c.lose()
		}
		if k := int(e.Epoch) - 1; k < len(c.epochs) {
			c.epochs[k].Last = max(c.epochs[k].Last, e.End-1)
		}
	}
	if c.cfg.OnEvent != nil {
		c.cfg.OnEvent(c, e)
	}
}

func release(r Ref) {
	if !r.IsZero() {
		_ = r.Release() // ours: it was given to Input with the packet
	}
}

// Proto is the channel's protocol; Auto before the first packet.
func (c *Channel) Proto() Proto { return c.proto }

// Name is what the channel was called.
func (c *Channel) Name() string { return c.cfg.Name }

// Messages is how many came out of the sequencer.
func (c *Channel) Messages() uint64 { return c.messages }

// Stats is the sequencer's counters; Line those of one line.
func (c *Channel) Stats() feed.Stats { return c.seq.Stats() }

// Line is the statistics of one line.
func (c *Channel) Line(i uint8) feed.LineStats { return c.seq.Line(i) }

// Lines is how many lines the channel has.
func (c *Channel) Lines() int { return len(c.cfg.Lines) }

// LastPublished is the name of the symbol whose book changed last, and its best levels.
func (c *Channel) LastPublished() (name string, bid, ask book.Level) {
	if c.books == nil || c.last == 0 {
		return "", bid, ask
	}
	s := c.books.Find(c.last)
	return s.Symbol.String(), s.Bid.Best(), s.Ask.Best()
}
