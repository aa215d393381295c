package udp

import (
	"math/bits"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// flows is a hash table of 16-byte keys: open addressing with linear probing, at most half full, no pointers. Its seeds are random, so
// that no other host can choose keys that fall into one bucket.
type flows struct {
	entries []entry
	mask    uint64
	n       int
	seeds   [2]uint64
}

type entry struct {
	a, b  uint64
	value int32 // none: the entry is free
}

const none int32 = -1

func newFlows(seeds [2]uint64) flows {
	f := flows{seeds: seeds}
	f.resize(16)
	return f
}

// hash is the hash of a key; find, set and remove search from it on.
func (f *flows) hash(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^f.seeds[0], b^f.seeds[1])
	return hi ^ lo
}

// find is the value of a key, none when it has none.
func (f *flows) find(a, b uint64) int32 {
	entries := f.entries
	for i := f.hash(a, b); ; i++ {
		e := &entries[i&f.mask]
		if e.a == a && e.b == b || e.value == none {
			return e.value
		}
	}
}

// set gives a key its value, 0 or more.
func (f *flows) set(a, b uint64, value int32) {
	if 2*(f.n+1) > len(f.entries) {
		f.resize(2 * len(f.entries))
	}
	for i := f.hash(a, b); ; i++ {
		e := &f.entries[i&f.mask]
		if e.value == none {
			f.n++
			e.a, e.b = a, b
		} else if e.a != a || e.b != b {
			continue
		}
		e.value = value
		return
	}
}

// remove removes a key. The entries behind it move up, so that searches walk over no marks of removed keys.
func (f *flows) remove(a, b uint64) {
	i := f.hash(a, b)
	for ; ; i++ {
		e := &f.entries[i&f.mask]
		if e.value == none {
			return
		}
		if e.a == a && e.b == b {
			break
		}
	}
	f.n--
	gap := i
	for j := i + 1; ; j++ {
		e := f.entries[j&f.mask]
		if e.value == none {
			break
		}
		if ideal := f.hash(e.a, e.b); (j-ideal)&f.mask >= (j-gap)&f.mask { // the place of its hash is not behind the gap
			f.entries[gap&f.mask] = e
			gap = j
		}
	}
	f.entries[gap&f.mask] = entry{value: none}
}

// resize makes the table n entries long, a power of two, and enters the keys again.
func (f *flows) resize(n int) {
	old := f.entries
	f.entries, f.mask, f.n = make([]entry, n), uint64(n-1), 0
	for i := range f.entries {
		f.entries[i].value = none
	}
	for i := range old {
		if old[i].value != none {
			f.set(old[i].a, old[i].b, old[i].value)
		}
	}
}

// Flow is what demultiplexing looks at in a datagram.
type Flow = ip.Flow

func addrKey(x, y wire.Addr) uint64 { return uint64(x.Uint32())<<32 | uint64(y.Uint32()) }

func portKey(local, remote uint16) uint64 { return uint64(local)<<16 | uint64(remote) }

func (f *flows) clone() flows {
	c := *f
	c.entries = slices.Clone(f.entries)
	return c
}
