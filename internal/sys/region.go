package sys

import (
	"fmt"
	"math"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// RegionConfig says what memory a Region is made of.
type RegionConfig struct {
	Bytes     int    // length of the region; more than 0
	HugePages bool   // ask for huge pages from the system's reserve
	Interface string // ask for memory on the NUMA node of this network interface; "" = anywhere
	Memory    []byte // writable memory of the caller's, at least Bytes long; nil = the region maps its own
	Aligned   bool   // Memory must begin at a page boundary, as memory that the region maps does
}

// Codes of notes. They are stable: programs may compare them.
const (
	NoteNoHugePages  = "region.no_hugepages"  // huge pages were asked for, and these are ordinary pages
	NoteNUMA         = "region.numa"          // the interface's node was asked for, and the memory may be anywhere
	NoteCallerMemory = "region.caller_memory" // huge pages or a node were asked for, of memory that is the caller's
	NoteRaceHeap     = "region.race_heap"     // built with the race detector: the region lies in the Go heap
)

// Note reports where a Region is less than was asked for, and why.
type Note struct{ Code, Text string }

// Region is memory for buffers and rings outside the Go heap: the garbage collector neither scans nor counts it, its address never changes, and
// its addresses may be given to the kernel. One goroutine at a time may call the methods.
//
// Under the race detector the region is Go heap instead, because the detector does not see other memory.
type Region struct {
	bytes []byte
	unmap func() error // nil if the caller gave the memory
	notes []Note
	open  bool
	whole bool // the region lies in one huge page
}

// maxRegionBytes is half of the address space of a process on amd64. Rounding up to pages cannot overflow below it.
const maxRegionBytes = min(uint64(1)<<46, math.MaxInt/4)

// NewRegion makes a region. Huge pages and a NUMA node that cannot be had are no error: Notes says so. Errors are Bytes out of range, Memory too
// short or not Aligned, an Interface that does not exist, and those of mmap, with its errno (ENOMEM).
func NewRegion(c RegionConfig) (*Region, error) {
	if c.Bytes <= 0 || uint64(c.Bytes) > maxRegionBytes {
		return nil, fmt.Errorf("sys: region: Bytes %d: not in 1..%d", c.Bytes, maxRegionBytes)
	}
	if c.Memory != nil && len(c.Memory) < c.Bytes {
		return nil, fmt.Errorf("sys: region: Memory of %d bytes is shorter than Bytes %d", len(c.Memory), c.Bytes)
	}
	if page := os.Getpagesize(); c.Aligned && c.Memory != nil && startOf(c.Memory)%uintptr(page) != 0 {
		return nil, fmt.Errorf("sys: region: Memory begins %#x, which is no boundary of pages of %d bytes: %w", startOf(c.Memory), page, unix.EINVAL)
	}
	if c.Interface != "" {
		if _, err := net.InterfaceByName(c.Interface); err != nil {
			return nil, fmt.Errorf("sys: region: Interface %q: %w", c.Interface, err)
		}
	}
	r := &Region{open: true}
	if c.Memory != nil {
		r.bytes = c.Memory[:c.Bytes:c.Bytes]
		if c.HugePages || c.Interface != "" {
			r.addNote(NoteCallerMemory, "the memory is the caller's: its pages and its node are left as they are")
		}
		return r, nil
	}
	if err := r.makeMemory(c); err != nil {
		return nil, fmt.Errorf("sys: region of %d bytes: %w", c.Bytes, err)
	}
	return r, nil
}

// Bytes is the memory, exactly as long as was asked for; its own memory is zero at first and begins on a page boundary.
// It is nil after Close, and slices taken before must not be used then: touching them is a fault that Go cannot recover.
func (r *Region) Bytes() []byte { return r.bytes }

// Overlaps reports whether two open regions have a byte of memory in common.
func (r *Region) Overlaps(x *Region) bool {
	a, b := startOf(r.bytes), startOf(x.bytes)
	return a < b+uintptr(len(x.bytes)) && b < a+uintptr(len(r.bytes))
}

// Notes lists what was asked for and could not be had; it is empty if everything could.
func (r *Region) Notes() []Note { return r.notes }

// Contiguous reports whether the region is known to be contiguous in physical memory, because it lies in one huge page.
func (r *Region) Contiguous() bool { return r.whole }

// Prefault touches every page for writing, so that the path never takes a page fault. The contents stay. It must be
// called before other goroutines, or the kernel, write to the region.
func (r *Region) Prefault() {
	// A page of 4 KiB is the smallest there is; on systems with larger ones this touches each more than once.
	const page = 4096
	for i := 0; i < len(r.bytes); i += page {
		r.bytes[i] = same(r.bytes[i])
	}
	if n := len(r.bytes); n > 0 {
		r.bytes[n-1] = same(r.bytes[n-1]) // caller's memory may begin in the middle of a page
	}
}

// same hides from the compiler that a byte is stored where it was loaded from, which it would otherwise leave out.
//
//go:noinline
func same(b byte) byte { return b }

// Close gives the memory back; memory of the caller's is left alone. Nothing may use the region any more: no goroutine,
// no ring and no kernel operation in flight. A second Close returns os.ErrClosed.
func (r *Region) Close() error {
	if !r.open {
		return fmt.Errorf("sys: close region: %w", os.ErrClosed)
	}
	r.open, r.bytes = false, nil
	if r.unmap == nil {
		return nil
	}
	if err := r.unmap(); err != nil {
		return fmt.Errorf("sys: close region: %w", err)
	}
	return nil
}

// addNote notes something that was asked for and cannot be had.
func (r *Region) addNote(code, format string, args ...any) {
	r.notes = append(r.notes, Note{code, fmt.Sprintf(format, args...)})
}
