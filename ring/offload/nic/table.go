package nic

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Table is the interfaces that the rings of one process share: one device for each, opened for the first ring that attaches to it and closed
// with the last, its queues divided among the rings, its claims inserted once each. Any goroutine.
//
// The lock is never held during a call that waits for the kernel's configuration lock: polled rings take it.
type Table struct {
	config  TableConfig
	version atomic.Uint64 // moves when a queue has become idle, or is served again, and when a device is lost
	// unpassed counts connections of the kernel on claimed ports for which a steering program had no room.
	unpassed atomic.Uint64
	running  sync.WaitGroup // goroutines of interfaces: those that watch guards and those that sweep passed connections

	mu   sync.Mutex
	nics map[string]*nic
}

// Tables are the interfaces, addresses and routes of a host, as it is known now: *host.Host has the kernel's. Jobs call it too.
type Tables interface {
	Snapshot() *host.Snapshot
	Generation() uint64 // of Snapshot
}

// TableConfig is what a table is made from.
type TableConfig struct {
	Host Tables // not closed by the table
	// Open opens an interface: XDP makes such a function. It runs on the goroutine of the ring that needs the interface first; after a
	// loss, and for an interface that joins a bond, on another one, in Netns.
	Open func(name string, p Patience) (Device, error)
	// Connections lists the kernel's TCP connections on a local port, or all for port 0; nil: the kernel has none, and accepts none. See
	// host.Connections.
	Connections func(port uint16) ([]host.Connection, error)
	// Netns is the network namespace of the interfaces; not closed by the table. The zero value: that of every goroutine.
	Netns host.Netns
}

// NewTable makes a table without a device.
func NewTable(c TableConfig) *Table {
	return &Table{config: c, nics: map[string]*nic{}}
}

// Close waits for the goroutines of the interfaces, once all attachments are released: they work in TableConfig.Netns.
func (t *Table) Close() { t.running.Wait() }

// Path is how frames travel on an interface, while it is open.
func (t *Table) Path(name string) (p link.Path, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.nics[name]; n != nil && n.device != nil {
		return n.device.Path(), true
	}
	return link.Path{}, false
}

// Unpassed is how many connections of the kernel on claimed ports a steering program had no room for: their peers were reset. Any goroutine.
func (t *Table) Unpassed() uint64 { return t.unpassed.Load() }

// Counters appends the counts of the devices and the guards, each name behind its interface's: "eth0.steer.claimed".
func (t *Table) Counters(dst []link.Counter) []link.Counter {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.nics)) {
		n := t.nics[name]
		var list []link.Counter
		if n.device != nil {
			list = n.device.Counters(nil)
		}
		if n.guard != nil {
			list = n.guard.Counters(list)
		}
		for _, c := range list {
			dst = append(dst, link.Counter{Name: name + "." + c.Name, Value: c.Value})
		}
	}
	return dst
}

