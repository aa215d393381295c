package xdp

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// word is the shared index at off.
func word(mem []byte, off uint64) *atomic.Uint32 {
	_ = mem[off+3]
	return (*atomic.Uint32)(unsafe.Pointer(&mem[off]))
}

// slots is the array of n entries at off.
func slots[T any](mem []byte, off uint64, n int) []T {
	var zero T
	if need := off + uint64(n)*uint64(unsafe.Sizeof(zero)); need > uint64(len(mem)) {
		panic(fmt.Sprintf("xdp: ring of %d entries ends at byte %d of %d", n, need, len(mem)))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[off])), n)
}

// ringBytes is how much memory a ring with n entries of type T needs.
func ringBytes[T any](off unix.XDPRingOffset, n int) int {
	var zero T
	return int(off.Desc) + n*int(unsafe.Sizeof(zero))
}

// newProducer is our side of a ring of n entries in mem, whose parts lie where the kernel says.
func newProducer[T any](mem []byte, off unix.XDPRingOffset, n int) producer[T] {
	r := producer[T]{
		producer: word(mem, off.Producer), consumer: word(mem, off.Consumer), flags: word(mem, off.Flags),
		entries: slots[T](mem, off.Desc, n), mask: uint32(n - 1),
	}
	r.next, r.seen = r.producer.Load(), r.consumer.Load()
	return r
}

// newConsumer is our side of a ring that the kernel writes.
func newConsumer[T any](mem []byte, off unix.XDPRingOffset, n int) consumer[T] {
	r := consumer[T]{
		producer: word(mem, off.Producer), consumer: word(mem, off.Consumer),
		entries: slots[T](mem, off.Desc, n), mask: uint32(n - 1),
	}
	r.next, r.seen = r.consumer.Load(), r.consumer.Load()
	return r
}

// registerMemory makes mem the socket's UMEM: chunks of any size that begin anywhere (unaligned), because the strides of buffers are
// odd multiples of 64 on purpose.
func registerMemory(fd int, mem []byte, chunk int) unix.Errno {
	// Without the last field, which kernels before 6.8 do not know; they refuse a longer struct than theirs.
	reg := struct {
		addr, length              uint64
		chunk, headroom, flags, _ uint32
	}{uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), uint64(len(mem)), uint32(chunk), 0, unix.XDP_UMEM_UNALIGNED_CHUNK_FLAG, 0}
	return setsockopt(fd, unix.XDP_UMEM_REG, unsafe.Pointer(&reg), unsafe.Sizeof(reg))
}

func setsockopt(fd, option int, v unsafe.Pointer, n uintptr) unix.Errno {
	_, _, e := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(v), n, 0)
	return e
}

// mmapOffsets reports where in the rings' mappings their parts lie.
func mmapOffsets(fd int) (unix.XDPMmapOffsets, unix.Errno) {
	var off unix.XDPMmapOffsets
	n := uint32(unsafe.Sizeof(off))
	e := getsockopt(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&off), &n)
	if e == 0 && n != uint32(unsafe.Sizeof(off)) {
		e = unix.EPROTO // Linux before 5.4 had no flags, and none of what else is needed here
	}
	return off, e
}

// statistics are the socket's losses since it was bound (XDP_STATISTICS).
func statistics(fd int) (unix.XDPStatistics, unix.Errno) {
	var s unix.XDPStatistics
	n := uint32(unsafe.Sizeof(s))
	e := getsockopt(fd, unix.XDP_STATISTICS, unsafe.Pointer(&s), &n)
	return s, e
}

func getsockopt(fd, option int, v unsafe.Pointer, n *uint32) unix.Errno {
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(v), uintptr(unsafe.Pointer(n)), 0)
	return e
}
