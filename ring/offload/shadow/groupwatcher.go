package shadow

import (
	"maps"
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

// leave notes that a socket of ours is withdrawn. Under the lock.
func (f *GroupWatcher) leave(inode uint64) {
	if f.left == nil {
		f.left = map[uint64]int{}
	}
	f.left[inode] = leftLooks
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
