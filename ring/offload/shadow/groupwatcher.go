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
	now     atomic.Pointer[News]

	mu      sync.Mutex
	joined  map[Key]Joined
	sends   map[Key]sending
	ports   map[Key]PortUse
	watch   *watch // nil while nothing looks
	unknown error  // why it cannot be known
	limit   error  // why more may be taken for members than are
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

// NewGroupWatcher makes a watcher for the sockets of a network namespace.
func NewGroupWatcher(c WatcherConfig) *GroupWatcher {
	if c.Repeat == nil {
		c.Repeat = runSteps
	}
	return &GroupWatcher{config: c}
}

// News is what was found of other sockets. It is never changed.
type News struct {
	Shared   map[GroupFlow]struct{} // groups of ours that others are members of
	Received map[GroupFlow]bool     // of the groups that ours send to: whether others receive them
	Ports    map[PortUse]struct{}   // ports of ours that others have too
}

func (n *News) equal(m *News) bool {
	return maps.Equal(n.Shared, m.Shared) && maps.Equal(n.Received, m.Received) && maps.Equal(n.Ports, m.Ports)
}

var noNews = &News{}

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
}

// conflicts reports whether the kernel gives datagrams to another socket that ours would take from it. Of two sockets the one with the more
// precise address has them, so another one on all addresses loses nothing to one of ours that names its own. A broadcast is for both.
func (p *PortUse) conflicts(b *host.Bound) bool {
	everywhere := b.Local == [4]byte{}
	return b.Port == p.Port && (p.Local == [4]byte{} || b.Local == p.Local || p.Broadcast && everywhere) &&
		!(p.IfIndex != 0 && b.Interface != 0 && p.IfIndex != b.Interface) && b.Local[0]>>4 != 14
}

// Nudgeable is the shortest wait of a watch that a nudge ends.
const Nudgeable = 10 * time.Millisecond

// lookEvery is how often the kernel is asked while sockets have groups: some ten microseconds of another processor, more where other members
// are and many sockets.
const lookEvery = 250 * time.Millisecond

// lookAgain is after what time news are looked at once more: a socket of ours may have joined and not be noted yet.
const lookAgain = 2 * time.Millisecond

// Version moves with the news, and when they become known or unknown.
func (f *GroupWatcher) Version() uint64 { return f.version.Load() }

// SetJoined says what a socket of ours has joined now; nothing: that it has left, or is gone. The rings are woken when it matters.
func (f *GroupWatcher) SetJoined(k Key, j Joined) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(j.Groups) == 0 {
		delete(f.joined, k)
		return
	}
	if f.joined == nil {
		f.joined = map[Key]Joined{}
	}
	f.joined[k] = j
	f.lookSoon()
}

// SetGroup is SetJoined when one group of a socket has another number of descriptors.
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
	f.lookSoon()
}

// SetPort says that a socket of ours has a port that others may have too.
func (f *GroupWatcher) SetPort(k Key, u PortUse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ports == nil {
		f.ports = map[Key]PortUse{}
	}
	f.ports[k] = u
	f.lookSoon()
}

// RemovePort undoes SetPort.
func (f *GroupWatcher) RemovePort(k Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ports, k)
}

// lookSoon begins looking, or has the watch look at once. Under the lock.
func (f *GroupWatcher) lookSoon() {
	if f.watch == nil {
		files, err := f.config.Kernel.OpenMembers() // of the network namespace of the calling thread
		if f.unknowable(err); err != nil {
			return // the next socket that joins tries again
		}
		f.start(files)
	}
	f.watch.nudge()
}

// AddSend says that a socket of ours sends to a group that members on this host are to receive. It does not wait for the kernel.
func (f *GroupWatcher) AddSend(k Key, inode uint64, to GroupFlow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sends == nil {
		f.sends = map[Key]sending{}
	}
	s, ok := f.sends[k]
	if !ok {
		s = sending{inode, map[GroupFlow]bool{}}
		f.sends[k] = s
	}
	s.flows[to] = true
	if f.watch == nil {
		f.start(nil)
	}
	f.watch.nudge()
}

// RemoveSends undoes AddSend for a socket.
func (f *GroupWatcher) RemoveSends(k Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sends, k)
}

// watch is one run of looks: from the first socket of ours that may have something in common with others until the last one is gone.
type watch struct {
	files       Members // nil until a step has opened them
	found       *News   // by a look that the next one is to confirm
	nudge, stop func()
}

// start starts looking. Without files the first step opens them, in the namespace of the exchange.
func (f *GroupWatcher) start(files Members) {
	if files != nil {
		f.limit = files.Limit()
	}
	w := &watch{files: files}
	w.nudge, w.stop = f.config.Repeat(func(nudged bool) time.Duration { return f.step(w, nudged) })
	f.watch = w
}

// step is one step of a watch. It returns the time until the next one; below 0: there is none.
func (f *GroupWatcher) step(w *watch, nudged bool) (wait time.Duration) {
	switch {
	case w.files == nil && !f.openFiles(w):
		f.config.Wake()
		return -1
	case nudged:
		return lookAgain // many groups may be joined one after the other
	}
	found, err := f.find(w.files)
	if w.found != nil && err == nil {
		f.confirm(w.found, found)
	} else if err == nil && !found.equal(f.News()) {
		w.found = found
		return lookAgain
	}
	w.found = nil
	before := f.version.Load()
	if !f.publish(w, found, err) {
		return -1
	}
	if f.version.Load() != before {
		f.config.Wake()
	}
	return lookEvery
}

