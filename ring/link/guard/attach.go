package guard

import (
	"errors"

	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// attachment is how a program is on an interface.
type attachment interface {
	isAttached() bool
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
func (t *tcx) isAttached() bool {
	info, err := t.Info()
	if err != nil {
		return false
	}
	x := info.TCX()
	return x != nil && int(x.Ifindex) == t.index
}

func (t *tcx) detach() error { return t.Close() }

// now is the time that programs read with bpf_ktime_get_ns.
func now() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it does not fail for this clock
	return uint64(ts.Nano())
}
