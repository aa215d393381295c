package shadow

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// GroupWatcher looks for other sockets of this host that receive what ours do: of other programs, and of this one on kernel rings. A frame
// that is redirected does not reach them, and it cannot be at both: so a group that they are members of, on a port that they are bound to,
// is left to the kernel, which gives each datagram to all, our shadows among them. (With VMA they receive nothing.) Any goroutine.
//
// The kernel sends no event when a socket joins a group that others have joined before. So it is asked, on a goroutine of its own: how many
// sockets are members of each group that ours have joined, and, where those are more than ours, which ports they are bound to.
type GroupWatcher struct {
	config  WatcherConfig
	version atomic.Uint64
	current atomic.Pointer[OtherSockets]

	mu      sync.Mutex
	joined  map[Key]Joined // copies of Memberships
	sends   map[Key]sending
	ports   map[Key]PortUse
	left    map[uint64]int // inodes of sockets that were ours until lately: how many looks more take them for ours
	search  *search        // nil while nothing looks
	unknown error          // why it cannot be known
	limit   error          // why more may be taken for members than are
}

// WatcherConfig is what a watcher is made from.
type WatcherConfig struct {
	Kernel Kernel     // whose sockets they are
	Netns  host.Netns // their network namespace
	Wake   func()     // wakes the rings that sleep, when there is news
	// Repeat calls step again and again: at first when it is nudged, then when the time that step returned has passed, or, after a time
	// of at least Nudgeable, when it is nudged; below 0: not again. stop returns when step has returned for the last time. Nil: on a goroutine.
	Repeat func(step func(nudged bool) (wait time.Duration)) (nudge, stop func())
}

// NewGroupWatcher makes a watcher for the sockets of a network namespace. It does nothing until a socket is set.
func NewGroupWatcher(c WatcherConfig) *GroupWatcher {
	if c.Repeat == nil {
		c.Repeat = repeatOnGoroutine
	}
	return &GroupWatcher{config: c}
}

// OtherSockets is what was found of other sockets of the host at one time. It is never changed.
type OtherSockets struct {
	Shared   map[GroupFlow]struct{} // groups of ours that others are members of
	Received map[GroupFlow]bool     // of the groups that ours send to: whether others receive them
	Ports    map[PortUse]struct{}   // ports of ours that others have too

	// The inodes of those others. One of them may turn out to be ours: see dropOurs.
	sharedBy   map[GroupFlow][]uint64
	receivedBy map[GroupFlow][]uint64
	portsBy    map[PortUse][]uint64
}

func (n *OtherSockets) equal(m *OtherSockets) bool {
	return maps.Equal(n.Shared, m.Shared) && maps.Equal(n.Received, m.Received) && maps.Equal(n.Ports, m.Ports)
}

// dropOurs is n without what is shared with sockets of ours alone, or received by them; n itself if there is nothing. A socket of ours is bound,
// and joins, before its owner tells the watcher of it, and the owner may be displaced in between for longer than confirmAfter.
func (n *OtherSockets) dropOurs(ours map[uint64]bool) *OtherSockets {
	shared, changed := onlyOthers(n.Shared, n.sharedBy, ours)
	ports, portsChanged := onlyOthers(n.Ports, n.portsBy, ours)
	received, receivedChanged := n.Received, false
	for g, is := range n.Received {
		if !is || !areOurs(n.receivedBy[g], ours) {
			continue
		}
		if !receivedChanged {
			received, receivedChanged = maps.Clone(n.Received), true
		}
		received[g] = false
	}
	if !changed && !portsChanged && !receivedChanged {
		return n
	}
	return &OtherSockets{shared, received, ports, n.sharedBy, n.receivedBy, n.portsBy}
}

// onlyOthers copies a set without the members for which by has sockets of ours alone; it is the same set if there is none.
func onlyOthers[K comparable](set map[K]struct{}, by map[K][]uint64, ours map[uint64]bool) (rest map[K]struct{}, changed bool) {
	rest = set
	for k := range set {
		if !areOurs(by[k], ours) {
			continue
		}
		if !changed {
			rest, changed = maps.Clone(set), true
		}
		delete(rest, k)
	}
	return rest, changed
}

