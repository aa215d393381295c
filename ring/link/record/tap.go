package record

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// The parts of a record's head: see the package's comment.
const (
	headTime     = 0
	headLength   = 8
	headTaken    = 12
	headLost     = 16
	headSequence = 20
	headDrop     = 24
	headFlags    = 25
	headSize     = 32
)

const (
	flagOut     = 1 << iota // sent
	flagStamped             // time is in Unix nanoseconds

	notSent = 0xff // in place of all flags: the link did not take the frame, and readers skip it
)

// maxBatch is the most frames between two commits.
const maxBatch = 64

// lossEvery is how often a tap asks its link how much it has lost, while frames come.
const lossEvery = time.Millisecond

// Tap records the frames of one link. It is the goroutine's that owns the link, like the link itself; a nil Tap is never on.
type Tap struct {
	scope     *Scope
	link      link.Link
	pool      *buffers.DriverPool
	Interface string
	Queue     int

	memory   *memory // of the records written last
	chunk    *chunk
	next     int // in memory.bytes: where the next record begins
	end      int // and the chunk ends
	full     []fullChunk
	sequence uint32
	marks    [maxBatch]int // where the records of this batch begin, or one of the two below
	batch    int
	alarm    *string

	tai      int64  // nanoseconds that CLOCK_TAI, which stamps of the kernel have, is ahead of the Unix clock
	lost     uint64 // of the link, as it was asked last
	pending  uint32 // of them not in a record yet
	askedAt  uint64 // ticks
	askTicks uint64
	backlog  bool // the last Receive was full: more was waiting

	counts  *captureCounts // nil: without a capture
	counted uint32         // sequence, as it was added to counts last
}

// The marks of frames without a record.
const (
	markFiltered = -1 // the filter has refused it
	markNoRoom   = -2 // no chunk was free: as many taps as chunks, or readers in all of them. It has a sequence number, so that readers miss it
)

// fullChunk is a chunk with no room for the next record, and up to where it has records.
type fullChunk struct {
	*chunk
	to uint32
}

// IsOn reports whether frames are recorded: it reads one word.
func (t *Tap) IsOn() bool { return t != nil && t.scope.recorder.memory.Load() != nil }

// Received records frames that Receive has returned; room is how many it had room for. Commit or a further call publishes them.
func (t *Tap) Received(frames []link.Frame, room int) {
	if m := t.scope.recorder.memory.Load(); (m == nil || m != t.memory || t.batch > 0) && !t.begin() {
		return
	}
	now := clock.Ticks()
	if full := len(frames) == room; full != t.backlog || now-t.askedAt >= t.askTicks {
		t.askLosses(now, full)
	}
	for i := range frames[:min(len(frames), maxBatch)] {
		f := &frames[i]
		flags := byte(0)
		at := now
		if f.Nanos != 0 && f.Source == link.ClockKernel {
			at, flags = uint64(f.Nanos-t.tai), flagStamped
		}
		t.push(at, f.Packet, flags)
	}
}

// Dropped notes why frame i of the last Received was dropped.
func (t *Tap) Dropped(i int, d wire.Drop) {
	if i >= t.batch || t.marks[i] < 0 {
		return
	}
	t.memory.bytes[t.marks[i]+headDrop] = byte(d)
	if isLoss[d] {
		t.alarm = &dropNames[d]
	}
}

// Sending records frames that a link is about to be given, because they may be changed after it; Sent publishes those that it took.
func (t *Tap) Sending(frames []link.Out) {
	if !t.begin() {
		return
	}
	now := clock.Ticks()
	for i := range frames[:min(len(frames), maxBatch)] {
		t.push(now, frames[i].Packet, flagOut)
	}
}

// Sent publishes the first frames of the last Sending. The records of the others are left out: the next frames get their sequence numbers.
func (t *Tap) Sent(took int) {
	for i := t.batch - 1; i >= took; i-- {
		m := t.marks[i]
		if m >= 0 {
			t.memory.bytes[m+headFlags] = notSent
		}
		if m != markFiltered {
			t.sequence--
		}
	}
	t.Commit()
}

// Commit publishes the records since the last one.
func (t *Tap) Commit() {
	for _, c := range t.full {
		c.used.Store(c.to)
		c.leave()
	}
	t.full = t.full[:0]
	if t.chunk != nil {
		t.chunk.used.Store(uint32(t.next - int(t.chunk.index)*chunkSize))
	}
	t.batch = 0
	if t.alarm != nil {
		t.scope.recorder.alarms.raise(t.alarm)
		t.alarm = nil
	}
}

