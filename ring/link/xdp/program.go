package xdp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	bpflink "github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/internal/bpf"
)

// ErrFull: the flow map has no room for one more claim. The flow stays the kernel's, whole.
var ErrFull = errors.New("xdp: the flow map is full")

// ErrNoClaim: the flow or address that should be released was not claimed.
var ErrNoClaim = errors.New("xdp: not claimed")

// Program is the steering program of one interface with its maps and the link that attaches it. The link goes with the process, however
// it ends: the kernel then has its traffic back. Any goroutine.
type Program struct {
	flows   *ebpf.Map
	front   *ebpf.Map // one entry: what the program reads first, see front.go
	sockets *ebpf.Map
	counts  *ebpf.Map
	program *ebpf.Program
	id      uint32 // the kernel's number of it
	options programOptions

	index int                   // of the interface that it is on
	lost  atomic.Pointer[error] // what the prober found: nil while it is there

	onLost atomic.Pointer[func()] // see OnLost

	linkMu sync.Mutex // may be held while the kernel is asked; before mu, if both
	link   bpflink.Link

	mu     sync.Mutex        // held for entries of maps only: a claim never waits for the kernel's configuration
	there  bool              // attached
	claims map[key]int       // how often each entry was claimed
	each   map[entryKind]int // entries of each kind
	first  front             // as the program has it
	passed passedConnections // of the kernel, on claimed ports
	closed bool
}

// programOptions are how a program is made.
type programOptions struct {
	flows     int // most claims, addresses included
	queues    int // highest queue number and one
	protocols []uint8
	mtu       int
	frags     bool // run on frames of several pages too (Linux 5.18)
	stamp     stamping
	bound     int // interface a program that stamps by hardware is made for
}

// loadProgram makes maps and program; nothing is attached yet.
func loadProgram(o programOptions) (_ *Program, err error) {
	loads.Add(1)
	p := &Program{options: o, claims: map[key]int{}, each: map[entryKind]int{}, passed: passedConnections{entries: map[key]bool{}}}
	defer func() {
		if err != nil {
			_ = p.Close()
		}
	}()
	for _, m := range []struct {
		at   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&p.flows, ebpf.MapSpec{Name: "xtreme_flows", Type: ebpf.Hash, KeySize: keyBytes, ValueSize: 4, MaxEntries: uint32(o.flows)}},
		{&p.front, ebpf.MapSpec{Name: "xtreme_front", Type: ebpf.Array, KeySize: 4, ValueSize: frontBytes, MaxEntries: 1}},
		{&p.sockets, ebpf.MapSpec{Name: "xtreme_sockets", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(o.queues)}},
		{&p.counts, ebpf.MapSpec{Name: "xtreme_counts", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(numCounts)}},
	} {
		if *m.at, err = ebpf.NewMap(&m.spec); err != nil {
			return nil, refuse(err, "creating the map "+m.spec.Name)
		}
	}
	spec := &ebpf.ProgramSpec{Name: "xtreme_steer", Type: ebpf.XDP, License: "Dual BSD/GPL"}
	if o.frags {
		spec.Flags |= unix.BPF_F_XDP_HAS_FRAGS
	}
	params := parameters{flows: p.flows.FD(), front: p.front.FD(), sockets: p.sockets.FD(), counts: p.counts.FD(), protocols: o.protocols,
		mtu: o.mtu, stamp: o.stamp}
	switch o.stamp {
	case stampKernel:
	case stampHardware:
		spec.Flags |= unix.BPF_F_XDP_DEV_BOUND_ONLY
		spec.Ifindex = uint32(o.bound)
		if params.kfunc, err = kernelFunction("bpf_xdp_metadata_rx_timestamp"); err != nil {
			return nil, refuse(err, "finding the kernel's function for hardware stamps")
		}
	}
	spec.Instructions = assemble(params)
	if p.program, err = ebpf.NewProgram(spec); err != nil {
		return nil, refuse(err, "loading the steering program")
	}
	info, err := p.program.Info()
	if err != nil {
		return nil, refuse(err, "asking for the steering program's number")
	}
	id, _ := info.ID()
	p.id = uint32(id)
	return p, nil
}

// kernelFunction is the type of a function that programs may call, in the kernel's description of itself.
func kernelFunction(name string) (int64, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return 0, err
	}
	var f *btf.Func
	if err := spec.TypeByName(name, &f); err != nil {
		return 0, err
	}
	id, err := spec.TypeID(f)
	return int64(id), err
}

// attach puts the program on an interface, in the driver or behind it.
func (p *Program) attach(index int, native bool) error {
	flags := bpflink.XDPGenericMode
	if native {
		flags = bpflink.XDPDriverMode
	}
	l, err := bpflink.AttachXDP(bpflink.XDPOptions{Program: p.program, Interface: index, Flags: flags})
	if err != nil {
		return err
	}
	p.linkMu.Lock()
	p.link, p.index = l, index
	p.linkMu.Unlock()
	p.mu.Lock()
	p.there = true
	p.mu.Unlock()
	attached.add(p)
	return nil
}

// ID is the kernel's number of the program, as `ip link` shows it. It may be asked by any goroutine, after Close too.
func (p *Program) ID() uint32 { return p.id }

// Check is nil while the program is attached; ErrDetached for errors.Is when somebody detached it or the interface is gone, as the prober
// found it last: it makes no system call.
func (p *Program) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return link.ErrClosed
	case !p.there:
		return fmt.Errorf("xdp: the program was never attached: %w", link.ErrDetached)
	}
	if err := p.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// OnLost has f called when Check begins to return an error, by the goroutine that finds that out. It must not wait.
