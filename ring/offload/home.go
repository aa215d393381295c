package offload

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// homeOf is the interface that a socket names by its device or its address; 0 for wildcards, groups, and addresses of no interface of the
// ring, which packets may reach by any of them.
func (d *driver) homeOf(e *entry) int {
	index := d.nics.Present(e.s.Device())
	if index == 0 {
		index, _ = d.snapshot().Local(e.s.LocalAddr().Addr())
	}
	if !d.nics.Has(index) {
		return 0
	}
	return index
}

// isOn reports whether the socket's packets come by the interface.
func (d *driver) isOn(e *entry, index int) bool {
	switch {
	case e.home != 0:
		return d.nics.Present(e.home) == index
	case len(e.groups.Groups()) > 0:
		return slices.ContainsFunc(e.groups.Groups(), func(g shadow.Group) bool { return d.nics.Present(int(g.IfIndex)) == index })
	}
	return true
}

// pathChanged reports whether the path of the socket's packets has changed: a change of another interface does not change it.
func (d *driver) pathChanged(e *entry) bool {
	return slices.ContainsFunc(d.changed, func(ifIndex int) bool { return d.isOn(e, ifIndex) })
}

func (d *driver) snapshot() *host.Snapshot {
	if d.config.MemoryHost != nil {
		return d.config.MemoryHost.own.Snapshot()
	}
	return d.config.Host.Snapshot()
}
