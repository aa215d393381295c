package offload

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
)

// foreigners are members of our groups that are not sockets of the exchange: other programs', and this one's on kernel rings. A frame that is
// redirected does not reach them, and it cannot be at both: so a group that they are members of, on a port that they are bound to, is left to
// the kernel, which gives each datagram to all, our shadows among them. (With VMA they hear nothing.)
//
// The kernel tells nobody when a socket joins a group that others have joined before. So it is asked, on a goroutine of its own: how many
// sockets are members of each group that ours have joined, and, where those are more than ours, which ports they are bound to.
type foreigners struct {
	version atomic.Uint64
	now     atomic.Pointer[foreignGroups]

	mu      sync.Mutex
	own     map[memberKey]holding
	look    chan struct{} // to look at once; nil while nobody does
	end     chan struct{}
	ended   chan struct{}
	unknown error // why it cannot be known
	limit   error // why more may be taken for members than are
}

// foreignGroups are those that are shared with foreign members. It is never changed.
type foreignGroups map[groupFlow]struct{}

// groupFlow is a group and port on an interface.
type groupFlow struct {
	host.GroupOn
	port uint16
}

// memberKey is a socket of the exchange: driver and slot.
type memberKey struct {
	driver int
	slot   uint32
}

// holding is what one has joined, with how many descriptors; under the lock once it was noted.
type holding struct {
	inode  uint64
	port   uint16
	groups map[host.GroupOn]int
}

// lookForeign is how often the kernel is asked while sockets have groups: some ten microseconds of another processor, more where foreign members
// are and many sockets.
const lookForeign = 250 * time.Millisecond

// lookAgain is after what time news are looked at once more: a socket of ours may have joined and not be noted yet.
const lookAgain = 2 * time.Millisecond

// note says what a socket of ours has joined now; nothing: that it has left, or is gone. The exchange's drivers are woken when it matters.
func (f *foreigners) note(x *Exchange, k memberKey, h holding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(h.groups) == 0 {
		delete(f.own, k)
		return
	}
	if f.own == nil {
		f.own = map[memberKey]holding{}
	}
	f.own[k] = h
	f.lookSoon(x)
}

// noteGroup is note when one group of a socket that was noted has another number of descriptors.
func (f *foreigners) noteGroup(x *Exchange, k memberKey, on host.GroupOn, descriptors int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.own[k]
	switch {
	case !ok: // cannot be
		return
	case descriptors == 0:
		delete(h.groups, on)
	default:
		h.groups[on] = descriptors
	}
	f.lookSoon(x)
}

// lookSoon has who looks look at the news. Under the lock.
func (f *foreigners) lookSoon(x *Exchange) {
	if f.look == nil {
		f.begin(x)
	}
	select {
	case f.look <- struct{}{}:
	default:
	}
}

// begin starts looking, in the network namespace of the calling thread, whose sockets they are.
func (f *foreigners) begin(x *Exchange) {
	files, err := host.OpenMembers()
	if f.unknowable(err); err != nil {
		return // the next who joins tries again
	}
	f.limit = files.Limit()
	f.look, f.end, f.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go f.run(x, files, f.look, f.end, f.ended)
}

// unknowable notes whether foreign members can be known now; sockets say so.
func (f *foreigners) unknowable(err error) {
	if (err == nil) != (f.unknown == nil) {
		f.version.Add(1)
	}
	f.unknown = err
}

// forget takes a driver's sockets out. When none is left nobody looks any more, and it waits for who does: what was known holds no longer, and
// drivers that are left must not go on with it.
func (f *foreigners) forget(x *Exchange, driver int) {
	f.mu.Lock()
	maps.DeleteFunc(f.own, func(k memberKey, _ holding) bool { return k.driver == driver })
	end, ended := f.end, f.ended
	if len(f.own) > 0 || end == nil {
		f.mu.Unlock()
		return
	}
	f.look, f.end, f.ended = nil, nil, nil
	news := f.now.Swap(nil) != nil || f.unknown != nil
	f.unknown = nil
	if news {
		f.version.Add(1)
	}
	f.mu.Unlock()
	close(end)
	<-ended
	if news {
		x.wake()
	}
}

