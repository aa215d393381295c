package guard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/internal/bpf"
)

// ErrFull: the map has no room for one more entry.
var ErrFull = errors.New("guard: the map is full")

// ErrNoEntry: what should be released or changed has no entry.
var ErrNoEntry = errors.New("guard: no such entry")

// Config is how an interface is guarded. The zero value but for Index is good.
type Config struct {
	Index   int  // of the interface, in the calling thread's network namespace
	Entries int  // most connections, ports and addresses; 0 means 65,536
	Clsact  bool // attach by a clsact qdisc where TCX would do, too
}

const maxEntries = 1 << 24

// Guard keeps segments of our stack's connections away from the kernel on one interface. It ends with Close or with the process. Its methods are
// for any goroutine.
type Guard struct {
	config     Config
	entries    *ebpf.Map
	kinds      *ebpf.Map // one word: which kinds of entry there are
	counts     *ebpf.Map
	beat       *ebpf.Map // clsact: one time, which the process renews
	program    *ebpf.Program
	attachment attachment

	mu     sync.Mutex
	uses   map[key]int       // how often each port and address was claimed; 1 for a connection
	each   map[entryKind]int // entries of each kind
	closed bool
}

// Open puts a guard on an interface. It drops nothing yet. When it cannot, the error is a *link.Refusal with the reason's code.
func Open(c Config) (_ *Guard, err error) {
	if c.Entries == 0 {
		c.Entries = 1 << 16
	}
	switch {
	case c.Index <= 0:
		return nil, fmt.Errorf("guard: Index is %d, must be that of an interface", c.Index)
	case c.Entries < 1 || c.Entries > maxEntries:
		return nil, fmt.Errorf("guard: Entries is %d, must be 1 to %d", c.Entries, maxEntries)
	}
	// First, because this asks for no privilege: who has none learns what is wrong with the argument.
	if _, err := net.InterfaceByIndex(c.Index); err != nil {
		return nil, refuse(fmt.Errorf("interface %d: %w (%w)", c.Index, err, unix.ENODEV), "looking for the interface")
	}
	g := &Guard{config: c, uses: map[key]int{}, each: map[entryKind]int{}}
	defer func() {
		if err != nil {
			_ = g.Close()
		}
	}()
	for _, m := range []struct {
		at   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&g.entries, ebpf.MapSpec{Name: "xtreme_guarded", Type: ebpf.Hash, KeySize: keyBytes, ValueSize: valueBytes,
			MaxEntries: uint32(c.Entries), Flags: unix.BPF_F_NO_PREALLOC}},
		{&g.kinds, ebpf.MapSpec{Name: "xtreme_gkinds", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}},
		{&g.counts, ebpf.MapSpec{Name: "xtreme_gcounts", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(numCounts)}},
	} {
		if *m.at, err = ebpf.NewMap(&m.spec); err != nil {
			return nil, refuse(err, "creating the map "+m.spec.Name)
		}
	}
	return g, g.attach()
}

// Claim has the kernel not see the segments of a flow, from the next one on: of a connection all of them; of a port (no Remote) all but those of
// connections that the kernel has. A port may be claimed several times; as many releases end it. A connection has one entry, which Claim and
// Pass replace. Errors: ErrFull, and arguments that cannot be, by name.
func (g *Guard) Claim(f link.Flow) error {
	k, err := keyOf(f)
	if err != nil {
		return err
	}
	if k.kind() == kindConnection {
		return g.replace(k, value(verdictDrop, 0), "claim", f)
	}
	return g.add(k, value(verdictPort, never), "claim", f)
}

// Pass has the kernel see the segments of a connection on a claimed port. Errors: as Claim.
func (g *Guard) Pass(f link.Flow) error {
	k, err := keyOf(f)
	if err != nil {
		return err
	}
	if k.kind() != kindConnection {
		return fmt.Errorf("guard: pass %v: Remote is missing: only a connection is passed", f)
	}
	return g.replace(k, value(verdictPass, 0), "pass", f)
}

// AcceptAfter has SYNs of a claimed port dropped for so long, and then passed to the kernel: the path is away, and may come back before. A
// negative time has them dropped for good again, as Claim does. Error: ErrNoEntry.
func (g *Guard) AcceptAfter(f link.Flow, d time.Duration) error {
	k, err := keyOf(f)
	if err != nil {
		return err
	}
	if k.kind() == kindConnection {
		return fmt.Errorf("guard: accept on %v: Remote is set: SYNs are those of a port", f)
	}
	at := never
	if d >= 0 {
		at = now() + uint64(d)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return link.ErrClosed
	case g.uses[k] == 0:
		return fmt.Errorf("guard: accept on %v: %w", f, ErrNoEntry)
	}
	return wrap(g.entries.Put(k[:], value(verdictPort, at)), "accept on", f)
}