// Close gives the tap's chunk back. What it has recorded stays.
func (t *Tap) Close() {
	if t == nil {
		return
	}
	t.Commit()
	if t.chunk != nil {
		t.chunk.leave()
		t.chunk = nil
	}
	if t.counts != nil {
		t.counts.recorded.Add(t.sequence - t.counted)
		t.counted = t.sequence
	}
}

// begin publishes what an earlier batch has left, and follows the recorder to another memory; false: it is off now.
func (t *Tap) begin() bool {
	if t.batch > 0 {
		t.Commit()
	}
	m := t.scope.recorder.memory.Load()
	if m == t.memory {
		return m != nil
	}
	t.Close()
	t.memory, t.next, t.end = m, 0, 0
	if m == nil {
		return false
	}
	var tai, unixTime unix.Timespec
	if unix.ClockGettime(unix.CLOCK_TAI, &tai) == nil && unix.ClockGettime(unix.CLOCK_REALTIME, &unixTime) == nil {
		t.tai = int64(time.Duration(tai.Nano() - unixTime.Nano()).Round(time.Second))
	}
	t.askTicks = clock.TicksIn(lossEvery)
	t.lost, t.pending = t.link.Stats().RxLost, 0
	return true
}

// askLosses asks the link now and then what it has lost. Frames that a full ring refuses are newer than those in it: the count goes to the frame
// after the ring was emptied, or after a millisecond if it never is.
func (t *Tap) askLosses(now uint64, full bool) {
	drained := t.backlog && !full
	t.backlog = full
	if !drained && now-t.askedAt < t.askTicks {
		return
	}
	t.askedAt = now
	if lost := t.link.Stats().RxLost; lost > t.lost {
		t.pending += uint32(min(lost-t.lost, 1<<31))
		t.lost = lost
		t.alarm = &linkLost
	}
}

var linkLost = "frames lost by the link"

// push copies the frame behind the other records of the batch.
func (t *Tap) push(at uint64, p buffers.Packet, flags byte) {
	m, mark := t.memory, &t.marks[t.batch]
	*mark = markFiltered
	t.batch++
	first, whole := t.pool.View(p)
	length := len(first)
	if !whole {
		length = p.Len()
	}
	if m.filter != nil && !m.filter.accepts(first) {
		return
	}
	taken := length
	if m.snap > 0 {
		taken = min(taken, m.snap)
	}
	if taken > chunkSize-headSize {
		taken = chunkSize - headSize
	}
	size := (headSize + taken + 7) &^ 7
	if t.next+size > t.end && !t.turn() {
		*mark = markNoRoom
		t.sequence++
		return
	}
	b := m.bytes[t.next : t.next+size : t.next+size]
	head := (*[headSize]byte)(b)
	if !clock.HasTicks && flags&flagStamped == 0 {
		at, flags = uint64(time.Now().UnixNano()), flags|flagStamped
	}
	binary.LittleEndian.PutUint64(head[headTime:], at)
	binary.LittleEndian.PutUint64(head[headLength:], uint64(length)|uint64(taken)<<32)
	binary.LittleEndian.PutUint64(head[headLost:], uint64(t.pending)|uint64(t.sequence)<<32)
	binary.LittleEndian.PutUint64(head[headDrop:], uint64(flags)<<8)
	t.sequence++
	if flags&flagOut == 0 {
		t.pending = 0
	}
	if len(first) >= taken {
		copy(b[headSize:], first[:taken])
	} else {
		p.CopyTo(b[headSize : headSize+taken])
	}
	*mark = t.next
	t.next += size
}

// turn takes another chunk. The full one stays this tap's until Commit, because reasons of drops may be noted in it.
func (t *Tap) turn() bool {
	if t.chunk != nil {
		t.full = append(t.full, fullChunk{t.chunk, uint32(t.next - int(t.chunk.index)*chunkSize)})
	}
	if t.chunk = t.memory.take(t); t.chunk == nil {
		t.next, t.end = 0, 0
		return false
	}
	t.next = int(t.chunk.index) * chunkSize
	t.end = t.next + chunkSize
	return true
}
