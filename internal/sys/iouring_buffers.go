package sys

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// uringBuf is struct io_uring_buf. In the first entry of a ring, pad is the ring's tail.
type uringBuf struct {
	addr uint64
	len  uint32
	bid  uint16
	pad  uint16
}

// BufferRing offers provided buffers to the kernel (struct io_uring_buf_ring). The kernel takes from the head, which it keeps to
// itself: the user must know how many are out. Owner only.
type BufferRing struct {
	bufs []uringBuf
	last *atomic.Uint32 // bid and pad of the first entry: the tail, in one word that can be stored atomically
	mask uint16
	tail uint16
}

// newBufferRing lays a ring of n entries, a power of two, over mem.
func newBufferRing(mem []byte, n int) *BufferRing {
	if n <= 0 || n&(n-1) != 0 || n > 1<<15 || len(mem) < n*int(unsafe.Sizeof(uringBuf{})) {
		panic("sys: buffer ring: entries must be a power of two up to 32768 that fits the memory")
	}
	bufs := unsafe.Slice((*uringBuf)(unsafe.Pointer(unsafe.SliceData(mem))), n)
	return &BufferRing{bufs: bufs, last: (*atomic.Uint32)(unsafe.Pointer(&bufs[0].bid)), mask: uint16(n - 1)}
}

// Len is how many buffers the ring can hold.
func (r *BufferRing) Len() int { return len(r.bufs) }

// Add offers a buffer under an id; the kernel sees it after Commit. Never more than Len may be out.
func (r *BufferRing) Add(b []byte, id uint16) {
	e := &r.bufs[r.tail&r.mask]
	e.addr = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	e.len = uint32(len(b))
	e.bid = id
	r.tail++
}

// Commit shows the kernel what was added: the tail is stored last. Go has no 16-bit atomics, so the store covers the neighbouring
// id of the first entry as well, which only this side writes.
func (r *BufferRing) Commit() {
	var word [4]byte
	binary.NativeEndian.PutUint16(word[0:], r.bufs[0].bid)
	binary.NativeEndian.PutUint16(word[2:], r.tail)
	r.last.Store(binary.NativeEndian.Uint32(word[:]))
}
