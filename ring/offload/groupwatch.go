package offload

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// foreigners are members of our groups that are not sockets of the exchange: other programs', and this one's on kernel rings. A frame that is
// redirected does not reach them, and it cannot be at both: so a group that they are members of, on a port that they are bound to, is left to
// the kernel, which gives each datagram to all, our shadows among them. (With VMA they hear nothing.)
//
// The kernel tells nobody when a socket joins a group that others have joined before. So it is asked, on a goroutine of its own: how many
// sockets are members of each group that ours have joined, and, where those are more than ours, which ports they are bound to.
type foreigners struct {
	version atomic.Uint64
	now     atomic.Pointer[memberNews]

	mu      sync.Mutex
	own     map[memberKey]holding
	sends   map[memberKey]sending
	ports   map[memberKey]portUse
	look    chan struct{} // to look at once; nil while nobody does
	end     chan struct{}
	ended   chan struct{}
	unknown error // why it cannot be known
	limit   error // why more may be taken for members than are
}

// foreignGroups are those that are shared with foreign members. It is never changed.
type foreignGroups map[groupFlow]struct{}

// memberNews is what was found of foreign members. It is never changed.
type memberNews struct {
	shared   foreignGroups
	received map[groupFlow]bool // of the groups that ours send to: whether foreign sockets receive them
	ports    sharedPorts
}

func (n *memberNews) equal(m *memberNews) bool {
	return maps.Equal(n.shared, m.shared) && maps.Equal(n.received, m.received) && maps.Equal(n.ports, m.ports)
}

var noNews = &memberNews{}

// sending is which groups a socket sends to with IP_MULTICAST_LOOP on.
type sending struct {
	inode uint64
	flows map[groupFlow]bool
}

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

// lookSoon begins looking, or has who looks look at the news. Under the lock.
func (f *foreigners) lookSoon(x *Exchange) {
	if f.look == nil {
		f.begin(x)
	}
	f.wake()
}

// wake has who looks look at the news. Under the lock.
func (f *foreigners) wake() {
	select {
	case f.look <- struct{}{}:
	default: // nobody looks, or who does was told
	}
}

// noteSend says that a socket of ours sends to a group that members on this host are to hear. It does not wait for the kernel.
func (f *foreigners) noteSend(x *Exchange, k memberKey, inode uint64, to groupFlow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sends == nil {
		f.sends = map[memberKey]sending{}
	}
	s, ok := f.sends[k]
	if !ok {
		s = sending{inode, map[groupFlow]bool{}}
		f.sends[k] = s
	}
	s.flows[to] = true
	if f.look == nil {
		f.start(x, nil)
	}
	f.wake()
}

// forgetSends undoes noteSend for a socket.
func (f *foreigners) forgetSends(k memberKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sends, k)
}

// begin starts looking, in the network namespace of the calling thread, whose sockets they are.
func (f *foreigners) begin(x *Exchange) {
	files, err := host.OpenMembers()
	if f.unknowable(err); err != nil {
		return // the next who joins tries again
	}
	f.start(x, files)
}

// start starts the goroutine that looks. Without files it opens them, in the namespace of the exchange.
func (f *foreigners) start(x *Exchange, files *host.Members) {
	if files != nil {
		f.limit = files.Limit()
	}
	f.look, f.end, f.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go f.run(x, files, f.look, f.end, f.ended)
}

