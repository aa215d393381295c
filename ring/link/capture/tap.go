package capture

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// tap is a queue of frames with one producer, the link's goroutine, and one consumer, the file's. A record is a head of 16 bytes and the frame,
// at a multiple of eight, and never wraps: what is left before the end is skipped by a record of a size that no frame has.
//
//	|  nanoseconds 8  |  length 4, of the frame  |  taken 3, out 1  |  frame … |
type tap struct {
	ring []byte // a power of two
	next uint64 // the producer's: behind the last record
	stop uint64 // the producer's: tail as it was read last
	_    [48]byte
	head atomic.Uint64 // records before it are the consumer's
	_    [56]byte
	tail atomic.Uint64 // and before it read
	_    [56]byte

	frames, noRoom        atomic.Uint64 // the producer's: taken up, and not
	written, over, failed atomic.Uint64 // the consumer's: what became of those taken up
	closed                atomic.Bool   // no more will come
}

// counters returns what became of the frames of the tap's link.
func (t *tap) counters() []link.Counter {
	over, failed := t.over.Load(), t.failed.Load() // before frames, which are counted first
	return []link.Counter{{Name: "capture.frames", Value: t.frames.Load() - over - failed}, {Name: "capture.written", Value: t.written.Load()},
		{Name: "capture.no_room", Value: t.noRoom.Load()}, {Name: "capture.over_limit", Value: over}, {Name: "capture.failed", Value: failed}}
}

const (
	recordHead = 16
	tapSize    = 4 << 20
	skip       = 1<<24 - 1 // the taken bytes of a record that is none
)

// newTap makes a tap of size bytes, a power of two.
func newTap(size int) *tap { return &tap{ring: make([]byte, size)} }

// direction is whether the link received or sent a frame.
type direction bool

const (
	received direction = false
	sent     direction = true
)

// push writes a frame behind the others; the consumer sees it after publish. False: there is no room. Bytes beyond snap are left out, if snap is
// not 0.
func (t *tap) push(nanos int64, p buffers.Packet, snap int, dir direction) bool {
	length := p.Len()
	taken := length
	if snap > 0 {
		taken = min(taken, snap)
	}
	size := uint64(recordHead+taken+7) &^ 7
	at := t.next & uint64(len(t.ring)-1)
	left := uint64(len(t.ring)) - at
	need := size
	if left < size {
		need += left
	}
	if t.next+need-t.stop > uint64(len(t.ring)) {
		if t.stop = t.tail.Load(); t.next+need-t.stop > uint64(len(t.ring)) {
			return false
		}
	}
	if left < size { // at least eight bytes: enough for the mark, which is in the second half of a head
		t.markEnd(at, left)
		t.next += left
		at = 0
	}
	b := t.ring[at : at+size]
	binary.LittleEndian.PutUint64(b, uint64(nanos))
	binary.LittleEndian.PutUint32(b[8:], uint32(length))
	word := uint32(taken)
	if dir == sent {
		word |= 1 << 24
	}
	binary.LittleEndian.PutUint32(b[12:], word)
	p.CopyTo(b[recordHead : recordHead+taken])
	t.next += size
	return true
}

// markEnd marks the left bytes from at to the end of the ring as empty. Where they have no room for a head the consumer skips them anyway.
func (t *tap) markEnd(at, left uint64) {
	if left >= recordHead {
		binary.LittleEndian.PutUint32(t.ring[at+12:], skip)
	}
}

// publish shows the consumer the records before position to.
func (t *tap) publish(to uint64) { t.head.Store(to) }

// record is one frame as the consumer sees it: the bytes are the tap's until done.
type record struct {
	nanos  int64
	length int
	bytes  []byte
	dir    direction
}

// drain calls f for every published record, and gives each one's room back after it. Consumer only.
func (t *tap) drain(f func(*record)) {
	head, tail := t.head.Load(), t.tail.Load()
	var r record
	for tail != head {
		at := tail & uint64(len(t.ring)-1)
		left := uint64(len(t.ring)) - at
		var word uint32
		if left >= recordHead {
			word = binary.LittleEndian.Uint32(t.ring[at+12:])
		}
		if left < recordHead || word == skip {
			tail += left
			continue
		}
		taken := int(word & skip)
		r.nanos = int64(binary.LittleEndian.Uint64(t.ring[at:]))
		r.length = int(binary.LittleEndian.Uint32(t.ring[at+8:]))
		r.dir = direction(word>>24 != 0)
		r.bytes = t.ring[at+recordHead : at+recordHead+uint64(taken)]
		f(&r)
		tail += uint64(recordHead+taken+7) &^ 7
		t.tail.Store(tail)
	}
	t.tail.Store(tail)
}
