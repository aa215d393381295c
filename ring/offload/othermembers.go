package offload

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// tellMembers notes what a socket has joined.
func (d *driver) tellMembers(e *entry) {
	x := d.config.Exchange
	if x == nil || len(e.groups) == 0 && !e.noted {
		return
	}
	j := shadow.Joined{Port: e.s.LocalAddr().Port(), Inode: e.inode(), Groups: map[host.GroupOn]int{}}
	fds := e.descriptors()
	type membership struct {
		on host.GroupOn
		fd int
	}
	seen := map[membership]bool{}
	for _, g := range e.groups {
		m := membership{host.GroupOn{Group: g.addr, Interface: uint32(d.nics.Present(int(g.iface)))}, kernel.FD(e.s)}
		if fd, ok := fds[g]; ok {
			m.fd = fd
		}
		if !seen[m] { // sources of a group on one descriptor are one membership
			seen[m] = true
			j.Groups[m.on]++
		}
	}
	e.noted = len(e.groups) > 0
	x.watcher.SetJoined(d.keyOf(e), j)
}

// tellMember is tellMembers when one group was joined or left.
func (d *driver) tellMember(e *entry, g group) {
	x := d.config.Exchange
	if x == nil {
		return
	}
	if !e.noted || len(e.groups) == 0 {
		d.tellMembers(e)
		return
	}
	on := host.GroupOn{Group: g.addr, Interface: uint32(d.nics.Present(int(g.iface)))}
	var fds []int
	for _, y := range e.groups {
		if y.addr != g.addr || uint32(d.nics.Present(int(y.iface))) != on.Interface {
			continue
		}
		if fd, _ := e.descriptor(y); !slices.Contains(fds, fd) {
			fds = append(fds, fd)
		}
	}
	x.watcher.SetGroup(d.keyOf(e), on, len(fds))
}

// inode is the shadow's, as the kernel lists it.
func (e *entry) inode() uint64 {
	var s unix.Stat_t
	if unix.Fstat(kernel.FD(e.s), &s) != nil {
		return 0
	}
	return s.Ino
}

// forgetMembers is tellMembers for a socket that goes.
func (d *driver) forgetMembers(e *entry) {
	if e.noted {
		d.config.Exchange.watcher.SetJoined(d.keyOf(e), shadow.Joined{})
	}
}

// isShared tells whether other sockets of this host are members of a group of the socket as well.
func (d *driver) isShared(e *entry, g group) bool {
	if len(d.news.Shared) == 0 {
		return false
	}
	on := host.GroupOn{Group: g.addr, Interface: uint32(d.nics.Present(int(g.iface)))}
	_, ok := d.news.Shared[shadow.GroupFlow{GroupOn: on, Port: e.s.LocalAddr().Port()}]
	return ok
}

// cedes tells whether a group is left to the kernel for its other members or for what stands on its interface: not by sockets that must be
// offloaded.
func (d *driver) cedes(e *entry, g group) bool {
	return (d.isShared(e, g) || d.nics.StackedOn(int(g.iface)) != "") && !e.s.Config().RequireOffload
}

var (
	sharedGroup = ring.Reason{Code: "mcast.shared", Text: "other sockets of this host are members of a group too, on its port: the kernel " +
		"gives its datagrams to all, because a frame that is redirected does not reach them"}
	keptGroup = ring.Reason{Code: "mcast.kept", Text: "other sockets of this host are members of a group too, on its port: they do not " +
		"hear what comes by an offloaded interface, because this socket requires offload"}
)

// groupReasons are what a socket's path says of other members.
func (d *driver) groupReasons(e *entry) (list []ring.Reason) {
	x := d.config.Exchange
	if x == nil || len(e.groups) == 0 {
		return nil
	}
	if slices.ContainsFunc(e.groups, func(g group) bool { return d.isShared(e, g) }) {
		if e.s.Config().RequireOffload {
			list = append(list, keptGroup)
		} else {
			list = append(list, ring.Reason{Code: sharedGroup.Code, Text: sharedGroup.Text + x.watcher.Inexact()})
		}
	}
	if err := x.watcher.Why(); err != nil {
		list = append(list, ring.Reason{Code: "mcast.unknown", Text: "whether other sockets of this host are members of its groups, and do not " +
			"hear them, cannot be known: " + err.Error()})
	}
	return list
}

// ceded tells whether all that the socket wants is left to the kernel.
func (d *driver) ceded(e *entry) bool {
	if !e.s.LocalAddr().Addr().IsMulticast() {
		return d.cedesPort(e) && !slices.ContainsFunc(e.groups, func(g group) bool { return !d.cedes(e, g) })
	}
	return len(e.groups) > 0 &&
		!slices.ContainsFunc(e.groups, func(g group) bool { return !d.cedes(e, g) })
}

// reviewNews follows what is known of other sockets of this host: claims are given back and made, routes are made again, and sockets are told
// whose path has changed.
func (d *driver) reviewNews() {
	f := d.config.Exchange.watcher
	d.newsAt = f.Version()
	before, now := d.news, f.News()
	if d.news = now; !maps.Equal(before.Received, now.Received) {
		d.reviewSends(before)
	}
	// What is claimed for a socket depends on both: on its port, then on its groups.
	d.news = &shadow.News{Shared: before.Shared, Received: now.Received, Ports: now.Ports}
	if !maps.Equal(before.Ports, now.Ports) {
		d.reviewPorts(before)
	}
	if maps.Equal(before.Shared, now.Shared) {
		d.news = now
		return
	}
	older := d.news
	d.table.each(func(e *entry) {
		if !e.own || len(e.groups) == 0 {
			return
		}
		d.news = older
		was := slices.ContainsFunc(e.groups, func(g group) bool { return d.isShared(e, g) })
		all := d.ceded(e)
		d.news = now
		is := slices.ContainsFunc(e.groups, func(g group) bool { return d.isShared(e, g) })
		if !was && !is {
			return
		}
		d.reclaim(e)
		if was != is || all != d.ceded(e) {
			e.moved, d.moved = true, true
		}
	})
	d.news = now
	d.shadow.now = true
	d.stats.PathChanges++
}

// keyOf is the socket's name for other rings.
func (d *driver) keyOf(e *entry) shadow.Key { return shadow.Key{Ring: d.number, Slot: e.slot} }

// stackedReasons are what a socket's path says of groups that are left to the kernel for what stands on their interface.
func (d *driver) stackedReasons(e *entry) (list []ring.Reason) {
	for _, g := range e.groups {
		names := d.nics.StackedOn(int(g.iface))
		if names == "" {
			continue
		}
		r := ring.Reason{Code: "mcast.child", Text: "the kernel gives groups to what stands on their interface too, which a frame that is " +
			"redirected does not reach: " + names}
		if e.s.Config().RequireOffload {
			r = ring.Reason{Code: "mcast.kept", Text: "what stands on the interface of a group does not receive what comes for it, because this " +
				"socket requires offload: " + names}
		}
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}
