package buffers

import "fmt"

// Verify checks the whole pool: every buffer is in exactly one place, chains, references, free lists and accounts agree.
// It returns the first disagreement, which is a bug in this package or in a driver. For tests and shutdown; owner
// goroutine, allocates.
func (p *Pool) Verify() error {
	v := verifier{Pool: p, seen: make([]bool, len(p.meta))}
	for _, check := range []func() error{v.checkFreeLists, v.checkPackets, v.checkRest, v.checkAccounts} {
		if err := check(); err != nil {
			return fmt.Errorf("buffers: verify: %w", err)
		}
	}
	return nil
}

// verifier is one run of Verify.
type verifier struct {
	*Pool
	seen []bool
}

// markSeen notes that buffer i was found, where says in what place; an error if it was found in another place before.
func (v *verifier) markSeen(i uint32, where string) error {
	if int(i) >= len(v.seen) {
		return fmt.Errorf("buffer %d of %d %s", i, len(v.seen), where)
	}
	if v.seen[i] {
		return fmt.Errorf("buffer %d %s is also somewhere else", i, where)
	}
	v.seen[i] = true
	return nil
}

// checkFreeLists looks at each buffer on a free list: it must be free, of the list's class, and referred to by nothing.
func (v *verifier) checkFreeLists() error {
	for c := range v.free {
		for _, i := range v.free[c].stack[:v.free[c].n] {
			if err := v.markSeen(i, "on a free list"); err != nil {
				return err
			}
			if m := v.meta[i]; m.state != stateFree || v.classOf(i) != Class(c) || !m.unused() {
				return fmt.Errorf("buffer %d on the %v free list is %+v", i, Class(c), m)
			}
		}
	}
	return nil
}

// unused reports that nothing refers to the buffer.
func (m *meta) unused() bool {
	return m.refs == 0 && m.bufRefs == 0 && m.flags == 0 && m.next == none && m.account == 0
}

// checkPackets walks every chain from its head.
func (v *verifier) checkPackets() error {
	for i := range v.meta {
		head, m := uint32(i), &v.meta[i]
		if m.refs == 0 && m.flags&flagLoan == 0 {
			continue
		}
		word := uint32(v.loans[i].Load())
		share := m.flags&flagLoan != 0 && m.refs > 0
		if m.flags&flagLoan == 0 && word != 0 || share != (word&ownerShare != 0) || m.refs > 0 == (m.state == stateLent) ||
			m.state < stateReceived || m.state > stateCompleting {
			return fmt.Errorf("buffer %d is %+v with loan %#x", i, *m, word)
		}
		if err := v.checkChain(head); err != nil {
			return err
		}
	}
	return nil
}

// checkChain follows one packet's buffers: their states, bounds and front must agree with the head, their number and bytes with chains.
func (v *verifier) checkChain(head uint32) error {
	h, front := &v.meta[head], v.front(head)
	var got chain
	frontSeen := false
	for i := head; i != none; i = v.meta[i].next {
		if err := v.markSeen(i, fmt.Sprintf("in packet %d", head)); err != nil {
			return err
		}
		m := v.meta[i]
		if m.state != h.state || i != head && (m.refs != 0 || m.flags != 0) {
			return fmt.Errorf("buffer %d of packet %d, which is %v, is %+v", i, head, h.state, m)
		}
		frontSeen = frontSeen || i == front
		if i == head && front != head {
			m.off, m.len = v.base(i), 0
		}
		if m.off < v.base(i) || uint64(m.off)+uint64(m.len) > uint64(v.end(i)) {
			return fmt.Errorf("buffer %d is at %d to %d, its payload at %d, %d bytes", i, v.base(i), v.end(i), m.off, m.len)
		}
		got.tail, got.count, got.bytes = i, got.count+1, got.bytes+m.len
	}
	if f := v.meta[front]; !frontSeen || f.off != h.off || f.len != h.len {
		return fmt.Errorf("packet %d reads %d bytes at %d, front %d is %+v", head, h.len, h.off, front, f)
	}
	if want := v.extent(head); got.tail != want.tail || got.count != want.count || got.bytes != want.bytes {
		return fmt.Errorf("packet %d has %+v, noted is %+v", head, got, want)
	}
	return nil
}

// checkRest accounts for the buffers that are in no list and no packet.
func (v *verifier) checkRest() error {
	var filling [NumClasses]int
	for i, m := range v.meta {
		switch {
		case v.seen[i]:
		case m.state == stateFilling && m.unused():
			filling[v.classOf(uint32(i))]++
		case m.state == stateRetained && m.refs == 0 && m.bufRefs > 0 && m.flags == 0 && m.next == none:
		default:
			return fmt.Errorf("buffer %d is in no list and no packet: %+v", i, m)
		}
	}
	for c := range v.avail {
		if want := v.free[c].n + filling[c]; int(v.avail[c]) != want {
			return fmt.Errorf("%v buffers: %d available, counted %d", Class(c), v.avail[c], want)
		}
	}
	if v.queues.all > int32(filling[Small]) {
		return fmt.Errorf("%d small buffers are said to lie ready on queues, %d are filling", v.queues.all, filling[Small])
	}
	return nil
}

// checkAccounts compares what each account is charged with what it has.
func (v *verifier) checkAccounts() error {
	used := make([][NumClasses]int32, len(v.accounts))
	for i, m := range v.meta {
		if m.state != stateFree && m.state != stateFilling {
			used[m.account][v.classOf(uint32(i))]++
		}
	}
	free := 0
	for slot, a := range v.accounts {
		if a.used != used[slot] {
			return fmt.Errorf("account slot %d is charged %v buffers, has %v", slot, a.used, used[slot])
		}
		if slot == 0 {
			continue
		}
		idle := a.used == [NumClasses]int32{}
		if !idle && a.id == 0 || idle && a.closed {
			return fmt.Errorf("account slot %d is %+v", slot, a)
		}
		if a.id == 0 {
			free++
		}
	}
	if free != len(v.freeAccounts) {
		return fmt.Errorf("%d account slots are free, %d listed", free, len(v.freeAccounts))
	}
	return nil
}
