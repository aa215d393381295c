package sys

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SharedFile is a file that is mapped into memory, as 64-bit words: what one process stores another one loads.
type SharedFile struct{ m mapping }

// MapSharedFile maps the first size bytes of f, a multiple of 8. The file may be closed afterwards, and must not become shorter.
func MapSharedFile(f *os.File, size int, writable bool) (SharedFile, error) {
	if size <= 0 || size%8 != 0 {
		return SharedFile{}, fmt.Errorf("map %s: size %d: %w", f.Name(), size, unix.EINVAL)
	}
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	start, err := unix.MmapPtr(int(f.Fd()), 0, nil, uintptr(size), protection, unix.MAP_SHARED)
	if err != nil {
		return SharedFile{}, os.NewSyscallError("mmap", err)
	}
	return SharedFile{mapping{start, uintptr(size)}}, nil
}

// Words is the memory; writing it is a fault unless it was mapped writable.
func (s SharedFile) Words() []uint64 { return unsafe.Slice((*uint64)(s.m.start), s.m.len/8) }

// Bytes is the same memory.
func (s SharedFile) Bytes() []byte { return s.m.bytes() }

// Close unmaps it: nothing may use Words and Bytes any more.
func (s SharedFile) Close() error { return s.m.unmap() }

// Overlay is words as a T, which must consist of 64-bit words alone. It panics when there are too few.
func Overlay[T any](words []uint64) *T {
	var t T
	if need := (unsafe.Sizeof(t) + 7) / 8; uintptr(len(words)) < need {
		panic(fmt.Sprintf("sys: %d words for a %T of %d", len(words), t, need))
	}
	return (*T)(unsafe.Pointer(unsafe.SliceData(words)))
}