// Release ends a Claim or a Pass. Error: ErrNoEntry.
func (g *Guard) Release(f link.Flow) error {
	k, err := keyOf(f)
	if err != nil {
		return err
	}
	return wrap(g.remove(k), "release", f)
}

// AddAddr makes known that an address is one of ours: ports claimed on any address are guarded on it. vlan is that of the frames' tag, 0 for
// none. Error: ErrFull.
func (g *Guard) AddAddr(a netip.Addr, vlan uint16) error {
	k, err := addressKey(a, vlan)
	if err != nil {
		return err
	}
	return g.add(k, value(verdictAddress, 0), "address", a)
}

// RemoveAddr ends an AddAddr. Error: ErrNoEntry.
func (g *Guard) RemoveAddr(a netip.Addr, vlan uint16) error {
	k, err := addressKey(a, vlan)
	if err != nil {
		return err
	}
	return wrap(g.remove(k), "address", a)
}

// wrap adds to an error what was done and to which flow or address; nil stays nil.
func wrap(err error, what string, about any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("guard: %s %v: %w", what, about, err)
}

// replace writes the entry of a connection about, for the call what, over an earlier one if there is one: Claim and Pass replace each other.
func (g *Guard) replace(k key, v []byte, what string, about link.Flow) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return link.ErrClosed
	}
	return wrap(g.put(k, v, 1), what, about)
}

// add writes the entry of a port or an address about, for the call what, or counts one user more if the entry is there already.
func (g *Guard) add(k key, v []byte, what string, about any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return link.ErrClosed
	case g.uses[k] > 0:
		g.uses[k]++
		return nil
	}
	return wrap(g.put(k, v, 1), what, about)
}

// put writes an entry, notes its number of users, and counts a new entry for its kind. Error: ErrFull. The caller holds mu.
func (g *Guard) put(k key, v []byte, uses int) error {
	if err := g.entries.Put(k[:], v); errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("%w (%d entries)", ErrFull, g.config.Entries)
	} else if err != nil {
		return err
	}
	if g.uses[k] == 0 {
		// After the entry: a program that sees the kind finds the entry.
		if err := g.count(k.kind(), 1); err != nil {
			_ = g.entries.Delete(k[:]) // it was just put there
			return err
		}
	}
	g.uses[k] = uses
	return nil
}

// remove counts one user of an entry less, and deletes the entry with the last one. Errors: ErrNoEntry, link.ErrClosed.
func (g *Guard) remove(k key) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch n := g.uses[k]; {
	case g.closed:
		return link.ErrClosed
	case n == 0:
		return ErrNoEntry
	case n > 1:
		g.uses[k] = n - 1
		return nil
	}
	if err := g.entries.Delete(k[:]); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	delete(g.uses, k)
	return g.count(k.kind(), -1)
}

// count notes one entry of a kind more (by 1) or less (by -1). When that was the first or the last one it writes the kinds that have entries
// to the map that the program reads. On an error an entry more is not counted. One less is: the entry is gone, and the program looks in vain for
// others of its kind until the kinds are written again.
func (g *Guard) count(k entryKind, by int) error {
	before := g.each[k] > 0
	g.each[k] += by
	if after := g.each[k] > 0; before == after {
		return nil
	}
	var all entryKind
	for k, n := range g.each {
		if n > 0 {
			all |= k
		}
	}
	if err := g.kinds.Put(uint32(0), uint32(all)); err != nil {
		if by > 0 {
			g.each[k] -= by
		}
		return err
	}
	return nil
}

// Counters appends the guard's counters.
func (g *Guard) Counters(dst []link.Counter) []link.Counter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return dst
	}
	return bpf.Counters(dst, g.counts, countNames[:])
}

// Mode is how the guard is attached: "tcx" or "clsact".
func (g *Guard) Mode() string {
	if g.config.Clsact {
		return "clsact"
	}
	return "tcx"
}

// Check is nil while the guard is attached; link.ErrDetached for errors.Is when it was taken off or the interface is gone; another error when
// the kernel does not answer. It asks the kernel, and may wait for the lock of its configuration: it is not for Poll.
func (g *Guard) Check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return link.ErrClosed
	}
	is, err := g.attachment.isAttached()
	if err != nil {
		return fmt.Errorf("guard: asking whether the guard is on interface %d: %w", g.config.Index, err)
	}
	if !is {
		return fmt.Errorf("guard: the guard is no longer on interface %d: %w", g.config.Index, link.ErrDetached)
	}
	return nil
}

// Close takes the guard off: the kernel sees all segments again.
func (g *Guard) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return link.ErrClosed
	}
	g.closed = true
	var err error
	if g.attachment != nil {
		err = g.attachment.detach()
	}
	if g.program != nil {
		err = errors.Join(err, g.program.Close())
	}
	for _, m := range []*ebpf.Map{g.entries, g.kinds, g.counts, g.beat} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}