func (f *foreigners) run(x *Exchange, files *host.Members, look, end, ended chan struct{}) {
	defer close(ended)
	defer files.Close() // they are only read
	tick := time.NewTicker(lookForeign)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-look:
			time.Sleep(lookAgain) // many groups may be joined one after the other
		case <-tick.C:
		}
		found, err := f.find(files)
		if err == nil && !maps.Equal(found, f.shared()) {
			time.Sleep(lookAgain)
			found, err = f.confirm(files, found)
		}
		before := f.version.Load()
		if !f.publish(end, found, err) {
			return
		}
		if f.version.Load() != before {
			x.wake()
		}
	}
}

// confirm looks once more: new ones count if they are there both times, others go.
func (f *foreigners) confirm(files *host.Members, found foreignGroups) (foreignGroups, error) {
	again, err := f.find(files)
	maps.DeleteFunc(again, func(g groupFlow, _ struct{}) bool {
		_, here := found[g]
		_, before := f.shared()[g]
		return !here && !before
	})
	return again, err
}

// publish tells the drivers, if there is news; false: nobody looks any more. What could not be read is read again at the next look, and until
// then what was known holds.
func (f *foreigners) publish(end chan struct{}, found foreignGroups, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != end {
		return false // another one may look by now
	}
	if f.unknowable(err); err == nil && !maps.Equal(found, f.shared()) {
		f.now.Store(&found)
		f.version.Add(1)
	}
	return true
}

// shared are the groups that foreign members are known to have; any goroutine.
func (f *foreigners) shared() foreignGroups {
	if g := f.now.Load(); g != nil {
		return *g
	}
	return nil
}

// why is why foreign members cannot be known, if so.
func (f *foreigners) why() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unknown
}

// inexact is foreignReasons' for a group that is shared: why it may be so without need; empty when it is not.
func (f *foreigners) inexact() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limit == nil {
		return ""
	}
	return "; sockets of IPv6 alone and of other interfaces count as members, because they cannot be told: " + f.limit.Error()
}

// find asks the kernel.
func (f *foreigners) find(files *host.Members) (foreignGroups, error) {
	ours, inodes, flows := map[host.GroupOn]int{}, map[uint64]bool{}, []groupFlow(nil)
	f.mu.Lock()
	for _, h := range f.own {
		inodes[h.inode] = true
		for g, n := range h.groups {
			ours[g] += n
			flows = append(flows, groupFlow{g, h.port})
		}
	}
	f.mu.Unlock()
	found := foreignGroups{}
	if len(flows) == 0 {
		return found, nil
	}
	users, err := files.Users()
	if err != nil {
		return nil, err
	}
	flows = slices.DeleteFunc(flows, func(g groupFlow) bool { return users[g.GroupOn] <= ours[g.GroupOn] })
	if len(flows) == 0 {
		return found, nil
	}
	bound, err := files.Bound()
	if err != nil {
		return nil, err
	}
	for _, g := range flows {
		if slices.ContainsFunc(bound, func(b host.Bound) bool {
			return b.Port == g.port && (b.Local == [4]byte{} || b.Local == g.Group) && (b.Interface == 0 || b.Interface == g.Interface) &&
				!inodes[b.Inode]
		}) {
			found[g] = struct{}{}
		}
	}
	return found, nil
}

// wake ends the rest of all drivers.
func (x *Exchange) wake() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range x.members {
		if d.resting.Load() {
			d.Wake()
		}
	}
}

// tellMembers notes what a socket has joined.
func (d *driver) tellMembers(e *entry) {
	x := d.config.Exchange
	if x == nil || len(e.groups) == 0 && !e.noted {
		return
	}
	h := holding{port: e.s.LocalAddr().Port(), inode: e.inode(), groups: map[host.GroupOn]int{}}
	fds := e.descriptors()
	type membership struct {
		on host.GroupOn
		fd int
	}
	seen := map[membership]bool{}
	for _, g := range e.groups {
		m := membership{host.GroupOn{Group: g.addr, Interface: uint32(d.present(int(g.iface)))}, e.s.Handle().FD}
		if fd, ok := fds[g]; ok {
			m.fd = fd
		}
		if !seen[m] { // sources of a group on one descriptor are one membership
			seen[m] = true
			h.groups[m.on]++
		}
	}
	e.noted = len(e.groups) > 0
	x.foreign.note(x, memberKey{d.number, e.slot}, h)
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
	on := host.GroupOn{Group: g.addr, Interface: uint32(d.present(int(g.iface)))}
	var fds []int
	for _, y := range e.groups {
		if y.addr != g.addr || uint32(d.present(int(y.iface))) != on.Interface {
			continue
		}
		if fd, _ := e.descriptor(y); !slices.Contains(fds, fd) {
			fds = append(fds, fd)
		}
	}
	x.foreign.noteGroup(x, memberKey{d.number, e.slot}, on, len(fds))
}

