package offload

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// rejoin follows an interface that was deleted and made again: it has the same name and another number. The kernel forgot the
// memberships and ties of its sockets with the old one; a job makes them again on the new, or the socket's path says why not. Nil: there are none.
func (d *driver) rejoin(name string, old, now int) *nic.Job {
	var list []tie
	d.table.each(func(e *entry) { list = d.retie(e, name, old, now, list) })
	if len(list) == 0 {
		return nil
	}
	var before *nic.Job
	if n := len(d.ties); n > 0 {
		before = d.ties[n-1]
	}
	j := d.nics.Start(func() {
		if before != nil {
			before.Await() // one interface may be made again and again
		}
		for i := range list {
			list[i].make(name)
		}
	}, func() {
		for i := range list {
			d.tied(&list[i], name)
		}
	})
	d.ties = append(d.ties, j)
	return j
}

// collectTies finishes what has ended of that.
func (d *driver) collectTies() {
	for len(d.ties) > 0 && d.ties[0].HasEnded() {
		j := d.ties[0]
		d.ties = d.ties[1:]
		j.Finish()
	}
}

// awaitTies waits for all of it: a request for a membership must not overtake it. Not for Poll.
func (d *driver) awaitTies() {
	for _, j := range d.ties {
		j.Await()
	}
	d.collectTies()
}

// tie is what one socket's descriptor is to have of an interface that was made again: to be bound to it, or to be a member of a group on it.
// Binding and joining take the lock of the kernel's configuration, so a job does it, on a descriptor of its own: the socket may be closed
// meanwhile.
type tie struct {
	s     *ring.Socket
	fd    int
	group group // as it was joined; zero: the device
	now   int
	err   error
}

// make is the job's part.
func (t *tie) make(name string) {
	if t.err != nil {
		return
	}
	if t.group == (group{}) {
		t.err = unix.BindToDevice(t.fd, name)
	} else {
		_ = membership(t.fd, t.group, false) // the kernel keeps the entry of an interface that is gone, and it counts
		g := t.group
		g.iface = uint32(t.now)
		t.err = membership(t.fd, g, true)
	}
	t.err = errors.Join(t.err, unix.Close(t.fd))
}

// tied is the owner's: a socket says in its path what could not be had.
func (d *driver) tied(t *tie, name string) {
	e := d.table.of(t.s)
	if t.err == nil || e == nil || e.s != t.s {
		return
	}
	e.notJoined(name, t.err)
	e.moved, d.moved = true, true
}

func (e *entry) notJoined(name string, err error) {
	e.reasons = append(e.reasons, ring.Reason{Code: "link.not_joined", Text: "after " + name + " was made again: " + err.Error()})
}

// retie appends the ties of one socket to the interface to list, and makes the stack's what they will be.
func (d *driver) retie(e *entry, name string, old, now int, list []tie) []tie {
	add := func(fd int, g group) {
		t := tie{s: e.s, group: g, now: now}
		t.fd, t.err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		list = append(list, t)
	}
	before := len(list)
	if d.nics.Present(e.s.Device()) == now && e.s.Device() != 0 {
		add(kernel.FD(e.s), group{})
	}
	for _, g := range e.groups {
		if g.iface != uint32(old) {
			continue
		}
		fd, kept := e.descriptor(g)
		add(fd, g)
		if kept != nil {
			kept.iface = uint32(now)
		}
	}
	e.s.Settings().Renumber(old, now)
	if len(list) > before && e.own {
		if err := d.follow(e); err != nil {
			e.notJoined(name, err)
		}
	}
	return list
}