// acquire finds an interface for an attachment, and opens its device if the interface is new. The device is opened without the lock: that may
// wait (Patient), and other rings take the lock while they are polled. release undoes it.
//
// With late the device is not opened here, nor is another goroutine that opens it waited for: a job of the attachment does both.
func (t *Table) acquire(i *Interface, late bool) (*nic, error) {
	at := addressSource{i.Name, i.VLAN}
	if i.On != "" {
		at.ifName = i.On
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nics[i.Name]
	for n != nil && n.opening != nil && !late {
		n.awaitOpening()
		n = t.nics[i.Name]
	}
	if n == nil {
		n = newNIC(t, i.Name, at)
		t.nics[i.Name] = n
		if late {
			n.users++
			return n, nil
		}
		if err := n.open(Patient); err != nil { // it unlocks mu while the device is opened
			delete(t.nics, i.Name)
			return nil, err
		}
	}
	if !slices.Contains(n.sources, at) {
		n.sources = append(n.sources, at)
		n.addressesGen = 0
		if err := n.syncAddresses(); err != nil {
			return nil, err
		}
	}
	n.users++
	return n, nil
}

// release undoes acquire. ownsQueues: the ring's queues there become idle. With the last user the interface leaves the table, and its device and
// its guard are returned for the caller to close.
func (t *Table) release(n *nic, ring int, ownsQueues bool) (dead io.Closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ownsQueues {
		n.releaseQueues(ring)
	}
	if n.users--; n.users > 0 {
		t.version.Add(1) // there may be idle queues
		return nil
	}
	delete(t.nics, n.name)
	n.forgetPassed()
	n.stopWatchingGuard()
	e := endedInterface{n.device, n.guard}
	if n.device, n.guard = nil, nil; e == (endedInterface{}) {
		return nil
	}
	return e
}

// nic is an interface: its device, which may be lost and opened again, and what outlives the device: claims, and which ring serves which queue.
// All of it is under the table's lock.
type nic struct {
	table   *Table
	name    string
	users   int           // attachments
	device  Device        // nil while the interface carries nothing
	serial  uint64        // of the device: each one opened has another
	ifIndex int           // of the interface, as the device has it
	opening chan struct{} // not nil while a goroutine opens the device, without the lock; closed then

	claims map[link.Flow]int // how many rings claim each

	passed   passedConns // of the kernel, on claimed ports
	unlisted link.Reason // why the kernel's connections cannot be listed

	guard     Guard         // keeps flows of TCP from the kernel; nil: none
	guarded   []address     // that it was told
	guardNews uint64        // how often the guard was lost, or replaced, while the device stayed
	guardStop chan struct{} // ends what watches the guard; nil: nothing does
	unguarded link.Reason   // why there is none, where there should be one
	queues    map[int]int   // queue → ring that serves it
	idle      map[int]bool  // queues whose ring has left, and which no other ring serves

	sources      []addressSource
	addresses    []address // that the device was told
	addressesGen uint64    // generation of the host's tables that they are of

	failed  error      // why the last try to open the device failed
	program int        // on the interface, as the mirror had it then
	retryAt clock.Time // when it is tried again, and after what wait
	backoff clock.Time
}

func newNIC(t *Table, name string, at addressSource) *nic {
	return &nic{table: t, name: name, claims: map[link.Flow]int{}, queues: map[int]int{}, idle: map[int]bool{}, sources: []addressSource{at}}
}

// Claim and Release make an interface the Claimer of its rings. A claim is inserted once, by the first ring, and removed by the last; while
// the device is lost it is noted for the next one.

// Claim adds one claim of the flow.
func (n *nic) Claim(f link.Flow) error {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	if n.claims[f] == 0 {
		if err := n.guardFlow(f); err != nil {
			return err
		}
		if n.device == nil {
			n.table.acceptIn(n.guard, acceptAfter, f)
		} else if err := n.claimOn(n.device, f); err != nil {
			return errors.Join(err, n.unguardFlow(f))
		}
	}
	n.claims[f]++
	return nil
}

// Release removes one claim of the flow.
func (n *nic) Release(f link.Flow) error {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	if n.claims[f]--; n.claims[f] > 0 {
		return nil
	}
	delete(n.claims, f)
	var err error
	if n.device != nil {
		err = n.device.Release(f)
	}
	return errors.Join(err, n.unguardFlow(f))
}

// Share is a part of an interface's queues: those whose place in the list of all, divided by Of, leaves Index. The zero value: all of them.
type Share struct{ Index, Of int }

// has reports whether the queue at a place is of the share.
func (s Share) has(place int) bool { return s.Of == 0 || place%s.Of == s.Index }

// Count is how many of n queues are of the share.
func (s Share) Count(n int) (count int) {
	for i := range n {
		if s.has(i) {
			count++
		}
	}
	return count
}

// assign reserves queues for a ring: those in want that the device was opened with, or, with nil, those of its share that no other ring serves.
// EBUSY if another ring has one of them; EINVAL if want has one that is not there, or none that the device was opened with.
func (n *nic) assign(ring int, want []int, share Share) ([]int, error) {
	all := n.device.Queues()
	if want == nil {
		for i, q := range all {
			if owner := n.queues[q]; owner == 0 && share.has(i) || owner == ring {
				want = append(want, q)
			}
		}
	}
	if d, ok := n.device.(partialDevice); ok && len(want) > 0 {
		leftOut := d.LeftOut()
		named := want
		want = slices.DeleteFunc(slices.Clone(named), func(q int) bool { return slices.Contains(leftOut, q) })
		if len(want) == 0 {
			return nil, fmt.Errorf("offload: %s: Queues are %v, the interface is opened with %v: %w", n.name, named, all, unix.EINVAL)
		}
	}
	for _, q := range want {
		switch owner := n.queues[q]; {
		case !slices.Contains(all, q):
			return nil, fmt.Errorf("offload: %s: Queues has %d, the interface %v: %w", n.name, q, all, unix.EINVAL)
		case owner != 0 && owner != ring:
			return nil, fmt.Errorf("offload: %s: queue %d is another ring's: %w", n.name, q, unix.EBUSY)
		}
	}
	for _, q := range want {
		n.queues[q] = ring
		delete(n.idle, q)
	}
	return want, nil
}

// releaseQueues frees the queues of a ring that has left.
func (n *nic) releaseQueues(ring int) {
	for q, owner := range n.queues {
		if owner == ring {
			delete(n.queues, q)
			n.idle[q] = true
		}
	}
}