// areOurs reports whether the sockets of a list are all ours; false for an empty list.
func areOurs(list []uint64, ours map[uint64]bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(inode uint64) bool { return !ours[inode] })
}

var noOtherSockets = &OtherSockets{}

// GroupFlow is a group and port on an interface.
type GroupFlow struct {
	host.GroupOn
	Port uint16
}

// Key is a socket of ours: ring and slot.
type Key struct {
	Ring int
	Slot uint32
}

// Joined is what a socket has joined, with how many descriptors; under the lock once it was set.
type Joined struct {
	Inode  uint64
	Port   uint16
	Groups map[host.GroupOn]int
}

// sending is which groups a socket sends to with IP_MULTICAST_LOOP on.
type sending struct {
	inode uint64
	flows map[GroupFlow]bool
}

// PortUse is a socket of ours whose port others may have as well: SO_REUSEPORT or SO_REUSEADDR is set. A claim takes all datagrams of its
// flow, so where another socket has the port too, on the same address or on one that ours has among others, the kernel is left to choose
// between them as it does without us.
type PortUse struct {
	Inode     uint64
	Local     [4]byte // zero: all addresses
	Port      uint16
	IfIndex   uint32 // that ours is tied to; 0: to none
	Broadcast bool   // Local is a broadcast address: every socket with the port receives its datagrams
	Strangers bool   // ours is connected, and its claim takes what other peers send, too
}

// conflicts reports whether the kernel gives datagrams to another socket that ours would take from it. Of two sockets the one with the more
// precise address has them, so another one on all addresses loses nothing to one of ours that names its own. A broadcast is for both, and to a
// connected socket the kernel gives its peer's datagrams alone.
func (p *PortUse) conflicts(b *host.Bound) bool {
	everywhere := b.Local == [4]byte{}
	return b.Port == p.Port && (p.Local == [4]byte{} || b.Local == p.Local || (p.Broadcast || p.Strangers) && everywhere) &&
		!(p.IfIndex != 0 && b.Interface != 0 && p.IfIndex != b.Interface) && b.Local[0]>>4 != 14
}

// Nudgeable is the shortest wait of a watch that a nudge ends.
const Nudgeable = 10 * time.Millisecond

// searchEvery is how often the kernel is asked while sockets have groups: some ten microseconds of another processor, more where other members
// are and many sockets.
const searchEvery = 250 * time.Millisecond

// confirmAfter is after what time a new result is searched for once more: a socket of ours may have joined and not be noted yet.
const confirmAfter = 2 * time.Millisecond

// leftLooks is how many looks take a socket that is withdrawn for ours: its owner closes its descriptors only then, and may be displaced before.
const leftLooks = 3

// Version moves when the result of OtherSockets changes, and when it becomes known or unknown.
func (f *GroupWatcher) Version() uint64 { return f.version.Load() }

// SetJoined sets the groups that a socket of ours has joined; none when it has left all or is closed. The rings are woken when that leads to
// another result.
func (f *GroupWatcher) SetJoined(k Key, j Joined) {
	f.note(func() {
		if len(j.Groups) == 0 {
			f.leave(f.joined[k].Inode)
			delete(f.joined, k)
			return
		}
		if f.joined == nil {
			f.joined = map[Key]Joined{}
		}
		f.joined[k] = j
		f.searchSoon()
	})
}

// note calls set, which notes a socket of ours, and drops what was found of that socket before: the rings are woken for that.
func (f *GroupWatcher) note(set func()) {
	f.mu.Lock()
	set()
	found, isNews := f.current.Load(), false
	if found != nil && len(found.Shared)+len(found.Received)+len(found.Ports) > 0 {
		if rest := found.dropOurs(f.inodes()); rest != found {
			f.current.Store(rest)
			f.version.Add(1)
			isNews = true
		}
	}
	f.mu.Unlock()
	if isNews {
		f.config.Wake()
	}
}