func (p *Program) OnLost(f func()) { p.onLost.Store(&f) }

// Claim takes the flow's packets from the kernel, from the next packet on. A flow may be claimed several times; as many releases end
// it. Errors: ErrFull, and arguments that cannot be, by name.
func (p *Program) Claim(f Flow) error {
	k, err := keyOf(f)
	if err != nil {
		return err
	}
	if !slices.Contains(p.options.protocols, f.Protocol) {
		return fmt.Errorf("xdp: claim: Protocol %d: this program takes %v", f.Protocol, p.options.protocols)
	}
	if err := p.insert(k); err != nil {
		return fmt.Errorf("xdp: claim %v: %w", f, err)
	}
	return nil
}

// Release gives the flow back to the kernel. Error: ErrNoClaim.
func (p *Program) Release(f Flow) error {
	k, err := keyOf(f)
	if err != nil {
		return err
	}
	if err := p.remove(k); err != nil {
		return fmt.Errorf("xdp: release %v: %w", f, err)
	}
	return nil
}

// AddAddr makes known that an address is one of ours: flows claimed on all addresses are taken to it. vlan is that of the frames' tag, 0
// for none. Error: ErrFull.
func (p *Program) AddAddr(a netip.Addr, vlan uint16) error {
	k, err := addressKey(a, vlan)
	if err != nil {
		return err
	}
	if err := p.insert(k); err != nil {
		return fmt.Errorf("xdp: address %v: %w", a, err)
	}
	return nil
}

// RemoveAddr takes back an AddAddr. Error: ErrNoClaim.
func (p *Program) RemoveAddr(a netip.Addr, vlan uint16) error {
	k, err := addressKey(a, vlan)
	if err != nil {
		return err
	}
	if err := p.remove(k); err != nil {
		return fmt.Errorf("xdp: address %v: %w", a, err)
	}
	return nil
}

// insert claims an entry: the first claim of a key puts it into the flow map, a further one is only counted. Errors: ErrFull, link.ErrClosed.
func (p *Program) insert(k key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return link.ErrClosed
	}
	if p.claims[k] == 0 && !p.passed.entries[k] {
		if err := p.flows.Put(k[:], redirectFlow); errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM) {
			return fmt.Errorf("%w (%d entries)", ErrFull, p.options.flows)
		} else if err != nil {
			return err
		}
		// After the entry is in the map: a program that sees the bit of the kind then finds the entry.
		if err := p.count(k, 1); err != nil {
			_ = p.flows.Delete(k[:]) // it was just put there
			return err
		}
	}
	p.claims[k]++
	return nil
}

// count notes that an entry was added to the flow map (by 1) or deleted (by -1): it updates the bits of kinds and the entry's slot in the
// front, and writes the front to its map if it changed. On an error nothing is noted.
func (p *Program) count(k key, by int) error {
	kind, before := k.kind(), p.first
	p.each[kind] += by
	p.first.kinds &^= kind
	if p.each[kind] > 0 {
		p.first.kinds |= kind
	}
	if x, slot := &p.passed, k.slot(); by > 0 && x.inSlot[slot] > 0 {
		if k.kind().isInFront() && x.evicted[slot] == (key{}) {
			x.evicted[slot] = k
		}
	} else if by > 0 {
		p.first.add(k)
	} else {
		p.first.remove(k)
	}
	if p.first == before {
		return nil
	}
	if err := p.front.Put(uint32(0), p.first.bytes()); err != nil {
		p.each[kind] -= by
		p.first = before
		return err
	}
	return nil
}

// remove takes back one claim of an entry: the last one deletes the entry from the flow map. Errors: ErrNoClaim, link.ErrClosed.
func (p *Program) remove(k key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := p.claims[k]; {
	case p.closed:
		return link.ErrClosed
	case n == 0:
		return ErrNoClaim
	case n > 1:
		p.claims[k] = n - 1
		return nil
	}
	if p.passed.entries[k] { // its entry stays
		delete(p.claims, k)
		return nil
	}
	if err := p.flows.Delete(k[:]); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	delete(p.claims, k)
	if e := &p.passed.evicted[k.slot()]; *e == k {
		*e = key{}
	}
	return p.count(k, -1)
}

// setSocket makes a socket the one of a queue. The kernel takes it out when the socket is closed.
func (p *Program) setSocket(queue, fd int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return link.ErrClosed
	}
	return p.sockets.Put(uint32(queue), uint32(fd))
}

// clearSocket lets a queue's packets go on to the kernel again.
func (p *Program) clearSocket(queue int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil // no map, nothing is steered
	}
	if err := p.sockets.Delete(uint32(queue)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// Counters appends the program's counters: every packet that reached the interface's queues is in exactly one.
func (p *Program) Counters(dst []link.Counter) []link.Counter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return dst
	}
	return bpf.Counters(dst, p.counts, countNames[:])
}

// Close detaches the program: the kernel has the interface's traffic back at once.
func (p *Program) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return link.ErrClosed
	}
	attached.remove(p)
	var err error
	p.linkMu.Lock()
	if p.link != nil {
		err = p.link.Close()
		p.link = nil
	}
	p.linkMu.Unlock()
	if p.program != nil {
		err = errors.Join(err, p.program.Close())
	}
	for _, m := range []*ebpf.Map{p.flows, p.front, p.sockets, p.counts} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}
