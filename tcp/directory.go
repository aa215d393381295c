package tcp

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Directory says which of several tables of a host, each of another goroutine, has a flow or listens at an endpoint. A frame comes in anywhere,
// so its receiver looks for the table here. Each table enters its flows by itself (Config.Directory); in TIME-WAIT a flow is still the table's.
//
//	Find    no lock: slots of two words, whose first one has a version that changes with each write; the listeners are an immutable map
//	Enter … a mutex for each of 256 parts, in calls that make or end a connection
//
// At an endpoint where several tables listen a new flow is of one of them, by the hash of its addresses: when a table stops to listen only its
// own share moves to others. Any goroutine.
type Directory struct {
	hasher flows // for its keys
	shards [directoryShards]directoryShard

	mu        sync.Mutex
	listeners atomic.Pointer[map[Endpoint]uint64] // a bit for each number of a table
}

const (
	directoryShards = 256
	directoryFirst  = 16 // slots of a part at first
)

// MaxTables is the highest number of a table in a directory; the first is 1.
const MaxTables = 63

// InTransit is the number in a directory of flows that one table has exported, and that none has imported yet.
const InTransit = MaxTables + 1

// directoryShard is a part of the flows, open-addressed. A place is never used by another flow while a reader may compare it unnoticed: the
// version in own changes before and after peer is written.
type directoryShard struct {
	slots atomic.Pointer[[]directorySlot]
	mu    sync.Mutex
	used  int // slots that are not free: flows and removed ones
	flows int
	_     [32]byte // the next part's lock is in another cache line
}

// directorySlot is a flow.
type directorySlot struct {
	own  atomic.Uint64 // local address: 32 bits; version: 24; number of the table: 8, 0 for free, slotRemoved
	peer atomic.Uint64 // remote address: 32; remote port: 16; local port: 16
}

const slotRemoved = 0xff

func ownWord(local Endpoint, version, table uint64) uint64 {
	return uint64(local.Addr.Uint32())<<32 | version<<8&0xffffff00 | table
}

func peerWord(local, remote Endpoint) uint64 {
	return uint64(remote.Addr.Uint32())<<32 | uint64(remote.Port)<<16 | uint64(local.Port)
}

// NewDirectory makes an empty directory. seeds are of the hash of addresses.
func NewDirectory(seeds [2]uint64) *Directory {
	d := &Directory{hasher: flows{keys: seeds}}
	d.listeners.Store(&map[Endpoint]uint64{})
	return d
}

// Find is the number of the table that a segment between the two endpoints is for: that of the flow, or one that listens; 0 for none.
func (d *Directory) Find(local, remote Endpoint) int {
	h := d.hasher.hash(local, remote)
	if table := d.shards[h%directoryShards].find(h/directoryShards, local, remote); table != 0 {
		return table
	}
	return d.listening(local, h)
}

// listening is one of the tables that listen at an endpoint, or at its port; 0 for none. h is the hash of the flow.
func (d *Directory) listening(local Endpoint, h uint32) int {
	all := *d.listeners.Load()
	set := all[local]
	if set == 0 {
		set = all[Endpoint{Port: local.Port}]
	}
	if set&(set-1) == 0 {
		return bits.TrailingZeros64(set) & MaxTables // 64 for none: 0
	}
	// Rendezvous hashing: the one with the highest weight.
	best, most := 0, uint64(0)
	for ; set != 0; set &= set - 1 {
		n := bits.TrailingZeros64(set)
		w := (uint64(h)<<6 | uint64(n)) * 0x9e3779b97f4a7c15
		w = (w ^ w>>29) * 0xbf58476d1ce4e5b9
		if w ^= w >> 32; w >= most {
			best, most = n, w
		}
	}
	return best
}

// find is the table of a flow in one part; 0 for none. Slots that are free end the search; at least half of them are.
func (s *directoryShard) find(h uint32, local, remote Endpoint) int {
	p := s.slots.Load()
	if p == nil {
		return 0
	}
	slots := *p
	address, peer := uint64(local.Addr.Uint32()), peerWord(local, remote)
	mask := uint32(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := &slots[i]
		own := e.own.Load()
		for own>>32 == address && own&0xff != slotRemoved && own&0xff != 0 {
			is := e.peer.Load() == peer
			if again := e.own.Load(); again != own {
				own = again // it was written meanwhile
				continue
			}
			if is {
				return int(own & 0xff)
			}
			break
		}
		if own&0xff == 0 {
			return 0
		}
	}
}

