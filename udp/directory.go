package udp

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Directory lists the sockets of all stacks of a host, each of which belongs to another goroutine. A frame arrives at any queue of an
// interface, so its socket may be another stack's. Every stack reports its sockets to the directory, and Input looks a datagram up among the
// sockets of all: it chooses as one stack with all the sockets would, connected before bound before wildcard, by the hash of the addresses
// where a port is shared. A datagram for another stack becomes a Delivery with that stack's number in To.
//
// Readers see an immutable table, which one pointer replaces as a whole: no lock, no wait, and a flow is claimed only after its socket can
// be found. While there are several stacks, a change copies what it writes to, in calls of the application's set-up: for a group
// a part of the memberships, which hardly grows with their number; for a socket the list of all sockets. Any goroutine.
type Directory struct {
	current atomic.Pointer[directorySnapshot] // nil while there is one stack: its own table is enough

	mu     sync.Mutex
	table  *Table // the one that changes
	places []socketPlace
	shared bool   // a directorySnapshot reads places: they are copied before a change
	stacks uint64 // by number, bit 0 is never used
	last   int    // the number given last: datagrams may still be on their way to a stack that has left, so its number comes last
}

// directorySnapshot is a state of the directory. It is never changed.
type directorySnapshot struct {
	table  *Table
	places []socketPlace // by ID of the table
}

// socketPlace says which stack has a socket of the directory.
type socketPlace struct {
	stack int32
	id    ID     // in that stack's own table
	owner uint64 // its Endpoint.Owner there
}

// MaxStacks is how many stacks a directory holds.
const MaxStacks = 63

// NewDirectory makes an empty directory; seeds are those of NewTable.
func NewDirectory(seeds [2]uint64) *Directory { return &Directory{table: NewTable(seeds)} }

// AddStack gives a stack its number, from 1 to MaxStacks.
func (d *Directory) AddStack() (number int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range MaxStacks {
		if number = (d.last+i)%MaxStacks + 1; d.stacks&(1<<number) == 0 {
			d.last, d.stacks = number, d.stacks|1<<number
			d.publish()
			return number, nil
		}
	}
	return 0, fmt.Errorf("udp: %d stacks are in the directory, which holds no more", MaxStacks)
}

// RemoveStack removes a stack, with the sockets that it still has.
func (d *Directory) RemoveStack(number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writePlaces()
	for id := range d.places {
		if d.places[id].stack == int32(number) {
			d.table.Remove(ID(id))
			d.places[id] = socketPlace{}
		}
	}
	d.stacks &^= 1 << number
	d.publish()
}

// publish makes a change visible to the stacks. The table is complete before the pointer to it is stored: a reader never sees half of one.
func (d *Directory) publish() {
	if d.stacks&(d.stacks-1) == 0 {
		d.current.Store(nil)
		return
	}
	d.current.Store(&directorySnapshot{table: d.table.Snapshot(), places: d.places})
	d.shared = true
}

// writePlaces is called before places are changed: it copies them if a snapshot reads them.
func (d *Directory) writePlaces() {
	if d.shared {
		d.places, d.shared = slices.Clone(d.places), false
	}
}

// add enters a socket of a stack, whose number in the stack's own table is own; the result is its number in the directory's table. It and the
// calls below repeat what Protocol does to its own table, for the lookups of the other stacks.
func (d *Directory) add(number int, own ID, e Endpoint) (ID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, err := d.table.Add(e)
	if err != nil {
		return 0, err
	}
	d.writePlaces()
	for int(id) >= len(d.places) {
		d.places = append(d.places, socketPlace{})
	}
	d.places[id] = socketPlace{stack: int32(number), id: own, owner: e.Owner}
	d.publish()
	return id, nil
}

// change changes a socket's addresses; see Table.Change.
func (d *Directory) change(id ID, e Endpoint) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.table.Change(id, e)
	d.publish()
	return err
}

// remove removes a socket.
func (d *Directory) remove(id ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table.Remove(id)
	d.writePlaces()
	d.places[id] = socketPlace{}
	d.publish()
}

// join makes a socket a member of a group; see Table.Join.
func (d *Directory) join(id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.table.Join(id, group, iface, source)
	d.publish()
	return err
}

// leave undoes join.
func (d *Directory) leave(id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.table.Leave(id, group, iface, source)
	d.publish()
	return err
}
