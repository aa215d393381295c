package offload

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// renumber follows an interface that was deleted and made again: it has the same name and another number. The kernel forgot the
// memberships and ties of its sockets with the old one; they are made again on the new, or the socket's path says why not.
func (d *driver) renumber(p *part, old int) {
	d.shadow.first = claimTurns // what the kernel still has is older
	if p.host == old || old == 0 {
		return
	}
	if d.aliases == nil {
		d.aliases = map[int]int{}
	}
	for from, to := range d.aliases {
		if to == old {
			d.aliases[from] = p.host
		}
	}
	d.aliases[old] = p.host
	d.table.each(func(e *entry) {
		if err := d.rejoin(e, p, old); err != nil {
			e.reasons = append(e.reasons, ring.Reason{Code: "link.not_joined",
				Text: "after " + p.Name + " was made again: " + err.Error()})
		}
	})
}

// present is the number that an interface has now.
func (d *driver) present(index int) int {
	if now, ok := d.aliases[index]; ok {
		return now
	}
	return index
}

// rejoin makes one socket's ties to the interface anew.
func (d *driver) rejoin(e *entry, p *part, old int) (err error) {
	fd := e.s.Handle().FD
	touched := false
	if d.present(e.s.Device()) == p.host && e.s.Device() != 0 {
		touched = true
		err = errors.Join(err, unix.BindToDevice(fd, p.On))
	}
	for _, g := range e.groups {
		if g.iface != uint32(old) {
			continue
		}
		touched = true
		fd, kept := e.descriptor(g)
		_ = membership(fd, g, false) // the kernel keeps the entry of an interface that is gone, and it counts
		g.iface = uint32(p.host)
		if kept != nil {
			*kept = g
		}
		err = errors.Join(err, membership(fd, g, true))
	}
	e.s.Settings().Renumber(old, p.host)
	if !touched || !e.own {
		return err
	}
	return errors.Join(err, d.Changed(e.s))
}