// inode is the shadow's, as the kernel lists it.
func (e *entry) inode() uint64 {
	var s unix.Stat_t
	if unix.Fstat(e.s.Handle().FD, &s) != nil {
		return 0
	}
	return s.Ino
}

// forgetMembers is tellMembers for a socket that goes.
func (d *driver) forgetMembers(e *entry) {
	if e.noted {
		d.config.Exchange.foreign.note(d.config.Exchange, memberKey{d.number, e.slot}, holding{})
	}
}

// foreignTo tells whether a group of the socket has foreign members as well.
func (d *driver) foreignTo(e *entry, g group) bool {
	if len(d.shared) == 0 {
		return false
	}
	_, ok := d.shared[groupFlow{host.GroupOn{Group: g.addr, Interface: uint32(d.present(int(g.iface)))}, e.s.LocalAddr().Port()}]
	return ok
}

// cedes tells whether a group is left to the kernel for its foreign members: not by sockets that must be offloaded.
func (d *driver) cedes(e *entry, g group) bool {
	return d.foreignTo(e, g) && !e.s.Config().RequireOffload
}

var (
	sharedGroup = ring.Reason{Code: "mcast.shared", Text: "other sockets of this host are members of a group too, on its port: the kernel " +
		"gives its datagrams to all, because a frame that is redirected does not reach them"}
	keptGroup = ring.Reason{Code: "mcast.kept", Text: "other sockets of this host are members of a group too, on its port: they do not " +
		"hear what comes by an offloaded interface, because this socket requires offload"}
)

// foreignReasons are what a socket's path says of foreign members.
func (d *driver) foreignReasons(e *entry) (list []ring.Reason) {
	x := d.config.Exchange
	if x == nil || len(e.groups) == 0 {
		return nil
	}
	if slices.ContainsFunc(e.groups, func(g group) bool { return d.foreignTo(e, g) }) {
		if e.s.Config().RequireOffload {
			list = append(list, keptGroup)
		} else {
			list = append(list, ring.Reason{Code: sharedGroup.Code, Text: sharedGroup.Text + x.foreign.inexact()})
		}
	}
	if err := x.foreign.why(); err != nil {
		list = append(list, ring.Reason{Code: "mcast.unknown", Text: "whether other sockets of this host are members of its groups, and do not " +
			"hear them, cannot be known: " + err.Error()})
	}
	return list
}

// ceded tells whether all that the socket wants is left to the kernel.
func (d *driver) ceded(e *entry) bool {
	return e.s.LocalAddr().Addr().IsMulticast() && len(e.groups) > 0 &&
		!slices.ContainsFunc(e.groups, func(g group) bool { return !d.cedes(e, g) })
}

// reviewForeign takes over what is known of foreign members: claims are given back and made, and sockets are told whose way has changed.
func (d *driver) reviewForeign() {
	f := &d.config.Exchange.foreign
	d.sharedAt = f.version.Load()
	before, now := d.shared, f.shared()
	if maps.Equal(before, now) {
		return
	}
	d.table.each(func(e *entry) {
		if !e.own || len(e.groups) == 0 {
			return
		}
		d.shared = before
		was := slices.ContainsFunc(e.groups, func(g group) bool { return d.foreignTo(e, g) })
		all := d.ceded(e)
		d.shared = now
		is := slices.ContainsFunc(e.groups, func(g group) bool { return d.foreignTo(e, g) })
		if !was && !is {
			return
		}
		d.reclaim(e)
		if was != is || all != d.ceded(e) {
			e.moved, d.moved = true, true
		}
	})
	d.shared = now
	d.shadow.now = true
	d.stats.PathChanges++
}
