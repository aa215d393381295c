package record

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Record is a frame that was recorded.
type Record struct {
	Nanos     int64 // Unix time
	Interface string
	Queue     int
	Out       bool      // sent, else received
	Length    int       // of the frame
	Bytes     []byte    // what was kept of it
	Lost      uint32    // frames that the link had lost since the one before
	Missing   uint32    // frames of the same tap that were written over before the reader came to them
	Drop      wire.Drop // why it was dropped; wire.Accept: it was not
	Comments  []string  // the reason of the drop, and what happened at the loop

	tap      *Tap
	unwanted bool // the recorder's filter refuses it: it was recorded for the capture alone
}

// cursor reads the records of a recorder, each once.
type cursor struct {
	recorder *Recorder
	memory   *memory
	seen     []position // by chunk
	expected map[*Tap]uint32
	event    uint64  // number of the next one
	waiting  []event // whose frame has not come yet, or was read before them

	snap   int     // bytes of a frame that are read; 0: all that were recorded
	filter *filter // frames that it refuses are unwanted; nil: none is
	first  bool    // the cursor was made before anything was recorded: the first record that it expects of a tap is number 0

	chunkRead func() // of tests: called after each chunk; nil: nothing is
}

// position is how far a chunk was read, and which use of it.
type position struct{ number, at uint64 }

func newCursor(r *Recorder) *cursor {
	return &cursor{recorder: r, snap: r.config.Snap, filter: r.filter}
}

// next are the records since the last call, by time, with their comments. last: no more will come, so that events that wait for a frame go to
// the last one.
func (c *cursor) next(last bool) []Record {
	m := c.recorder.memory.Load()
	if m != c.memory {
		c.memory, c.expected = m, map[*Tap]uint32{}
		c.seen = nil
		if m != nil {
			c.seen = make([]position, len(m.chunks))
		}
	}
	if m == nil {
		return nil
	}
	events, end := c.recorder.eventsSince(c.event) // before the frames: those of the events are there then
	c.event = end
	c.waiting = append(c.waiting, events...)
	c.waiting = slices.Delete(c.waiting, 0, max(len(c.waiting)-eventMax, 0)) // the oldest, of loops that have no frames
	type batch struct {
		number uint64
		tap    *Tap
		bytes  []byte
	}
	var batches []batch
	for _, x := range c.unread() {
		m.read(&m.chunks[x.index], func(number uint64, tap *Tap, records []byte) {
			if number != x.number { // taken again meanwhile: the next call reads it
				return
			}
			p := &c.seen[x.index]
			if p.number != number {
				*p = position{number: number}
			}
			if p.at < uint64(len(records)) {
				batches = append(batches, batch{number, tap, slices.Clone(records[p.at:])})
				p.at = uint64(len(records))
			}
		})
		if c.chunkRead != nil {
			c.chunkRead()
		}
	}
	slices.SortFunc(batches, func(a, b batch) int { return cmp.Compare(a.number, b.number) })
	t := newTimeOf()
	var list []Record
	for _, b := range batches {
		list = c.parse(list, b.tap, b.bytes, t)
	}
	slices.SortStableFunc(list, func(a, b Record) int { return cmp.Compare(a.Nanos, b.Nanos) })
	c.comment(list, last)
	return list
}

// unreadChunk is a chunk by its index in the memory, and its use.
type unreadChunk struct {
	index  int
	number uint64
}

// unread lists the chunks that have, or may soon have, records that the cursor has not read. Those that were taken last come first: a Commit
// publishes the older chunk of a burst before the newer one, so a reader that then sees records of the newer one finds all of the older one.
// Chunks that are taken from now on are left to the next call, because the one that their tap filled before may be missing in the list.
func (c *cursor) unread() (list []unreadChunk) {
	newest := c.memory.last.Load()
	for i := range c.memory.chunks {
		x, p := &c.memory.chunks[i], &c.seen[i]
		isFilling := x.state.Load()&stateFilling != 0 // before used: of a chunk that is not filled any more all records are published
		number := x.number.Load()
		if number <= newest && (isFilling || number != p.number || p.at < uint64(x.used.Load())) {
			list = append(list, unreadChunk{i, number})
		}
	}
	slices.SortFunc(list, func(a, b unreadChunk) int { return cmp.Compare(b.number, a.number) })
	return list
}

