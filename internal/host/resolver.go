package host

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Hop is a neighbour that a flow sends to. The kernel does not see that traffic, so it must be told that the entry is
// in use, or it becomes stale and is removed.
//
// While a hop is touched, the kernel is told so every Config.Refresh. It marks the entry as used; when its confirmation
// runs out (base_reachable_time, some 30 s) it finds the entry used within delay_first_probe_time, goes through DELAY into
// PROBE and asks the neighbour by unicast. The MAC address stays usable through all of it.
type Hop struct {
	Target
	used      atomic.Bool
	refs      int       // under resolver.mu
	requested time.Time // the resolver's goroutine
	resolver  *resolver
}

// Touch says that a packet was sent to the hop. It costs a load; any goroutine.
func (h *Hop) Touch() {
	if !h.used.Load() {
		h.used.Store(true)
	}
}

// Release gives the hop back, once for each Hold. Any goroutine.
func (h *Hop) Release() {
	h.resolver.mu.Lock()
	defer h.resolver.mu.Unlock()
	if h.refs == 0 {
		panic(fmt.Sprintf("host: hop %v on interface %d released more often than held", h.Addr, h.Interface))
	}
	if h.refs--; h.refs == 0 {
		delete(h.resolver.hops, h.Target)
	}
}

// Hold makes the hop of a target, or finds it: all flows to a neighbour share it.
func (h *Host) Hold(t Target) (*Hop, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	k := h.resolver
	k.mu.Lock()
	defer k.mu.Unlock()
	hop := k.hops[t]
	if hop == nil {
		hop = &Hop{Target: t, resolver: k}
		k.hops[t] = hop
	}
	hop.refs++
	return hop, nil
}

// Resolve asks the kernel to look for a neighbour; the answer is in a later snapshot. It returns at once. A target that does not answer is
// asked for once a second at most (RFC 1122 2.3.2.1), however often this is called: false says that nothing was asked now. One that has
// answered since, or whose entry the kernel has dropped, is asked for at once; so are all after a change of the tables, because a request
// while an interface is down has no effect.
func (h *Host) Resolve(t Target) (bool, error) {
	if err := t.check(); err != nil {
		return false, err
	}
	if !h.resolver.noteRequest(t, h.now()) {
		h.stats.requestRefusals.Add(1)
		return false, nil
	}
	if h.resolver.inline {
		h.resolver.request(t)
		return true, nil
	}
	select {
	case h.resolver.queue <- t:
		return true, nil
	default:
		h.resolver.forget(t)
		h.stats.requestRefusals.Add(1)
		return false, nil
	}
}

// check names what cannot be a neighbour's name.
func (t Target) check() error {
	switch {
	case t.Interface <= 0:
		return fmt.Errorf("host: Interface %d: %w", t.Interface, unix.EINVAL)
	case !t.Addr.Is4() || t.Addr.IsUnspecified() || t.Addr.IsMulticast():
		return fmt.Errorf("host: Addr %v is not the IPv4 address of a neighbour: %w", t.Addr, unix.EINVAL)
	}
	return nil
}

// resolver asks the kernel for neighbours, in a goroutine of its own: a request is a system call, and it must not wait behind
// the mirror's reading, nor the mirror behind it.
type resolver struct {
	host   *Host
	queue  chan Target
	ended  chan struct{}
	inline bool // there is no goroutine: requests are made at once

	mu    sync.Mutex
	hops  map[Target]*Hop
	asked map[Target]time.Time
}

const (
	askEvery    = time.Second
	askRefused  = 20 * time.Millisecond // after one that the kernel refused
	askedMax    = 4096                  // targets remembered; more at once are not asked for, and counted
	requestsMax = 256
)

func newResolver(h *Host) *resolver {
	return &resolver{host: h, queue: make(chan Target, requestsMax), ended: make(chan struct{}),
		hops: map[Target]*Hop{}, asked: map[Target]time.Time{}}
}

func (k *resolver) stop() { close(k.ended) }

// run is the goroutine: it makes the requests that Resolve has queued, and tells the kernel regularly which hops are in use.
func (k *resolver) run() {
	defer k.host.running.Done()
	tick := time.NewTicker(min(time.Second, max(k.host.refresh/4, time.Millisecond)))
	defer tick.Stop()
	var hops []*Hop
	for {
		select {
		case <-k.ended:
			return
		case t := <-k.queue:
			k.request(t)
		case now := <-tick.C:
			hops = k.due(hops[:0], now)
			for _, h := range hops {
				k.request(h.Target)
			}
		}
	}
}

// noteRequest reports whether a target may be asked for: it was not within the last second. If so it counts as asked for now.
func (k *resolver) noteRequest(t Target, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.asked[t]; ok && now.Sub(at) < askEvery {
		return false
	}
	if len(k.asked) >= askedMax {
		k.sweep(now)
		if len(k.asked) >= askedMax {
			return false
		}
	}
	k.asked[t] = now
	return true
}

// retrySoon is called when the kernel has refused a request because the interface is down: nothing was sent, so it may be repeated soon.
func (k *resolver) retrySoon(t Target) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.asked[t]; ok {
		k.asked[t] = at.Add(askRefused - askEvery)
	}
}

// forget makes the next request for a target possible at once.
func (k *resolver) forget(t Target) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.asked, t)
}

// forgetOvertaken forgets requests that a change has made obsolete: all of them after a change of the tables, else those for neighbours that
// have answered or whose entries are gone. A failure is no answer. It is called before the snapshot with the change is published.
func (k *resolver) forgetOvertaken(all bool, changes []neighbourChange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if all {
		clear(k.asked)
		return
	}
	for i := range changes {
		if c := &changes[i]; c.gone || c.Usable() {
			delete(k.asked, c.Target)
		}
	}
}

// sweep forgets requests that are older than a second. Under the lock.
func (k *resolver) sweep(now time.Time) {
	for t, at := range k.asked {
		if now.Sub(at) >= askEvery {
			delete(k.asked, t)
		}
	}
}

// due lists the hops that the kernel is to be told of now: those in use, once in each refresh, and once a second while their entry is not
// confirmed.
func (k *resolver) due(list []*Hop, now time.Time) []*Hop {
	s := k.host.Snapshot()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweep(now)
	for t, h := range k.hops {
		n, _ := s.Neighbour(t)
		every := k.host.refresh
		if n.State&(unix.NUD_REACHABLE|unix.NUD_DELAY|unix.NUD_PROBE) == 0 {
			every = min(every, askEvery)
		}
		if !h.used.Load() || now.Sub(h.requested) < every {
			continue
		}
		if at, ok := k.asked[t]; ok && now.Sub(at) < min(every, askEvery) {
			continue
		}
		h.used.Store(false)
		h.requested = now
		k.asked[t] = now
		list = append(list, h)
	}
	return list
}

// request makes one request to the kernel, unless the entry's state is fixed: NTF_USE would turn a permanent entry into one that
// expires.
func (k *resolver) request(t Target) {
	if n, ok := k.host.Snapshot().Neighbour(t); ok && n.State&fixedStates != 0 {
		return
	}
	k.host.stats.requests.Add(1)
	if k.host.src.request(t) != nil {
		k.retrySoon(t)
		k.host.stats.requestFailures.Add(1)
	}
}
