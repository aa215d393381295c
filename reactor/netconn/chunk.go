package netconn

import "sync"

// chunk is heap memory on its way between a goroutine and the loop: received bytes that were copied out of the pool, or
// written bytes that the socket has not taken. Chunks come from two free lists and go back when they are empty, so that
// a connection with nothing under way holds none.
type chunk struct {
	b    []byte // all of its memory
	r, w int    // b[r:w] is what it holds
}

// Two sizes: what a message of a request takes, and what a TLS record takes (16 KiB and its frame).
const (
	smallChunk = 2 << 10
	largeChunk = 17 << 10
)

var (
	smallChunks = sync.Pool{New: func() any { return &chunk{b: make([]byte, smallChunk)} }}
	largeChunks = sync.Pool{New: func() any { return &chunk{b: make([]byte, largeChunk)} }}
)

// newChunk returns an empty chunk for data of which n bytes are known: a large one if a small one cannot hold them.
func newChunk(n int) *chunk {
	if n <= smallChunk {
		return smallChunks.Get().(*chunk)
	}
	return largeChunks.Get().(*chunk)
}

// wholeChunk returns an empty chunk with room for n bytes in one piece.
func wholeChunk(n int) *chunk {
	if n <= largeChunk {
		return newChunk(n)
	}
	return &chunk{b: make([]byte, n)}
}

// free returns a chunk to its pool. One of another size than the pools' is left to the garbage collector.
func (k *chunk) free() {
	k.r, k.w = 0, 0
	switch len(k.b) {
	case smallChunk:
		smallChunks.Put(k)
	case largeChunk:
		largeChunks.Put(k)
	}
}

func (k *chunk) bytes() []byte { return k.b[k.r:k.w] }
func (k *chunk) room() []byte  { return k.b[k.w:] }

// add appends as much of b as there is room for, and returns how much that is.
func (k *chunk) add(b []byte) int {
	n := copy(k.room(), b)
	k.w += n
	return n
}
