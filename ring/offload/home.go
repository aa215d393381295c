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
func (d *driver) uses(e *entry, p *part) bool {
	switch {
	case e.home != 0:
		return d.present(e.home) == p.host
	case len(e.groups) > 0:
		return slices.ContainsFunc(e.groups, func(g group) bool { return d.present(int(g.iface)) == p.host })
	}
	return true
}
