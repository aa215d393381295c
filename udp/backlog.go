package udp

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/internal/ip"
)

// Backlog keeps the datagrams of a socket that is not reading: copied, one behind the other, in a ring of as many bytes as its receive buffer
// has. Such a socket uses none of the ring's packet buffers, and small datagrams take little room.
//
//	| flow, length 4, stamp 8, clock 1 | payload | pad to 8 | flow … |      wraps to the start where a record does not fit
//
// The zero Backlog has no room; Limit gives it some.
type Backlog struct {
	buf   []byte
	limit int
	first int // of the oldest record
	next  int // where the next goes
	used  int // bytes from first to next, with what is left over at the end
	n     int
}

// BacklogRecord describes a datagram in a backlog, without its payload.
type BacklogRecord struct {
	Flow  Flow
	Len   int
	Nanos int64
	Clock ip.Clock
}

// recordBytes is the size of a record's header, wrapMark in its length field says that the next record is at the start.
const (
	recordBytes = 40
	wrapMark    = 1<<32 - 1
)

// Limit sets the receive buffer's size in bytes. What is in it stays.
func (b *Backlog) Limit(bytes int) { b.limit = max(bytes, 4096) &^ 7 }

// Len is the number of datagrams.
func (b *Backlog) Len() int { return b.n }

// Push copies a datagram in; false when it does not fit: then it is lost. The first one allocates the memory.
func (b *Backlog) Push(h *BacklogRecord, payload []byte) bool {
	size := (recordBytes + len(payload) + 7) &^ 7
	if b.n == 0 && len(b.buf) != b.limit {
		b.buf = make([]byte, b.limit)
		b.first, b.next, b.used = 0, 0, 0
	}
	if rest := len(b.buf) - b.next; size > rest {
		if b.used+rest+size > len(b.buf) {
			return false
		}
		if rest >= 8 {
			binary.LittleEndian.PutUint32(b.buf[b.next+4:], wrapMark)
		}
		b.used += rest
		b.next = 0
	}
	if b.used+size > len(b.buf) {
		return false
	}
	r := b.buf[b.next : b.next+size]
	copy(r[8:12], h.Flow.Source[:])
	copy(r[12:16], h.Flow.Target[:])
	binary.LittleEndian.PutUint32(r[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint16(r[16:], h.Flow.SourcePort)
	binary.LittleEndian.PutUint16(r[18:], h.Flow.TargetPort)
	binary.LittleEndian.PutUint32(r[20:], h.Flow.Interface)
	binary.LittleEndian.PutUint64(r[24:], uint64(h.Nanos))
	r[32] = byte(h.Clock)
	copy(r[recordBytes:], payload)
	b.next += size
	b.used += size
	b.n++
	if b.next == len(b.buf) {
		b.next = 0
	}
	return true
}

// Peek is the oldest datagram; false when there is none.
func (b *Backlog) Peek() (h BacklogRecord, ok bool) {
	if b.n == 0 {
		return BacklogRecord{}, false
	}
	b.unwrap()
	r := b.buf[b.first:]
	h.Len = int(binary.LittleEndian.Uint32(r[4:]))
	copy(h.Flow.Source[:], r[8:12])
	copy(h.Flow.Target[:], r[12:16])
	h.Flow.SourcePort = binary.LittleEndian.Uint16(r[16:])
	h.Flow.TargetPort = binary.LittleEndian.Uint16(r[18:])
	h.Flow.Interface = binary.LittleEndian.Uint32(r[20:])
	h.Nanos = int64(binary.LittleEndian.Uint64(r[24:]))
	h.Clock = ip.Clock(r[32])
	return h, true
}

// Pop copies the payload of the oldest datagram to dst, which is at least as long, and removes it.
func (b *Backlog) Pop(dst []byte) {
	if b.n == 0 {
		return
	}
	b.unwrap()
	r := b.buf[b.first:]
	n := int(binary.LittleEndian.Uint32(r[4:]))
	copy(dst, r[recordBytes:recordBytes+n])
	size := (recordBytes + n + 7) &^ 7
	b.first += size
	b.used -= size
	if b.n--; b.n == 0 {
		b.first, b.next, b.used = 0, 0, 0
	}
}

// unwrap moves first to the start of the memory when the rest up to the end holds no record.
func (b *Backlog) unwrap() {
	rest := len(b.buf) - b.first
	if rest < 8 || binary.LittleEndian.Uint32(b.buf[b.first+4:]) == wrapMark {
		b.used -= rest
		b.first = 0
	}
}
