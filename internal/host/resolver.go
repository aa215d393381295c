package host

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Hop is a neighbour that a flow sends to. The kernel sees none of that traffic, so somebody must tell it that the entry is
// in use, or it grows stale and is thrown away.
//
// While a hop is touched, the kernel is told so every Config.Refresh. It marks the entry as used; when its confirmation
// runs out (base_reachable_time, some 30 s) it finds the entry used within delay_first_probe_time, goes through DELAY into
// PROBE and asks the neighbour by unicast. The MAC address stays usable through all of it.
type Hop struct {
	Target
	used     atomic.Bool
	refs     int       // under resolver.mu
	kicked   time.Time // the resolver's goroutine
	resolver *resolver
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
	if !h.resolver.mayAsk(t, h.now()) {
		h.stats.kickRefusals.Add(1)
		return false, nil
	}
	if h.resolver.inline {
		h.resolver.kick(t)
		return true, nil
	}
	select {
	case h.resolver.requests <- t:
		return true, nil
	default:
		h.resolver.forget(t)
		h.stats.kickRefusals.Add(1)
		return false, nil
	}
}

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
	host     *Host
	requests chan Target
	ended    chan struct{}
	inline   bool // there is no goroutine: requests are made at once

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
	return &resolver{host: h, requests: make(chan Target, requestsMax), ended: make(chan struct{}),
		hops: map[Target]*Hop{}, asked: map[Target]time.Time{}}
}

func (k *resolver) stop() { close(k.ended) }

func (k *resolver) run() {
	defer k.host.running.Done()
	tick := time.NewTicker(min(time.Second, max(k.host.refresh/4, time.Millisecond)))
	defer tick.Stop()
	var hops []*Hop
	for {
		select {
		case <-k.ended:
			return
		case t := <-k.requests:
			k.kick(t)
		case now := <-tick.C:
			hops = k.due(hops[:0], now)
			for _, h := range hops {
				k.kick(h.Target)
			}
		}
	}
}

// mayAsk reports whether a target was not asked for within the last second, and remembers that it is now.
func (k *resolver) mayAsk(t Target, now time.Time) bool {
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

// refused is for a request that the kernel refused, because the interface is down: it went to nobody, and may be repeated soon.
func (k *resolver) refused(t Target) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.asked[t]; ok {
		k.asked[t] = at.Add(askRefused - askEvery)
	}
}

func (k *resolver) forget(t Target) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.asked, t)
}

// mayAskAgain forgets the requests that news have overtaken: all of them, or those of neighbours that have answered or whose entries are gone.
// A failure is no answer. It is called before the snapshot with the news is published.
func (k *resolver) mayAskAgain(all bool, changes []neighbourChange) {
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

func (k *resolver) sweep(now time.Time) {
	for t, at := range k.asked {
		if now.Sub(at) >= askEvery {
			delete(k.asked, t)
		}
	}
}

// due are the hops to speak of now: those in use, every refresh, and at once (but once a second) when the entry is not
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
		if !h.used.Load() || now.Sub(h.kicked) < every {
			continue
		}
		if at, ok := k.asked[t]; ok && now.Sub(at) < min(every, askEvery) {
			continue
		}
		h.used.Store(false)
		h.kicked = now
		k.asked[t] = now
		list = append(list, h)
	}
	return list
}

// kick asks the kernel, unless the entry is of a kind that is given: NTF_USE would turn a permanent entry into one that
// expires.
func (k *resolver) kick(t Target) {
	if n, ok := k.host.Snapshot().Neighbour(t); ok && n.State&given != 0 {
		return
	}
	k.host.stats.kicks.Add(1)
	if k.host.src.kick(t) != nil {
		k.refused(t)
		k.host.stats.kickFailures.Add(1)
	}
}