// parse appends the records in a part of a chunk.
func (c *cursor) parse(list []Record, tap *Tap, b []byte, t timeOf) []Record {
	for len(b) >= headSize {
		taken := int(binary.LittleEndian.Uint32(b[headTaken:]))
		sequence := binary.LittleEndian.Uint32(b[headSequence:])
		size := (headSize + taken + 7) &^ 7
		flags := b[headFlags]
		if flags != notSent {
			missing := uint32(0)
			if want, known := c.expected[tap]; known || c.first {
				missing = sequence - want
			}
			c.expected[tap] = sequence + 1
			r := Record{Interface: tap.Interface, Queue: tap.Queue, Out: flags&flagOut != 0, Length: int(binary.LittleEndian.Uint32(b[headLength:])),
				Bytes: b[headSize : headSize+taken : headSize+taken], Lost: binary.LittleEndian.Uint32(b[headLost:]), Missing: missing,
				Drop: wire.Drop(b[headDrop]), tap: tap}
			at := binary.LittleEndian.Uint64(b)
			if r.Nanos = int64(at); flags&flagStamped == 0 {
				r.Nanos = t.wall(at)
			}
			r.unwanted = c.filter != nil && !c.filter.accepts(r.Bytes)
			if c.snap > 0 && c.snap < taken {
				r.Bytes = r.Bytes[:c.snap:c.snap]
			}
			if r.Drop != wire.Accept {
				r.Comments = append(r.Comments, dropTexts[r.Drop])
			}
			list = append(list, r)
		}
		b = b[size:]
	}
	return list
}

// comment gives each event that waits to its frame: the first one of its loop that is not older, or the last one before. An event
// without that frame in the list waits for the next call, or with last gets the nearest frame on its other side. One of the last frame before,
// which an earlier call has read, gets the first frame that comes.
func (c *cursor) comment(list []Record, last bool) {
	left := c.waiting[:0]
	for _, e := range c.waiting {
		i, _ := slices.BinarySearchFunc(list, e.nanos, func(r Record, at int64) int { return cmp.Compare(r.Nanos, at) })
		ofScope := func(r Record) bool { return !r.unwanted && (e.scope == nil || r.tap.scope == e.scope) }
		next := slices.IndexFunc(list[i:], ofScope)
		switch {
		case !e.before && next >= 0:
			i += next
		case !e.before && !last:
			left = append(left, e)
			continue
		default:
			for i--; i >= 0 && !ofScope(list[i]); i-- {
			}
			if i < 0 {
				if i = next; next < 0 {
					if !last {
						left = append(left, e) // its frame was read by an earlier call: the next one gets the comment
					}
					continue
				}
			}
		}
		text := e.text
		if d := e.nanos - list[i].Nanos; d >= 0 && !e.before {
			text += " (after this frame)"
		}
		list[i].Comments = append(list[i].Comments, text)
	}
	c.waiting = left
}

// timeOf converts the processor's counter into Unix time.
type timeOf struct {
	ticks     uint64
	nanos     int64
	perSecond float64
}

// newTimeOf reads both clocks, as close to each other as it can.
func newTimeOf() (t timeOf) {
	t.perSecond = float64(clock.TicksIn(time.Second))
	best := ^uint64(0)
	for range 5 {
		before := clock.Ticks()
		now := time.Now().UnixNano()
		after := clock.Ticks()
		if after-before <= best {
			best, t.ticks, t.nanos = after-before, before+(after-before)/2, now
		}
	}
	return t
}

// wall is the Unix time when the counter was at ticks.
func (t timeOf) wall(ticks uint64) int64 {
	if t.perSecond == 0 {
		return t.nanos
	}
	return t.nanos + int64(float64(int64(ticks-t.ticks))/t.perSecond*1e9)
}