// inodes are those of the sockets of ours, and of those that were ours until lately. Under the lock.
func (f *GroupWatcher) inodes() map[uint64]bool {
	set := make(map[uint64]bool, len(f.joined)+len(f.sends)+len(f.ports))
	for _, x := range f.joined {
		set[x.Inode] = true
	}
	for _, x := range f.sends {
		set[x.inode] = true
	}
	for _, x := range f.ports {
		set[x.Inode] = true
	}
	for inode := range f.left {
		set[inode] = true
	}
	return set
}

// SetGroup is SetJoined for one group of a socket: the number of its descriptors that are members; 0: it has left the group.
func (f *GroupWatcher) SetGroup(k Key, on host.GroupOn, descriptors int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, ok := f.joined[k]
	switch {
	case !ok: // cannot be
		return
	case descriptors == 0:
		delete(j.Groups, on)
	default:
		j.Groups[on] = descriptors
	}
	f.searchSoon()
}

// SetPort sets the port of a socket of ours that other sockets may have too.
func (f *GroupWatcher) SetPort(k Key, u PortUse) {
	f.note(func() {
		if f.ports == nil {
			f.ports = map[Key]PortUse{}
		}
		f.ports[k] = u
		f.searchSoon()
	})
}

// RemovePort undoes SetPort.
func (f *GroupWatcher) RemovePort(k Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave(f.ports[k].Inode)
	delete(f.ports, k)
}

// searchSoon starts the search, or makes a running one ask the kernel at once. Under the lock.
func (f *GroupWatcher) searchSoon() {
	if f.search == nil {
		files, err := f.config.Kernel.OpenMembers() // of the network namespace of the calling thread
		if f.noteUnknown(err); err != nil {
			return // the next socket that joins tries again
		}
		f.startSearch(files)
	}
	f.search.nudge()
}

// AddSend adds a group that a socket of ours sends to with IP_MULTICAST_LOOP on, so that Received tells whether others receive it. It does not
// wait for the kernel.
func (f *GroupWatcher) AddSend(k Key, inode uint64, to GroupFlow) {
	f.note(func() {
		if f.sends == nil {
			f.sends = map[Key]sending{}
		}
		s, ok := f.sends[k]
		if !ok {
			s = sending{inode, map[GroupFlow]bool{}}
			f.sends[k] = s
		}
		s.flows[to] = true
		if f.search == nil {
			f.startSearch(nil) // it opens the kernel's lists itself
		}
		f.search.nudge()
	})
}

// RemoveSends undoes AddSend for a socket.
func (f *GroupWatcher) RemoveSends(k Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave(f.sends[k].inode)
	delete(f.sends, k)
}

// search is one run of questions to the kernel: from the first socket of ours that may have something in common with others until the last one
// is gone.
type search struct {
	files       Members       // nil until a step has opened them
	found       *OtherSockets // by a look that the next one is to confirm
	nudge, stop func()
}

// startSearch starts a search. Without files its first step opens them, in the network namespace of the exchange.
func (f *GroupWatcher) startSearch(files Members) {
	if files != nil {
		f.limit = files.Limit()
	}
	w := &search{files: files}
	w.nudge, w.stop = f.config.Repeat(func(nudged bool) time.Duration { return f.step(w, nudged) })
	f.search = w
}

// step is one step of a search: it asks the kernel, and a second time after confirmAfter where the answer is new, before it publishes. It
// returns the time until the next step; below 0: there is none.
func (f *GroupWatcher) step(w *search, nudged bool) (wait time.Duration) {
	switch {
	case w.files == nil && !f.openFiles(w):
		f.config.Wake()
		return -1
	case nudged:
		return confirmAfter // many groups may be joined one after the other
	}
	found, err := f.askKernel(w.files)
	if w.found != nil && err == nil {
		f.confirm(w.found, found)
	} else if err == nil && !found.equal(f.OtherSockets()) {
		w.found = found
		return confirmAfter
	}
	w.found = nil
	before := f.version.Load()
	if !f.publish(w, found, err) {
		return -1
	}
	if f.version.Load() != before {
		f.config.Wake()
	}
	return searchEvery
}

