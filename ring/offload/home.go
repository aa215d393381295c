package offload

import "slices"

// homeOf is the interface that a socket names by its device or its address; 0 for wildcards, groups, and addresses of no interface of the
// ring, which packets may reach by any of them.
func (d *driver) homeOf(e *entry) int {
	index := d.present(e.s.Device())
	if index == 0 {
		index, _ = d.snapshot().Local(e.s.LocalAddr().Addr())
	}
	if !d.isLink(index) {
		return 0
	}
	return index
}

// uses tells whether the socket's packets come by the part: what happens to other interfaces is no news to it.
func (d *driver) uses(e *entry, p *part) bool { return d.isOn(e, p.host) }

// isOn tells whether the socket's packets come by the interface.
func (d *driver) isOn(e *entry, index int) bool {
	switch {
	case e.home != 0:
		return d.present(e.home) == index
	case len(e.groups) > 0:
		return slices.ContainsFunc(e.groups, func(g group) bool { return d.present(int(g.iface)) == index })
	}
	return true
}

// concerned tells whether a way of the socket's packets has changed.
func (d *driver) concerned(e *entry) bool {
	return slices.ContainsFunc(d.parts, func(p *part) bool { return p.moved && d.uses(e, p) }) ||
		slices.ContainsFunc(d.bonds, func(b *bond) bool { return b.moved && d.isOn(e, b.host) })
}
