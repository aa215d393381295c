package sys

import (
	"math/bits"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is a range of pages that this package has mapped.
type mapping struct {
	start unsafe.Pointer
	len   uintptr
}

// startOf is the address of memory that is not empty.
func startOf(memory []byte) uintptr { return uintptr(unsafe.Pointer(&memory[0])) }

// mapMemory maps at least n bytes of ordinary, private, zero memory that begin on a multiple of align, a power of two not
// below the page size.
func mapMemory(n, align int) (mapping, error) {
	size, slack := roundUp(n, align), uintptr(align-os.Getpagesize())
	start, err := unix.MmapPtr(-1, 0, nil, size+slack, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return mapping{}, os.NewSyscallError("mmap", err)
	}
	// Unmap the pages before and after the aligned range, so that unmap needs to know only the range.
	before := -uintptr(start) & uintptr(align-1)
	m := mapping{unsafe.Add(start, before), size}
	for _, rest := range []mapping{{start, before}, {unsafe.Add(m.start, size), slack - before}} {
		if rest.len == 0 {
			continue
		}
		if err := rest.unmap(); err != nil {
			return mapping{}, err
		}
	}
	return m, nil
}

// mapHuge maps at least n bytes of reserved huge pages of the given size. All are reserved, or it fails.
func mapHuge(n, huge int) (mapping, error) {
	size := roundUp(n, huge)
	flags := unix.MAP_PRIVATE | unix.MAP_ANON | hugeFlags(huge)
	start, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return mapping{}, os.NewSyscallError("mmap", err)
	}
	return mapping{start, size}, nil
}

// hugeFlags encodes the size as mmap(2) wants it: its logarithm in the upper bits.
func hugeFlags(size int) int {
	return unix.MAP_HUGETLB | bits.TrailingZeros(uint(size))<<unix.MAP_HUGE_SHIFT
}

func (m mapping) bytes() []byte { return unsafe.Slice((*byte)(m.start), m.len) }

func (m mapping) unmap() error { return os.NewSyscallError("munmap", unix.MunmapPtr(m.start, m.len)) }

// prefer asks for pages of one NUMA node and lets the kernel take others when that node is full (mbind, MPOL_PREFERRED).
func (m mapping) prefer(node int) error {
	var mask [maxNodes / 64]uint64
	mask[node/64] = 1 << (node % 64)
	// The kernel reads one bit less than the length that it is given.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(m.start), m.len, unix.MPOL_PREFERRED,
		uintptr(unsafe.Pointer(&mask)), maxNodes+1, 0)
	if errno != 0 {
		return os.NewSyscallError("mbind", errno)
	}
	return nil
}

func roundUp(n, unit int) uintptr { return (uintptr(n) + uintptr(unit-1)) &^ uintptr(unit-1) }
