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
	d.moveTies(p.On, old, p.host)
}

// moveTies is renumber for an interface by its name and numbers.
func (d *driver) moveTies(name string, old, now int) {
	if now == old || old == 0 {
		return
	}
	if d.aliases == nil {
		d.aliases = map[int]int{}
	}
	for from, to := range d.aliases {
		if to == old {
			d.aliases[from] = now
		}
	}
	d.aliases[old] = now
	d.table.each(func(e *entry) {
		if err := d.rejoin(e, name, old, now); err != nil {
			e.reasons = append(e.reasons, ring.Reason{Code: "link.not_joined",
				Text: "after " + name + " was made again: " + err.Error()})
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
func (d *driver) rejoin(e *entry, name string, old, now int) (err error) {
	fd := e.s.Handle().FD
	touched := false
	if d.present(e.s.Device()) == now && e.s.Device() != 0 {
		touched = true
		err = errors.Join(err, unix.BindToDevice(fd, name))
	}
	for _, g := range e.groups {
		if g.iface != uint32(old) {
			continue
		}
		touched = true
		fd, kept := e.descriptor(g)
		_ = membership(fd, g, false) // the kernel keeps the entry of an interface that is gone, and it counts
		g.iface = uint32(now)
		if kept != nil {
			*kept = g
		}
		err = errors.Join(err, membership(fd, g, true))
	}
	e.s.Settings().Renumber(old, now)
	if !touched || !e.own {
		return err
	}
	return errors.Join(err, d.Changed(e.s))
}
