package offload

import (
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// ties are the jobs that make again what sockets had of interfaces that were made again, in their order.
type ties []*nic.Job

// start starts a job behind those that were started before: one interface may be made again and again. finish runs on the owner's goroutine.
func (t *ties) start(nics *nic.Attachments, work, finish func()) *nic.Job {
	var before *nic.Job
	if n := len(*t); n > 0 {
		before = (*t)[n-1]
	}
	j := nics.Start(func() {
		if before != nil {
			before.Await()
		}
		work()
	}, finish)
	*t = append(*t, j)
	return j
}

// collect finishes the jobs that have ended.
func (t *ties) collect() {
	for len(*t) > 0 && (*t)[0].HasEnded() {
		j := (*t)[0]
		*t = (*t)[1:]
		j.Finish()
	}
}

// await waits for all jobs: a change of a membership must not overtake them. It blocks: Poll does not call it.
func (t *ties) await() {
	for _, j := range *t {
		j.Await()
	}
	t.collect()
}

// rejoin follows an interface that was deleted and made again: it has the same name and another number. The kernel forgot the
// memberships and ties of its sockets with the old one; a job makes them again on the new, or the socket's path says why not. Nil: there
// are none.
func (d *driver) rejoin(name string, old, now int) *nic.Job {
	var list []shadow.Tie
	d.table.each(func(e *entry) { list = d.retie(e, name, old, now, list) })
	if len(list) == 0 {
		return nil
	}
	return d.ties.start(d.nics, func() {
		for i := range list {
			list[i].Make(name)
		}
	}, func() {
		for i := range list {
			d.tied(&list[i], name)
		}
	})
}

// tied is the end of a job for one tie, on the owner's goroutine: the socket's path says what could not be made again.
func (d *driver) tied(t *shadow.Tie, name string) {
	e := d.table.of(t.Socket)
	if t.Err == nil || e == nil || e.s != t.Socket {
		return
	}
	e.notJoined(name, t.Err)
	d.paths.note(e)
}

// notJoined adds to the socket's path what could not be made again on an interface.
func (e *entry) notJoined(name string, err error) {
	e.reasons = append(e.reasons, ring.Reason{Code: "link.not_joined", Text: "after " + name + " was made again: " + err.Error()})
}

// retie appends to list what one socket had of the interface with the old index (its device, its memberships), for the job to make again, and
// changes the stack's tables to the new index at once.
func (d *driver) retie(e *entry, name string, old, now int, list []shadow.Tie) []shadow.Tie {
	before := len(list)
	// Device may be an index that the interface had before old: CurrentIndex knows them all.
	if d.nics.CurrentIndex(e.s.Device()) == now && e.s.Device() != 0 {
		list = append(list, shadow.DeviceTie(d.below.system.Kernel, e.s))
	}
	list = e.groups.Ties(list, d.joinedGroups(e), old, now)
	ring.OptionsOf(e.s).Renumber(old, now)
	if len(list) > before && e.inStack {
		if err := d.updateSocket(e); err != nil {
			e.notJoined(name, err)
		}
	}
	return list
}
