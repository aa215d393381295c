package ring

import (
	"maps"
	"math/bits"
)

// SocketRef is a number that leads to a Socket for as long as it is open: for tables of drivers and transports, which the garbage collector then
// need not look at. The zero SocketRef leads to none.
//
//	63            32 31        10 9      0
//	| set that made | chunk      | record |
type SocketRef uint64

// RefOf is the socket's reference. For drivers and transports. Any goroutine.
func RefOf(s *Socket) SocketRef { return SocketRef(s.maker)<<32 | SocketRef(s.at) }

// Socket is the socket of a reference; it must be open. Owner only. For drivers and transports.
func (x SocketRef) Socket() *Socket {
	if x == 0 {
		return nil
	}
	return sets.at(uint32(x >> 32)).sockets.at(uint32(x))
}

// find is the socket of a reference that may be an old one: nil, or a later socket, where the one that was meant is closed.
func (x SocketRef) find() *Socket {
	if x == 0 {
		return nil
	}
	t := &sets.at(uint32(x >> 32)).sockets
	chunk, record := uint32(x)>>chunkBits, int(x)&(chunkMax-1)
	if int(chunk) >= len(t.chunks) || record >= len(t.chunks[chunk].records) {
		return nil
	}
	return &t.chunks[chunk].records[record]
}

// Fetch reads the record of a socket, for drivers that report to many sockets at once: the processor waits for all of them together then, and
// not for one after the other. The result has no meaning; the caller keeps it somewhere, or the reads would be left out. Owner only.
func (x SocketRef) Fetch() uint32 {
	s := x.find()
	if s == nil {
		return 0
	}
	return s.handle.Gen + uint32(s.state) // one of each cache line of the record
}

const (
	chunkBits = 10 // of a place in a chunk
	chunkMin  = 8
	chunkMax  = 1 << chunkBits
	// chunkShare is how many chunks hold a quarter of a million sockets or less: a garbage collection looks at each.
	chunkShare = 256
)

// socketTable holds the records of the sockets that a set has made, in chunks without pointers.
//
//	chunks ──► [ chunk ][ chunk ][ chunk ] …         one pointer each
//	              │        └─► | Socket | Socket | … |    n records of 128 bytes, in the order in which they were made
//	              └─► nil: all its sockets are closed
//
// The application has pointers into a chunk, for as long as it likes. So a record is used once: when all sockets of a chunk are closed the table
// lets go of the chunk, and the garbage collector frees it when the application has no pointer into it any more. The more sockets there are, the
// larger the chunks: from 8 records to 1,024.
type socketTable struct {
	chunks  []chunk
	free    []uint32 // indexes of chunks
	current int      // the chunk that new sockets come from; -1: none
	used    int      // records of it
	open    int      // sockets
	// counts are, by place, what the record of an idle socket has no room for. They stay when it is closed, until its place is used again.
	counts map[uint32]socketCounts
}

type chunk struct {
	records []Socket
	open    int32
}

func (t *socketTable) at(at uint32) *Socket { return &t.chunks[at>>chunkBits].records[at&(chunkMax-1)] }

// add makes a record. It is zero but for its place.
func (t *socketTable) add() *Socket {
	if t.current < 0 || t.used == len(t.chunks[t.current].records) {
		t.addChunk()
	}
	c := &t.chunks[t.current]
	s := &c.records[t.used]
	s.at = uint32(t.current)<<chunkBits | uint32(t.used)
	t.used++
	c.open++
	t.open++
	return s
}

// addChunk makes the chunk that new sockets come from; its length grows with the number of open sockets. The chunk that is full now is freed if
// all its sockets are closed already.
func (t *socketTable) addChunk() {
	full := t.current
	n := min(max(1<<bits.Len(uint(t.open/chunkShare))/2, chunkMin), chunkMax)
	c := chunk{records: make([]Socket, n)}
	if k := len(t.free); k > 0 {
		t.current = int(t.free[k-1])
		t.free = t.free[:k-1]
		t.chunks[t.current] = c
		maps.DeleteFunc(t.counts, func(at uint32, _ socketCounts) bool { return int(at>>chunkBits) == t.current })
	} else {
		t.current = len(t.chunks)
		t.chunks = append(t.chunks, c)
	}
	t.used = 0
	if full >= 0 {
		t.forgetIfClosed(full)
	}
}

// remove notes that the record's socket is closed, and drops its chunk with the last one.
func (t *socketTable) remove(s *Socket) {
	i := int(s.at >> chunkBits)
	t.chunks[i].open--
	t.open--
	if i != t.current {
		t.forgetIfClosed(i)
	}
}

// forgetIfClosed drops a chunk whose sockets are all closed.
func (t *socketTable) forgetIfClosed(i int) {
	if t.chunks[i].open == 0 && t.chunks[i].records != nil {
		t.chunks[i] = chunk{}
		t.free = append(t.free, uint32(i))
	}
}

// slotTable finds the sockets of a ring by Handle.Slot. It grows by blocks, so that no growth copies what is there.
type slotTable struct {
	blocks []*slotBlock
	n      uint32   // slots that were ever in use
	free   []uint32 // slots
	open   int      // sockets
}

const slotBlockBits = 12

type slotBlock struct {
	refs [1 << slotBlockBits]SocketRef
	gens [1 << slotBlockBits]uint32
}

// add gives the socket a slot.
func (t *slotTable) add(s *Socket) {
	var slot uint32
	if n := len(t.free); n > 0 {
		slot = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		slot = t.n
		t.n++
		if slot>>slotBlockBits == uint32(len(t.blocks)) {
			t.blocks = append(t.blocks, new(slotBlock))
		}
	}
	b, i := t.blocks[slot>>slotBlockBits], slot&(1<<slotBlockBits-1)
	b.refs[i] = RefOf(s)
	b.gens[i]++
	s.handle.Slot, s.handle.Gen = slot, b.gens[i]
	t.open++
}

// remove frees the socket's slot.
func (t *slotTable) remove(s *Socket) {
	slot := s.handle.Slot
	t.blocks[slot>>slotBlockBits].refs[slot&(1<<slotBlockBits-1)] = 0
	t.free = append(t.free, slot)
	t.open--
}

// at is the socket in a slot; nil for none.
func (t *slotTable) at(slot uint32) *Socket {
	return t.blocks[slot>>slotBlockBits].refs[slot&(1<<slotBlockBits-1)].Socket()
}

// find is the socket in a slot, if it is of the generation.
func (t *slotTable) find(slot, gen uint32) *Socket {
	if slot >= t.n || t.blocks[slot>>slotBlockBits].gens[slot&(1<<slotBlockBits-1)] != gen {
		return nil
	}
	return t.at(slot)
}

// all is an iterator over the sockets, in the order of their slots. They may be removed meanwhile.
func (t *slotTable) all(yield func(*Socket) bool) {
	for slot := uint32(0); slot < t.n; slot++ {
		if s := t.at(slot); s != nil && !yield(s) {
			return
		}
	}
}

// socketCounts are the fields of SocketStats that the core counts on every kind of socket.
type socketCounts struct {
	Packets, Bytes               uint64
	CallbackDrops, CallbackHolds uint64
	SentMessages, SentBytes      uint64
	ShortSends                   uint64
	SendErrors                   uint64
	WarmSends, WarmSendsCold     uint64
}
