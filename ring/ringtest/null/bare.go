package null

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Bare is the loop without a ring: indexes of buffers in a free list, entries that say which buffer holds how many bytes. There are no
// references, generations, accounts, sockets, addresses or errors in it: it is the floor, not an alternative.
type Bare struct {
	region  *sys.Region
	mem     []byte
	stride  uint32
	start   uint32 // of the payload in a buffer
	free    []uint32
	n       int // indexes in free
	entries []entry
}

// entry is what a device's ring says of a received frame.
type entry struct{ index, length uint32 }

// NewBare makes a loop over batch entries a turn, 1 to MostBatch, on memory divided as Layer's is.
func NewBare(batch int) (*Bare, error) {
	if err := checkBatch("bare loop", batch, 1); err != nil {
		return nil, err
	}
	l := layout()
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	if err != nil {
		return nil, err
	}
	b := &Bare{region: region, mem: region.Bytes(), stride: uint32(l.Stride(0)), start: uint32(l.Headroom),
		free: make([]uint32, l.SmallCount), entries: make([]entry, batch)}
	for i := l.SmallCount - 1; i >= 0; i-- {
		b.free[b.n] = uint32(i)
		b.n++
		binary.LittleEndian.PutUint64(b.mem[uint32(i)*b.stride+b.start:], uint64(i))
	}
	return b, nil
}

// Turn takes a buffer for each entry, as a device would, then reads the first 8 bytes of each and puts it back. It returns the sum of
// what it read.
func (b *Bare) Turn() (sum uint64) {
	for i := range b.entries {
		b.n--
		b.entries[i] = entry{b.free[b.n], PayloadBytes}
	}
	for i := range b.entries {
		e := &b.entries[i]
		at := e.index*b.stride + b.start
		sum += binary.LittleEndian.Uint64(b.mem[at : at+e.length])
		b.free[b.n] = e.index
		b.n++
	}
	return sum
}

// Close frees the memory.
func (b *Bare) Close() error { return b.region.Close() }
