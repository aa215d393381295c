package offload

import (
	"maps"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// otherSockets is what the exchange's watcher knows of other sockets of this host.
type otherSockets struct {
	watcher *shadow.GroupWatcher // nil without a kernel
	known   *shadow.OtherSockets
	version uint64 // that known is of
}

// hasNews reports whether the watcher has found something since read.
func (o *otherSockets) hasNews() bool { return o.watcher != nil && o.watcher.Version() != o.version }

// read is what the watcher knows now. It may be of a later version than the one that is noted, which is then read again.
func (o *otherSockets) read() *shadow.OtherSockets {
	o.version = o.watcher.Version()
	return o.watcher.OtherSockets()
}

// publishMembers tells the exchange's watcher which groups a socket has joined, so that it looks for other members of them on this host.
func (d *driver) publishMembers(e *entry) {
	if w := d.others.watcher; w != nil {
		e.groups.Publish(w, d.keyOf(e), d.nics.CurrentIndex, d.joinedGroups(e))
	}
}

// publishMember is publishMembers for one group that was joined or left.
func (d *driver) publishMember(e *entry, g shadow.Group) {
	if w := d.others.watcher; w != nil {
		e.groups.PublishGroup(w, d.keyOf(e), d.nics.CurrentIndex, d.joinedGroups(e), g)
	}
}

// isShared reports whether other sockets of this host are members of a group of the socket as well.
func (d *driver) isShared(e *entry, g shadow.Group) bool {
	return d.others.known.IsShared(g, e.s.LocalAddr().Port(), d.nics.CurrentIndex)
}

// sharesGroup reports whether any of the socket's groups has other members on this host.
func (d *driver) sharesGroup(e *entry) bool {
	return d.anyGroup(e, func(g shadow.Group) bool { return d.isShared(e, g) })
}

// leavesGroupToKernel reports whether a group is not claimed because other sockets of the host are its members too, or because macvlans and the
// like on its interface may have members. A socket with RequireOffload claims it all the same.
func (d *driver) leavesGroupToKernel(e *entry, g shadow.Group) bool {
	return (d.isShared(e, g) || d.nics.StackedOn(int(g.IfIndex)) != "") && !ring.ConfigOf(e.s).RequireOffload
}

var (
	sharedGroup = ring.Reason{Code: "mcast.shared", Text: "other sockets of this host are members of a group too, on its port: the kernel " +
		"gives its datagrams to all, because a frame that is redirected does not reach them"}
	keptGroup = ring.Reason{Code: "mcast.kept", Text: "other sockets of this host are members of a group too, on its port: they do not " +
		"hear what comes by an offloaded interface, because this socket requires offload"}
)

// groupReasons are the reasons in a socket's path for groups with other members on this host.
func (d *driver) groupReasons(e *entry) (list []ring.Reason) {
	w := d.others.watcher
	if w == nil || !d.hasGroups(e) {
		return nil
	}
	if d.sharesGroup(e) {
		if ring.ConfigOf(e.s).RequireOffload {
			list = append(list, keptGroup)
		} else {
			list = append(list, ring.Reason{Code: sharedGroup.Code, Text: sharedGroup.Text + w.Inexact()})
		}
	}
	if err := w.Why(); err != nil {
		list = append(list, ring.Reason{Code: "mcast.unknown", Text: "whether other sockets of this host are members of its groups, and do not " +
			"hear them, cannot be known: " + err.Error()})
	}
	return list
}

// leavesAllToKernel reports whether no flow of the socket is claimed, because each is left to the kernel: the socket's path is the kernel then.
func (d *driver) leavesAllToKernel(e *entry) bool {
	isGroups := e.s.LocalAddr().Addr().IsMulticast() // its address is a group's: it has no port of its own to leave
	if isGroups && !d.hasGroups(e) || !isGroups && !d.leavesPortToKernel(e) {
		return false
	}
	return !d.anyGroup(e, func(g shadow.Group) bool { return !d.leavesGroupToKernel(e, g) })
}

// reviewOtherSockets is called when the exchange's watcher has found something new of other sockets of this host: groups and ports that they
// share with ours, groups that they receive. Claims and routes follow, and sockets whose path has changed receive PATH.
func (d *driver) reviewOtherSockets() {
	before, now := d.others.known, d.others.read()
	if d.others.known = now; !maps.Equal(before.Received, now.Received) {
		d.reviewSends(before)
	}
	// What is claimed for a socket depends on both: on its port, then on its groups.
	d.others.known = &shadow.OtherSockets{Shared: before.Shared, Received: now.Received, Ports: now.Ports}
	if !maps.Equal(before.Ports, now.Ports) {
		d.reviewPorts(before)
	}
	if maps.Equal(before.Shared, now.Shared) {
		d.others.known = now
		return
	}
	older := d.others.known
	d.table.each(func(e *entry) { // sharesGroup and leavesAllToKernel read d.others: it is set to the state that is asked for
		if !d.hasGroups(e) {
			return
		}
		d.others.known = older
		was := d.sharesGroup(e)
		all := d.leavesAllToKernel(e)
		d.others.known = now
		is := d.sharesGroup(e)
		if !was && !is {
			return
		}
		d.updateClaims(e)
		if was != is || all != d.leavesAllToKernel(e) {
			d.paths.note(e)
		}
	})
	d.others.known = now
	d.shadows.LookSoon()
	d.stats.PathChanges++
}

// stackedReasons are the reasons in a socket's path for groups that are left to the kernel because macvlans and the like stand on their
// interface.
func (d *driver) stackedReasons(e *entry) (list []ring.Reason) {
	for g := range d.joinedGroups(e) {
		names := d.nics.StackedOn(int(g.IfIndex))
		if names == "" {
			continue
		}
		r := ring.Reason{Code: "mcast.child", Text: "the kernel gives groups to what stands on their interface too, which a frame that is " +
			"redirected does not reach: " + names}
		if ring.ConfigOf(e.s).RequireOffload {
			r = ring.Reason{Code: "mcast.kept", Text: "what stands on the interface of a group does not receive what comes for it, because this " +
				"socket requires offload: " + names}
		}
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}
