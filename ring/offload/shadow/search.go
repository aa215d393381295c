package shadow

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// search is one run of questions to the kernel: from the first socket of ours that may have something in common with others until the last one
// is gone.
type search struct {
	files       Members       // nil until a step has opened them
	found       *OtherSockets // by a look that the next one is to confirm
	nudge, stop func()
}

// Nudgeable is the shortest wait of a watch that a nudge ends.
const Nudgeable = 10 * time.Millisecond

// searchEvery is how often the kernel is asked while sockets have groups: some ten microseconds of another processor, more where other members
// are and many sockets.
const searchEvery = 250 * time.Millisecond

// confirmAfter is after what time a new result is searched for once more: a socket of ours may have joined and not be noted yet.
const confirmAfter = 2 * time.Millisecond

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

// noteUnknown keeps the error for which other sockets cannot be known, nil when they can; the paths of sockets show it. Under the lock.
func (f *GroupWatcher) noteUnknown(err error) {
	if (err == nil) != (f.unknown == nil) {
		f.version.Add(1)
	}
	f.unknown = err
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