// repeatOnGoroutine is the Repeat of this process: it calls step on a goroutine, after the time that step has returned or when nudged, until
// stop.
func repeatOnGoroutine(step func(nudged bool) time.Duration) (nudge, stop func()) {
	const nudged = true // else the wait is over
	look, end, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(0)
		defer timer.Stop()
		<-timer.C
		for wait := time.Duration(math.MaxInt64); wait >= 0; {
			if wait < Nudgeable { // no nudge ends it: what it is for is seen in this step anyway
				time.Sleep(wait)
				wait = step(!nudged)
				continue
			}
			timer.Reset(wait)
			select {
			case <-end:
				return
			case <-look:
				wait = step(nudged)
			case <-timer.C:
				wait = step(!nudged)
			}
		}
	}()
	nudge = func() {
		select {
		case look <- struct{}{}:
		default: // it was nudged
		}
	}
	return nudge, func() {
		close(end)
		<-ended
	}
}

// openFiles opens the kernel's lists that a search reads. False: the search ends, because it cannot read them or is not needed any more.
func (f *GroupWatcher) openFiles(w *search) bool {
	var files Members
	err := f.config.Netns.Do(func() (err error) {
		files, err = f.config.Kernel.OpenMembers()
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.search != w { // the last socket has gone meanwhile
		if err == nil {
			_ = files.Close() // they are only read
		}
		return false
	}
	if f.noteUnknown(err); err != nil {
		f.search = nil
		return false
	}
	w.files, f.limit = files, files.Limit()
	return true
}

// leave notes that a socket of ours is withdrawn. Under the lock.
func (f *GroupWatcher) leave(inode uint64) {
	if f.left == nil {
		f.left = map[uint64]int{}
	}
	f.left[inode] = leftLooks
}

// noteUnknown keeps the error for which other sockets cannot be known, nil when they can; the paths of sockets show it. Under the lock.
func (f *GroupWatcher) noteUnknown(err error) {
	if (err == nil) != (f.unknown == nil) {
		f.version.Add(1)
	}
	f.unknown = err
}

// RemoveRing removes the sockets of a ring that is closed. With the last socket the search ends, and the call waits for its goroutine: the
// last result is then dropped, so that other rings do not use it.
func (f *GroupWatcher) RemoveRing(ring int) {
	f.mu.Lock()
	removes := func(k Key, inode uint64) bool {
		if k.Ring == ring {
			f.leave(inode)
		}
		return k.Ring == ring
	}
	maps.DeleteFunc(f.joined, func(k Key, x Joined) bool { return removes(k, x.Inode) })
	maps.DeleteFunc(f.sends, func(k Key, x sending) bool { return removes(k, x.inode) })
	maps.DeleteFunc(f.ports, func(k Key, x PortUse) bool { return removes(k, x.Inode) })
	w := f.search
	if len(f.joined) > 0 || len(f.sends) > 0 || len(f.ports) > 0 || w == nil {
		f.mu.Unlock()
		return
	}
	f.search, f.left = nil, nil
	news := f.current.Swap(nil) != nil || f.unknown != nil
	f.unknown = nil
	if news {
		f.version.Add(1)
	}
	f.mu.Unlock()
	w.stop()
	if w.files != nil {
		_ = w.files.Close() // they are only read
	}
	if news {
		f.config.Wake()
	}
}

// confirm joins two answers of the kernel, the result is in again: new members and ports count if both answers have them, so that a socket of
// ours that is not noted yet is not taken for another's. A group counts as received if one of the answers says so.
func (f *GroupWatcher) confirm(found, again *OtherSockets) {
	maps.DeleteFunc(again.Shared, func(g GroupFlow, _ struct{}) bool {
		_, here := found.Shared[g]
		_, before := f.OtherSockets().Shared[g]
		return !here && !before
	})
	maps.DeleteFunc(again.Ports, func(p PortUse, _ struct{}) bool {
		_, here := found.Ports[p]
		_, before := f.OtherSockets().Ports[p]
		return !here && !before
	})
	for g := range again.Received {
		again.Received[g] = again.Received[g] || found.Received[g]
		again.receivedBy[g] = append(again.receivedBy[g], found.receivedBy[g]...)
	}
}

// publish makes the result visible to the rings, if it has changed; false: the search is to end. With an error the last result stays, and the
// next step asks again.
func (f *GroupWatcher) publish(w *search, found *OtherSockets, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.search != w {
		return false // another one may look by now
	}
	if f.noteUnknown(err); err == nil {
		found = found.dropOurs(f.inodes()) // of sockets that were noted since the look began
		isNews := !found.equal(f.OtherSockets())
		if isNews || f.current.Load() != nil {
			f.current.Store(found) // also an equal one: the others may be other sockets by now
		}
		if isNews { // after the result: a ring that sees the version reads that result
			f.version.Add(1)
		}
	}
	return true
}

// OtherSockets is the last result of the search; empty before the first.
func (f *GroupWatcher) OtherSockets() *OtherSockets {
	if n := f.current.Load(); n != nil {
		return n
	}
	return noOtherSockets
}

// Why is the error for which other sockets cannot be known; nil when they can.
func (f *GroupWatcher) Why() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unknown
}

// Inexact is the reason for which a group may be taken for shared though it is not, as the end of a sentence; empty where the kernel's lists
// are exact.
func (f *GroupWatcher) Inexact() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limit == nil {
		return ""
	}
	return "; sockets of IPv6 alone and of other interfaces count as members, because they cannot be told: " + f.limit.Error()
}

