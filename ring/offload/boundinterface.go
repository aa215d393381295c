package offload

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// boundInterface is the interface that a socket is bound to by its device or its address; 0 for wildcards, groups, and addresses of no interface
// of the ring, which packets may reach by any of them.
func (d *driver) boundInterface(e *entry) int {
	index := d.nics.CurrentIndex(e.s.Device())
	if index == 0 {
		index, _ = d.below.snapshot().Local(e.s.LocalAddr().Addr())
	}
	if !d.nics.Has(index) {
		return 0
	}
	return index
}

// isOn reports whether packets for the socket can arrive by the interface: its own, that of one of its groups, or any if it is bound to none.
func (d *driver) isOn(e *entry, index int) bool {
	switch {
	case e.boundIf != 0:
		return d.nics.CurrentIndex(e.boundIf) == index
	case !d.hasGroups(e):
		return true
	}
	return d.anyGroup(e, func(g shadow.Group) bool { return d.nics.CurrentIndex(int(g.IfIndex)) == index })
}

// pathChanged reports whether the path of the socket's packets has changed: a change of another interface does not change it.
func (d *driver) pathChanged(e *entry) bool {
	return slices.ContainsFunc(d.paths.changed, func(ifIndex int) bool { return d.isOn(e, ifIndex) })
}
