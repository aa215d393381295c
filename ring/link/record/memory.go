package record

import "sync/atomic"

// chunkSize is the bytes of a chunk: more than the longest record.
const chunkSize = 128 << 10

// memory is what a recorder keeps its records in. It is replaced whole when the recorder is started again.
type memory struct {
	bytes  []byte
	chunks []chunk
	snap   int
	filter *filter
	last   atomic.Uint64 // number of the chunk that was taken last
}

// chunk is a part of the memory that one tap fills.
//
//	state   renewing ──► filling ──► 0 ──► renewing …     and the number of readers in the low bits
//
// A tap renews a chunk whose state is 0: without a tap and without readers. A reader that finds renewing goes away.
type chunk struct {
	state  atomic.Int32
	used   atomic.Uint32 // bytes of published records
	number atomic.Uint64 // in the order in which chunks were taken, from 1
	tap    *Tap          // that fills it, or filled it; changes while renewing alone
	index  uint32        // of the chunk in memory.chunks; its bytes begin at index × chunkSize of memory.bytes
	_      [32]byte
}

const (
	stateFilling  = 1 << 20
	stateRenewing = 1 << 21
)

// newMemory makes a memory of about size bytes and touches it, so that recording causes no page faults.
func newMemory(size, snap int, f *filter) *memory {
	m := &memory{bytes: make([]byte, max(size/chunkSize, 4)*chunkSize), snap: snap, filter: f}
	m.chunks = make([]chunk, len(m.bytes)/chunkSize)
	for i := range m.chunks {
		m.chunks[i].index = uint32(i)
	}
	for i := 0; i < len(m.bytes); i += 4096 {
		m.bytes[i] = 0
	}
	return m
}

// take gives a tap the chunk that was taken longest ago and has neither tap nor reader; nil when there is none.
func (m *memory) take(t *Tap) *chunk {
	for range len(m.chunks) {
		n := m.last.Add(1)
		c := &m.chunks[(n-1)%uint64(len(m.chunks))]
		if !c.state.CompareAndSwap(0, stateRenewing) {
			continue
		}
		c.used.Store(0)
		c.number.Store(n)
		c.tap = t
		c.state.Add(stateFilling - stateRenewing)
		return c
	}
	return nil
}

// leave ends the filling of a chunk. Its records stay until another tap takes it.
func (c *chunk) leave() { c.state.Add(-stateFilling) }

// read calls do with the published bytes of the chunk, unless the chunk is being renewed. do must not keep them.
func (m *memory) read(c *chunk, do func(number uint64, tap *Tap, records []byte)) {
	defer c.state.Add(-1)
	if c.state.Add(1)&stateRenewing != 0 || c.number.Load() == 0 {
		return
	}
	at := int(c.index) * chunkSize
	do(c.number.Load(), c.tap, m.bytes[at:at+int(c.used.Load())])
}
