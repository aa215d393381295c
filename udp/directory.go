package udp

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Directory is where the stacks of one host, each of another goroutine, find each other's sockets: frames of an interface with several
// queues come to any of them, and so does a datagram for a socket of another. Every stack reports its sockets to the directory,
// and Input looks a datagram up among the sockets of all: it chooses as one stack with all the sockets would, connected before bound
// before wildcard, by the hash of the addresses where a port is shared. What is another stack's becomes a Delivery with its number in To.
//
// Readers see an immutable table, exchanged as a whole by one pointer: no lock, no wait, and a flow is claimed only after its socket can
// be found. The price, while there are several stacks, is a copy of what a change writes to, in calls of the application's set-up: for a group
// a part of the memberships, which hardly grows with their number; for a socket the list of all sockets. Any goroutine.
type Directory struct {
	current atomic.Pointer[directorySnapshot] // nil while one stack is alone: its own table is enough

	mu     sync.Mutex
	table  *Table // the one that is changed
	places []socketPlace
	shared bool   // a directorySnapshot has places: they are copied before a change
	stacks uint64 // by number, bit 0 is never used
	last   int    // number given last: one that has just left is not given again while others are free, for datagrams on their way to it
}

// directorySnapshot is a state of the directory. It is never changed.
type directorySnapshot struct {
	table  *Table
	places []socketPlace // by ID of the table
}

// socketPlace is where a socket of the directory lives.
type socketPlace struct {
	stack int32
	id    ID     // in that stack's own table
	owner uint64 // and as it is known there
}

// MaxStacks is how many stacks a directory holds.
const MaxStacks = 63

// NewDirectory makes an empty one; the seeds keep strangers from aiming at one bucket of its table.
func NewDirectory(seeds [2]uint64) *Directory { return &Directory{table: NewTable(seeds)} }

// Enter gives a stack its number, from 1 to MaxStacks.
func (d *Directory) Enter() (number int, err error) {
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

// Leave takes a stack out, with whatever sockets of it are left.
func (d *Directory) Leave(number int) {
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

// publish shows the others what has changed. The table goes before the pointer to it: who has the pointer sees a whole table.
func (d *Directory) publish() {
	if d.stacks&(d.stacks-1) == 0 {
		d.current.Store(nil)
		return
	}
	d.current.Store(&directorySnapshot{table: d.table.Snapshot(), places: d.places})
	d.shared = true
}

// writePlaces is called before places are changed.
func (d *Directory) writePlaces() {
	if d.shared {
		d.places, d.shared = slices.Clone(d.places), false
	}
}

// add, change, remove, join and leave are those of a stack's own table.

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

func (d *Directory) change(id ID, e Endpoint) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.table.Change(id, e)
	d.publish()
	return err
}

func (d *Directory) remove(id ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table.Remove(id)
	d.writePlaces()
	d.places[id] = socketPlace{}
	d.publish()
}

func (d *Directory) join(id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.table.Join(id, group, iface, source)
	d.publish()
	return err
}

func (d *Directory) leave(id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.table.Leave(id, group, iface, source)
	d.publish()
	return err
}