// openFiles is begin's work for start without files. Without success nobody looks any more.
func (f *foreigners) openFiles(x *Exchange, end chan struct{}) (files *host.Members) {
	err := x.nics.Netns().Do(func() (err error) {
		files, err = host.OpenMembers()
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != end {
		return files // the last socket has gone meanwhile: run ends at once
	}
	if f.unknowable(err); err != nil {
		f.look, f.end, f.ended = nil, nil, nil
		return nil
	}
	f.limit = files.Limit()
	return files
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
	maps.DeleteFunc(f.sends, func(k memberKey, _ sending) bool { return k.driver == driver })
	maps.DeleteFunc(f.ports, func(k memberKey, _ portUse) bool { return k.driver == driver })
	end, ended := f.end, f.ended
	if len(f.own) > 0 || len(f.sends) > 0 || len(f.ports) > 0 || end == nil {
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
		x.hub.WakeAll()
	}
}

func (f *foreigners) run(x *Exchange, files *host.Members, look, end, ended chan struct{}) {
	defer close(ended)
	if files == nil {
		if files = f.openFiles(x, end); files == nil {
			x.hub.WakeAll()
			return
		}
	}
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
		if err == nil && !found.equal(f.news()) {
			time.Sleep(lookAgain)
			found, err = f.confirm(files, found)
		}
		before := f.version.Load()
		if !f.publish(end, found, err) {
			return
		}
		if f.version.Load() != before {
			x.hub.WakeAll()
		}
	}
}

// confirm looks once more: new members count if they are there both times, others go. A group that was received at one of the looks is.
func (f *foreigners) confirm(files *host.Members, found *memberNews) (*memberNews, error) {
	again, err := f.find(files)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(again.shared, func(g groupFlow, _ struct{}) bool {
		_, here := found.shared[g]
		_, before := f.news().shared[g]
		return !here && !before
	})
	maps.DeleteFunc(again.ports, func(p portUse, _ struct{}) bool {
		_, here := found.ports[p]
		_, before := f.news().ports[p]
		return !here && !before
	})
	for g := range again.received {
		again.received[g] = again.received[g] || found.received[g]
	}
	return again, nil
}

// publish tells the drivers, if there is news; false: nobody looks any more. What could not be read is read again at the next look, and until
// then what was known holds.
func (f *foreigners) publish(end chan struct{}, found *memberNews, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != end {
		return false // another one may look by now
	}
	if f.unknowable(err); err == nil && !found.equal(f.news()) {
		f.now.Store(found)
		f.version.Add(1)
	}
	return true
}

// news is what is known of foreign members; any goroutine.
func (f *foreigners) news() *memberNews {
	if n := f.now.Load(); n != nil {
		return n
	}
	return noNews
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
func (f *foreigners) find(files *host.Members) (*memberNews, error) {
	ours, inodes, flows, sends := map[host.GroupOn]int{}, map[uint64]bool{}, []groupFlow(nil), map[groupFlow]bool{}
	f.mu.Lock()
	for _, h := range f.own {
		inodes[h.inode] = true
		for g, n := range h.groups {
			ours[g] += n
			flows = append(flows, groupFlow{g, h.port})
		}
	}
	for _, s := range f.sends {
		inodes[s.inode] = true
		maps.Copy(sends, s.flows)
	}
	ports := make([]portUse, 0, len(f.ports))
	for _, p := range f.ports {
		inodes[p.inode] = true
		ports = append(ports, p)
	}
	f.mu.Unlock()
	found := &memberNews{foreignGroups{}, map[groupFlow]bool{}, sharedPorts{}}
	if len(flows)+len(sends)+len(ports) == 0 {
		return found, nil
	}
	users, err := map[host.GroupOn]int(nil), error(nil)
	if len(flows)+len(sends) > 0 {
		users, err = files.Users()
	}
	if err != nil {
		return nil, err
	}
	flows = slices.DeleteFunc(flows, func(g groupFlow) bool { return users[g.GroupOn] <= ours[g.GroupOn] })
	var joined []groupFlow // those of sends that have a member on this host: a socket may receive one that it has not joined (IP_MULTICAST_ALL)
	for g := range sends {
		found.received[g] = false
		if users[g.GroupOn] > 0 {
			joined = append(joined, g)
		}
	}
	if len(flows)+len(joined)+len(ports) == 0 {
		return found, nil
	}
	bound, err := files.Bound()
	if err != nil {
		return nil, err
	}
	receives := func(g groupFlow) bool {
		return slices.ContainsFunc(bound, func(b host.Bound) bool {
			return b.Port == g.port && (b.Local == [4]byte{} || b.Local == g.Group) && (b.Interface == 0 || b.Interface == g.Interface) &&
				!inodes[b.Inode]
		})
	}
	for _, p := range ports {
		if slices.ContainsFunc(bound, func(b host.Bound) bool { return !inodes[b.Inode] && p.meets(&b) }) {
			found.ports[p] = struct{}{}
		}
	}
	for _, g := range flows {
		if receives(g) {
			found.shared[g] = struct{}{}
		}
	}
	for _, g := range joined {
		found.received[g] = receives(g)
	}
	return found, nil
}
