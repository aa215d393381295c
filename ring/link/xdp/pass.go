package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// A connection of the kernel's on a claimed port has an entry of its own in the flow map, whose value passes its segments to the kernel. The
// entry of a connection is looked up before that of its port.
//
//	entry                                value
//	a flow that is claimed               redirectFlow
//	a connection of the kernel's         passFlow, also while the same flow is claimed
//
// The front decides without a lookup, so it must not have an entry that also matches a connection which is passed: while there are such
// connections, the slot of their local port is empty.

// Values of the flow map.
const (
	redirectFlow = uint32(1)
	passFlow     = uint32(2)
)

// passedConnections are the entries that pass, and the slots of the front that are empty for their sake.
type passedConnections struct {
	entries map[key]bool
	inSlot  [frontSlots]int
	evicted [frontSlots]key // what is to be in the slot again; zero: nothing
}

// Pass has the segments of a connection go on to the kernel although its port is claimed, from the next packet on, until StopPassing. Of all
// entries half may be such. Errors: ErrFull, and arguments that cannot be, by name.
func (p *Program) Pass(f Flow) error {
	k, err := connectionKey(f)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return link.ErrClosed
	case p.passed.entries[k]:
		return nil
	case len(p.passed.entries) >= max(p.options.flows/2, 1):
		return fmt.Errorf("xdp: pass %v: %w (%d connections of the kernel)", f, ErrFull, len(p.passed.entries))
	}
	if err := p.flows.Put(k[:], passFlow); errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("xdp: pass %v: %w (%d entries)", f, ErrFull, p.options.flows)
	} else if err != nil {
		return fmt.Errorf("xdp: pass %v: %w", f, err)
	}
	x, slot, isNew := &p.passed, k.slot(), 0
	if p.claims[k] == 0 {
		isNew = 1
	}
	evicted := p.first.slots[slot]
	x.inSlot[slot]++
	p.first.slots[slot] = key{}
	if err := p.updateFront(k, isNew, evicted != (key{})); err != nil {
		p.first.slots[slot] = evicted
		x.inSlot[slot]--
		return errors.Join(fmt.Errorf("xdp: pass %v: %w", f, err), p.restore(k))
	}
	if evicted != (key{}) {
		x.evicted[slot] = evicted
	}
	x.entries[k] = true
	return nil
}

// StopPassing ends a Pass: the segments are redirected again if a claim matches them. Error: ErrNoClaim.
func (p *Program) StopPassing(f Flow) error {
	k, err := connectionKey(f)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return link.ErrClosed
	case !p.passed.entries[k]:
		return fmt.Errorf("xdp: stop passing %v: %w", f, ErrNoClaim)
	}
	if err := p.restore(k); err != nil {
		return fmt.Errorf("xdp: stop passing %v: %w", f, err)
	}
	x, slot, gone := &p.passed, k.slot(), 0
	delete(x.entries, k)
	if p.claims[k] == 0 {
		gone = -1
	}
	back := false
	if x.inSlot[slot]--; x.inSlot[slot] == 0 && x.evicted[slot] != (key{}) {
		back = p.first.add(x.evicted[slot])
		x.evicted[slot] = key{}
	}
	if err := p.updateFront(k, gone, back); err != nil {
		return fmt.Errorf("xdp: stop passing %v: %w", f, err)
	}
	return nil
}

// restore gives the entry of a connection that is not passed the value that its claims give it, or deletes it.
func (p *Program) restore(k key) error {
	if p.claims[k] > 0 {
		return p.flows.Put(k[:], redirectFlow)
	}
	if err := p.flows.Delete(k[:]); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// updateFront notes entries more or less of a key's kind (by 1, -1 or 0), and writes the front to its map if that changes it, or if a slot was
// changed. On an error the kinds are as they were.
func (p *Program) updateFront(k key, by int, slotChanged bool) error {
	kind, before := k.kind(), p.first.kinds
	p.each[kind] += by
	p.first.kinds &^= kind
	if p.each[kind] > 0 {
		p.first.kinds |= kind
	}
	if p.first.kinds == before && !slotChanged {
		return nil
	}
	if err := p.front.Put(uint32(0), p.first.bytes()); err != nil {
		p.each[kind] -= by
		p.first.kinds = before
		return err
	}
	return nil
}

// connectionKey is the key of a connection. The error names the field that is missing.
func connectionKey(f Flow) (k key, err error) {
	if k, err = keyOf(f); err != nil {
		return k, err
	}
	if k.kind() != kindConnected {
		return k, fmt.Errorf("xdp: pass %v: Remote is missing, or Local is a group: only a connection is passed", f)
	}
	return k, nil
}
