//go:build race

package sys

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// raceRegionBytes: an allocation that the Go heap cannot serve ends the process, so absurd ones are refused first.
const raceRegionBytes = 1 << 36

// makeMemory takes the region from the Go heap, where the race detector sees it, aligned like a mapping.
func (r *Region) makeMemory(c RegionConfig) error {
	if uint64(c.Bytes) > raceRegionBytes {
		return os.NewSyscallError("mmap", unix.ENOMEM)
	}
	page := os.Getpagesize()
	b := make([]byte, c.Bytes+page)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (page - 1)
	r.bytes = b[skip : skip+c.Bytes : skip+c.Bytes]
	r.addNote(NoteRaceHeap, "built with the race detector: the region lies in the Go heap, without huge pages or a node")
	return nil
}
