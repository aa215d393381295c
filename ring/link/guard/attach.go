package guard

import (
	"errors"

	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
)

// attachment is how a program is on an interface.
type attachment interface {
	// isAttached is the kernel's answer. With an error it has not answered.
	isAttached() (bool, error)
	detach() error
}

// programName is that of the program, and of its filter.
const programName = "xtreme_guard"

// attach puts the program on the interface: as a link of TCX, or as a filter of a clsact qdisc where there is no TCX.
func (g *Guard) attach() error {
	if err := removeStale(g.config.Index); err != nil {
		return err
	}
	if !g.config.Clsact {
		err := g.attachTCX()
		if err == nil || !errors.Is(err, ebpf.ErrNotSupported) {
			return err
		}
		if err := g.program.Close(); err != nil {
			return err
		}
		g.config.Clsact = true
	}
	return g.attachClsact()
}

// The argument outlives of load.
const (
	endsWithProcess = false
	outlivesProcess = true
)

// load assembles and loads the program. A filter of a clsact qdisc outlives the process: its program (outlives) has a map with the time that
// the process renews, and passes everything once that time is old.
func (g *Guard) load(outlives bool) error {
	p := parameters{entries: g.entries.FD(), kinds: g.kinds.FD(), counts: g.counts.FD()}
	if outlives {
		var err error
		if g.beat, err = ebpf.NewMap(&ebpf.MapSpec{Name: beatName, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}); err != nil {
			return refuse(err, "creating the map "+beatName)
		}
		p.beat = g.beat.FD()
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: programName, Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: assemble(p)})
	if err != nil {
		return refuse(err, "loading the guard")
	}
	g.program = program
	return nil
}

// tcx is a link, which ends with its descriptor.
type tcx struct {
	bpflink.Link
	index int
}

// attachTCX attaches before the programs of others, which might end the chain.
func (g *Guard) attachTCX() error {
	if err := g.load(endsWithProcess); err != nil {
		return err
	}
	l, err := bpflink.AttachTCX(bpflink.TCXOptions{Interface: g.config.Index, Program: g.program, Attach: ebpf.AttachTCXIngress,
		Anchor: bpflink.Head()})
	if errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	if err != nil {
		return refuse(err, "attaching the guard")
	}
	g.attachment = &tcx{l, g.config.Index}
	return nil
}

// isAttached reports whether the kernel has the link on the interface. A link that was detached by force, or whose interface is gone, has none.
func (t *tcx) isAttached() (bool, error) {
	info, err := t.Info()
	if err != nil {
		return false, err
	}
	x := info.TCX()
	return x != nil && int(x.Ifindex) == t.index, nil
}

func (t *tcx) detach() error { return t.Close() }