// Enter makes a flow the table's and reports whether it is: false if another table has it. One that is in transit becomes the table's.
func (d *Directory) Enter(local, remote Endpoint, table int) bool {
	h := d.hasher.hash(local, remote)
	s := &d.shards[h%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.slot(h/directoryShards, local, remote); e != nil {
		switch own := e.own.Load(); own & 0xff {
		case uint64(table):
		case InTransit:
			e.own.Store(ownWord(local, own>>8+1, uint64(table)))
		default:
			return false
		}
		return true
	}
	s.insert(d, h/directoryShards, local, peerWord(local, remote), uint64(table))
	return true
}

// Export notes that a flow of the table is in transit; one that is not the table's stays what it is.
func (d *Directory) Export(local, remote Endpoint, table int) {
	d.change(local, remote, table, InTransit)
}

// Remove forgets a flow, if it is the table's.
func (d *Directory) Remove(local, remote Endpoint, table int) {
	d.change(local, remote, table, slotRemoved)
}

// change writes another number into the slot of a table's flow.
func (d *Directory) change(local, remote Endpoint, table int, to uint64) {
	h := d.hasher.hash(local, remote)
	s := &d.shards[h%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.slot(h/directoryShards, local, remote); e != nil && e.own.Load()&0xff == uint64(table) {
		s.write(e, to)
	}
}

// write changes the number of a slot. Under the part's lock.
func (s *directoryShard) write(e *directorySlot, table uint64) {
	own := e.own.Load()
	e.own.Store(own&^uint64(0xffffffff) | (own>>8+1)<<8&0xffffff00 | table)
	if table == slotRemoved {
		s.flows--
	}
}

// slot is the place of a flow; nil without one. Under the part's lock.
func (s *directoryShard) slot(h uint32, local, remote Endpoint) *directorySlot {
	p := s.slots.Load()
	if p == nil {
		return nil
	}
	address, peer := uint64(local.Addr.Uint32()), peerWord(local, remote)
	mask := uint32(len(*p) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := &(*p)[i]
		switch own := e.own.Load(); {
		case own&0xff == 0:
			return nil
		case own&0xff != slotRemoved && own>>32 == address && e.peer.Load() == peer:
			return e
		}
	}
}

// insert adds a flow that is not there yet. Under the part's lock. A part that would be half full is made anew, without the removed slots: those
// who search the former one find what was there.
func (s *directoryShard) insert(d *Directory, h uint32, local Endpoint, peer, table uint64) {
	p := s.slots.Load()
	if p == nil || 2*(s.used+1) > len(*p) {
		size := directoryFirst
		for size < 4*(s.flows+1) {
			size *= 2
		}
		wider := make([]directorySlot, size)
		if p != nil {
			for i := range *p {
				own, peer := (*p)[i].own.Load(), (*p)[i].peer.Load()
				if own&0xff != 0 && own&0xff != slotRemoved {
					e := freeSlot(wider, d.hashOf(own, peer)/directoryShards)
					e.peer.Store(peer)
					e.own.Store(own)
				}
			}
		}
		s.used = s.flows
		p = &wider
		s.slots.Store(p)
	}
	e := freeSlot(*p, h)
	version := e.own.Load()>>8 + 1
	if e.own.Load()&0xff == 0 {
		s.used++
	}
	e.own.Store(ownWord(local, version, slotRemoved)) // nobody compares it while it is written
	e.peer.Store(peer)
	e.own.Store(ownWord(local, version+1, table))
	s.flows++
}

// freeSlot is the first slot from h on that has no flow.
func freeSlot(slots []directorySlot, h uint32) *directorySlot {
	mask := uint32(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if n := slots[i].own.Load() & 0xff; n == 0 || n == slotRemoved {
			return &slots[i]
		}
	}
}

// hashOf is the hash of a flow from the words of its slot.
func (d *Directory) hashOf(own, peer uint64) uint32 {
	var local, remote wire.Addr
	binary.BigEndian.PutUint32(local[:], uint32(own>>32))
	binary.BigEndian.PutUint32(remote[:], uint32(peer>>32))
	return d.hasher.hash(Endpoint{Addr: local, Port: uint16(peer)}, Endpoint{Addr: remote, Port: uint16(peer >> 16)})
}

// Listen notes that a table listens at an endpoint, CloseListener that it does not any more.
func (d *Directory) Listen(at Endpoint, table int) { d.listen(at, table, true) }

// CloseListener undoes Listen.
func (d *Directory) CloseListener(at Endpoint, table int) { d.listen(at, table, false) }

func (d *Directory) listen(at Endpoint, table int, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	former := *d.listeners.Load()
	next := make(map[Endpoint]uint64, len(former)+1)
	for e, set := range former {
		next[e] = set
	}
	set := next[at]
	if set |= 1 << table; !on {
		set &^= 1 << table
	}
	if next[at] = set; set == 0 {
		delete(next, at)
	}
	d.listeners.Store(&next)
}

// RemoveTable forgets the flows and listeners that a table still has. Flows in transit stay.
func (d *Directory) RemoveTable(table int) {
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.Lock()
		if p := s.slots.Load(); p != nil {
			for j := range *p {
				if e := &(*p)[j]; e.own.Load()&0xff == uint64(table) {
					s.write(e, slotRemoved)
				}
			}
		}
		s.mu.Unlock()
	}
	for at, set := range *d.listeners.Load() {
		if set&(1<<table) != 0 {
			d.CloseListener(at, table)
		}
	}
}

// Len is how many flows there are.
func (d *Directory) Len() (n int) {
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.Lock()
		n += s.flows
		s.mu.Unlock()
	}
	return n
}

// check validates the number of a table.
func (d *Directory) check(table int) error {
	if d != nil && (table < 1 || table > MaxTables) {
		return fmt.Errorf("tcp: Config.Number %d, with a Directory: %w", table, ErrSettings)
	}
	return nil
}