// runSteps is the Repeat of this process.
func runSteps(step func(nudged bool) time.Duration) (nudge, stop func()) {
	look, end, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(0)
		defer timer.Stop()
		<-timer.C
		for wait := time.Duration(math.MaxInt64); wait >= 0; {
			if wait < Nudgeable {
				time.Sleep(wait)
				wait = step(false)
				continue
			}
			timer.Reset(wait)
			select {
			case <-end:
				return
			case <-look:
				wait = step(true)
			case <-timer.C:
				wait = step(false)
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

// openFiles opens what a watch reads. False: the watch ends.
func (f *GroupWatcher) openFiles(w *watch) bool {
	var files Members
	err := f.config.Netns.Do(func() (err error) {
		files, err = f.config.Kernel.OpenMembers()
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != w { // the last socket has gone meanwhile
		if err == nil {
			_ = files.Close() // they are only read
		}
		return false
	}
	if f.unknowable(err); err != nil {
		f.watch = nil
		return false
	}
	w.files, f.limit = files, files.Limit()
	return true
}

// unknowable notes whether other members can be known now; sockets say so.
func (f *GroupWatcher) unknowable(err error) {
	if (err == nil) != (f.unknown == nil) {
		f.version.Add(1)
	}
	f.unknown = err
}

// RemoveRing takes a ring's sockets out. When none is left no goroutine looks any more, and the call waits for its end: what was known
// holds no longer, and rings that are left must not go on with it.
func (f *GroupWatcher) RemoveRing(ring int) {
	f.mu.Lock()
	maps.DeleteFunc(f.joined, func(k Key, _ Joined) bool { return k.Ring == ring })
	maps.DeleteFunc(f.sends, func(k Key, _ sending) bool { return k.Ring == ring })
	maps.DeleteFunc(f.ports, func(k Key, _ PortUse) bool { return k.Ring == ring })
	w := f.watch
	if len(f.joined) > 0 || len(f.sends) > 0 || len(f.ports) > 0 || w == nil {
		f.mu.Unlock()
		return
	}
	f.watch = nil
	news := f.now.Swap(nil) != nil || f.unknown != nil
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

// confirm makes of two looks what is told: new members count if they are there both times, others go. A group that was received at one of
// the looks is. The result is in again.
func (f *GroupWatcher) confirm(found, again *News) {
	maps.DeleteFunc(again.Shared, func(g GroupFlow, _ struct{}) bool {
		_, here := found.Shared[g]
		_, before := f.News().Shared[g]
		return !here && !before
	})
	maps.DeleteFunc(again.Ports, func(p PortUse, _ struct{}) bool {
		_, here := found.Ports[p]
		_, before := f.News().Ports[p]
		return !here && !before
	})
	for g := range again.Received {
		again.Received[g] = again.Received[g] || found.Received[g]
	}
}

// publish tells the rings, if there is news; false: the watch is to end. What could not be read is read again at the next look, and until
// then what was known holds.
func (f *GroupWatcher) publish(w *watch, found *News, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != w {
		return false // another one may look by now
	}
	if f.unknowable(err); err == nil && !found.equal(f.News()) {
		f.now.Store(found)
		f.version.Add(1)
	}
	return true
}

// News is what is known of other sockets.
func (f *GroupWatcher) News() *News {
	if n := f.now.Load(); n != nil {
		return n
	}
	return noNews
}

// Why is why other sockets cannot be known, if so.
func (f *GroupWatcher) Why() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unknown
}

// Inexact is why a group may be taken for shared without need, for the end of a sentence; empty when that cannot be.
func (f *GroupWatcher) Inexact() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limit == nil {
		return ""
	}
	return "; sockets of IPv6 alone and of other interfaces count as members, because they cannot be told: " + f.limit.Error()
}

// find asks the kernel.
func (f *GroupWatcher) find(files Members) (*News, error) {
	ours, inodes, flows, sends := map[host.GroupOn]int{}, map[uint64]bool{}, []GroupFlow(nil), map[GroupFlow]bool{}
	f.mu.Lock()
	for _, h := range f.joined {
		inodes[h.Inode] = true
		for g, n := range h.Groups {
			ours[g] += n
			flows = append(flows, GroupFlow{g, h.Port})
		}
	}
	for _, s := range f.sends {
		inodes[s.inode] = true
		maps.Copy(sends, s.flows)
	}
	ports := make([]PortUse, 0, len(f.ports))
	for _, p := range f.ports {
		inodes[p.Inode] = true
		ports = append(ports, p)
	}
	f.mu.Unlock()
	found := &News{map[GroupFlow]struct{}{}, map[GroupFlow]bool{}, map[PortUse]struct{}{}}
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
	flows = slices.DeleteFunc(flows, func(g GroupFlow) bool { return users[g.GroupOn] <= ours[g.GroupOn] })
	var joined []GroupFlow // those of sends that have a member on this host: a socket may receive one that it has not joined (IP_MULTICAST_ALL)
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
	receives := func(g GroupFlow) bool {
		return slices.ContainsFunc(bound, func(b host.Bound) bool {
			return b.Port == g.Port && (b.Local == [4]byte{} || b.Local == g.Group) && (b.Interface == 0 || b.Interface == g.Interface) &&
				!inodes[b.Inode]
		})
	}
	for _, p := range ports {
		if slices.ContainsFunc(bound, func(b host.Bound) bool { return !inodes[b.Inode] && p.conflicts(&b) }) {
			found.Ports[p] = struct{}{}
		}
	}
	for _, g := range flows {
		if receives(g) {
			found.Shared[g] = struct{}{}
		}
	}
	for _, g := range joined {
		found.Received[g] = receives(g)
	}
	return found, nil
}