// askKernel compares the kernel's lists of members and of bound sockets with ours: which groups and ports other sockets of the host share with
// ours, and which groups that ours send to they receive.
func (f *GroupWatcher) askKernel(files Members) (*OtherSockets, error) {
	ours, flows, sends := map[host.GroupOn]int{}, []GroupFlow(nil), map[GroupFlow]bool{}
	f.mu.Lock()
	inodes := f.inodes()
	for inode, n := range f.left {
		if f.left[inode] = n - 1; n == 1 {
			delete(f.left, inode)
		}
	}
	for _, h := range f.joined {
		for g, n := range h.Groups {
			ours[g] += n
			flows = append(flows, GroupFlow{g, h.Port})
		}
	}
	for _, s := range f.sends {
		maps.Copy(sends, s.flows)
	}
	ports := make([]PortUse, 0, len(f.ports))
	for _, p := range f.ports {
		ports = append(ports, p)
	}
	f.mu.Unlock()
	found := &OtherSockets{map[GroupFlow]struct{}{}, map[GroupFlow]bool{}, map[PortUse]struct{}{}, map[GroupFlow][]uint64{},
		map[GroupFlow][]uint64{}, map[PortUse][]uint64{}}
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
	// Groups whose members are all ours are shared with nobody.
	flows = slices.DeleteFunc(flows, func(g GroupFlow) bool { return users[g.GroupOn] <= ours[g.GroupOn] })
	var joined []GroupFlow // of sends, those with a member on this host: a socket may receive one that it has not joined (IP_MULTICAST_ALL)
	for g := range sends {
		found.Received[g] = false
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
	others := func(conflicts func(b *host.Bound) bool) (list []uint64) {
		for i := range bound {
			if b := &bound[i]; !inodes[b.Inode] && conflicts(b) {
				list = append(list, b.Inode)
			}
		}
		return list
	}
	receivers := func(g GroupFlow) []uint64 {
		return others(func(b *host.Bound) bool {
			return b.Port == g.Port && (b.Local == [4]byte{} || b.Local == g.Group) && (b.Interface == 0 || b.Interface == g.Interface)
		})
	}
	for _, p := range ports {
		if list := others(p.conflicts); len(list) > 0 {
			found.Ports[p], found.portsBy[p] = struct{}{}, list
		}
	}
	for _, g := range flows {
		if list := receivers(g); len(list) > 0 {
			found.Shared[g], found.sharedBy[g] = struct{}{}, list
		}
	}
	for _, g := range joined {
		found.receivedBy[g] = receivers(g)
		found.Received[g] = len(found.receivedBy[g]) > 0
	}
	return found, nil
}
