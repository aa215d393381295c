package host

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Config says which host to mirror, and how.
type Config struct {
	// Namespace is the path of a network namespace ("/run/netns/x", "/proc/1/ns/net"); empty for the caller's, or that of
	// NamespaceFD.
	Namespace string
	// NamespaceFD is a descriptor of a network namespace, used during Open only; 0 for none.
	NamespaceFD int
	// ReceiveBuffer of the notification socket in bytes; 0 for 1 MiB. What does not fit is lost and all is read again.
	ReceiveBuffer int
	// Refresh is how often the kernel is notified that a held neighbour is in use; 0 for 4 s. It must be shorter than the
	// kernel's delay_first_probe_time (5 s), see Hop.
	Refresh time.Duration
}

// Host mirrors the kernel's view of one network namespace. All methods may be called from any goroutine.
type Host struct {
	src     source
	refresh time.Duration // how often the kernel is notified that a neighbour is in use: Config.Refresh
	now     func() time.Time

	current    atomic.Pointer[Snapshot]
	generation atomic.Uint64
	stats      counters
	facts      Facts // mirror only
	running    sync.WaitGroup
	resolver   *resolver

	mu        sync.Mutex      // watchers, refreshes
	refreshes []chan struct{} // closed when a snapshot has tables that were read after they were added
	watchers  map[int]func(Change)
	watched   int
	closed    sync.Once
}

type counters struct {
	overruns, reads, interrupted, failures, notifications atomic.Uint64
	requests, requestFailures, requestRefusals            atomic.Uint64
}

// Stats are counts since Open.
type Stats struct {
	Notifications   uint64 // datagrams from the kernel
	Overruns        uint64 // times that notifications were lost and all was read again
	Reads           uint64 // times that tables were read
	Interrupted     uint64 // reads repeated because a table changed under them
	Failures        uint64 // reads that failed and were repeated
	Requests        uint64 // requests to look for a neighbour
	RequestFailures uint64 // those that the kernel refused: the interface is down or gone
	RequestRefusals uint64 // requests not made: asked within the last second, or too many at once
}

// Open reads the host's tables and starts to follow them. Reading needs no privileges; another namespace does (InNamespace).
// Close ends it.
func Open(c Config) (*Host, error) {
	switch {
	case c.ReceiveBuffer < 0:
		return nil, fmt.Errorf("host: ReceiveBuffer %d: %w", c.ReceiveBuffer, unix.EINVAL)
	case c.Refresh < 0:
		return nil, fmt.Errorf("host: Refresh %v: %w", c.Refresh, unix.EINVAL)
	case c.NamespaceFD < 0:
		return nil, fmt.Errorf("host: NamespaceFD %d: %w", c.NamespaceFD, unix.EBADF)
	case c.NamespaceFD != 0 && c.Namespace != "":
		return nil, fmt.Errorf("host: both Namespace %q and NamespaceFD %d: %w", c.Namespace, c.NamespaceFD, unix.EINVAL)
	}
	if c.ReceiveBuffer == 0 {
		c.ReceiveBuffer = 1 << 20
	}
	fd := -1
	switch {
	case c.NamespaceFD != 0:
		fd = c.NamespaceFD
	case c.Namespace != "":
		file, err := os.Open(c.Namespace)
		if err != nil {
			return nil, fmt.Errorf("host: network namespace: %w", err)
		}
		defer file.Close()
		fd = int(file.Fd())
	}
	var k *kernel
	err := InNamespace(fd, func() (err error) {
		k, err = newKernel(c.ReceiveBuffer)
		return err
	})
	if err != nil {
		return nil, err
	}
	return open(k, c.Refresh)
}

// refreshEvery is the default of Config.Refresh.
const refreshEvery = 4 * time.Second

// open starts a host on any source.
func open(src source, refresh time.Duration) (*Host, error) {
	if refresh == 0 {
		refresh = refreshEvery
	}
	h := &Host{src: src, refresh: refresh, watchers: map[int]func(Change){}, now: time.Now}
	var err error
	for range firstTries {
		if err = h.fetch(partAll); err == nil || !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		src.stop()
		src.close()
		return nil, err
	}
	h.publish(NewSnapshot(h.facts, 1))
	h.resolver = newResolver(h)
	h.running.Add(2)
	go h.mirror()
	go h.resolver.run()
	return h, nil
}

// firstTries is how often Open reads tables that change while they are read.
const firstTries = 20

// Snapshot is the host as it is known now: one atomic load. It may be kept.
func (h *Host) Snapshot() *Snapshot { return h.current.Load() }

// Generation moves when an answer of Route, Path or Local may have changed: one atomic load, to be compared with
// the Generation of the snapshot from which something was derived. Neighbours, which change far more often, do not move it: see
// Snapshot.ChangedNeighbours.
func (h *Host) Generation() uint64 { return h.generation.Load() }

// Watch makes the mirror's goroutine call f after each move of the generation and each change of a neighbour's answer. f must return at once:
// it is for waking a loop that sleeps. cancel ends it; f may still be running then.
func (h *Host) Watch(f func(Change)) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watched++
	id := h.watched
	h.watchers[id] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, id)
	}
}

// Refresh has the mirror read links, addresses, routes and rules again, and waits until Snapshot has what was read, for limit at the most: what
// the caller knows of the host, because another program or the caller itself has just changed it, may not be there yet. False: the time is over,
// and Snapshot may be behind. Any goroutine; not for a loop that polls.
func (h *Host) Refresh(limit time.Duration) bool {
	done := make(chan struct{})
	h.mu.Lock()
	h.refreshes = append(h.refreshes, done)
	h.mu.Unlock()
	if !h.src.refresh() {
		h.takeRefreshes()
		return false
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// takeRefreshes returns what Refresh has added to the list, and empties it.
func (h *Host) takeRefreshes() []chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.refreshes
	h.refreshes = nil
	return list
}

// Stats reads the counts.
func (h *Host) Stats() Stats {
	c := &h.stats
	return Stats{Notifications: c.notifications.Load(), Overruns: c.overruns.Load(), Reads: c.reads.Load(),
		Interrupted: c.interrupted.Load(), Failures: c.failures.Load(), Requests: c.requests.Load(),
		RequestFailures: c.requestFailures.Load(), RequestRefusals: c.requestRefusals.Load()}
}

// Close ends the mirror; the last snapshot stays readable. It returns when both goroutines have ended.
func (h *Host) Close() error {
	h.closed.Do(func() {
		h.src.stop()
		h.resolver.stop()
		h.running.Wait()
		h.src.close()
	})
	return nil
}

// retryAfter is how long a failed read waits for its next try. pauseShare is how many times the length of a read passes before
// the next one: however often the tables change, following them costs at most a fifth of a core.
const (
	retryAfter = 50 * time.Millisecond
	pauseShare = 4
	drainMax   = 1024 // datagrams between two snapshots
	rereads    = 4    // reads before a snapshot, when changes overtake them
)

// mirror follows the kernel until the source is stopped.
func (h *Host) mirror() {
	defer h.running.Done()
	var stale part
	var notBefore time.Time
	var refreshes []chan struct{} // of Refresh: the tables are to be read for them
	for {
		deadline := time.Time{}
		if stale != 0 {
			deadline = notBefore
		}
		var all batch
		const wait = true
		if h.receive(wait, deadline, &all) != nil {
			return
		}
		stale |= all.stale
		if list := h.takeRefreshes(); len(list) > 0 {
			refreshes = append(refreshes, list...)
			stale |= partRefresh
			notBefore = time.Time{} // the callers wait, so that they cannot ask often
		}
		var read part
		var spent, failure time.Duration
		for range rereads {
			start := time.Now()
			if stale == 0 || read == 0 && start.Before(notBefore) {
				break
			}
			if stale&partNeighbours != 0 {
				all.neighbours = nil // older than what is read now
			}
			err := h.fetch(stale)
			spent += time.Since(start)
			if err != nil {
				failure = h.onReadFailure(err)
				break
			}
			read |= stale
			// A change that was notified during the read may be in the tables that were read last and not in those that were read first: an
			// address's routes, and not the address. Then the tables are read once more before a snapshot has them.
			more := batch{}
			if h.receive(!wait, time.Time{}, &more) != nil {
				return
			}
			all.neighbours = append(all.neighbours, more.neighbours...)
			stale = more.stale
			if list := h.takeRefreshes(); len(list) > 0 { // their notification may have been received just now
				refreshes = append(refreshes, list...)
				stale |= partRefresh
			}
		}
		if spent != 0 {
			notBefore = time.Now().Add(max(spent*pauseShare, failure))
		}
		h.update(read, all.neighbours)
		if stale&partRefresh == 0 && read&partRefresh == partRefresh {
			for _, done := range refreshes {
				close(done)
			}
			refreshes = nil
		}
	}
}

// onReadFailure counts a read that failed, and returns how long the next try must wait at least.
func (h *Host) onReadFailure(err error) time.Duration {
	if errors.Is(err, unix.EINTR) {
		h.stats.interrupted.Add(1) // the table changed under the reader
		return 0
	}
	h.stats.failures.Add(1)
	return retryAfter
}

// receive adds the notifications that have come to all, at most drainMax; wait makes it wait for the first, until the deadline. An error means
// that the source was stopped.
func (h *Host) receive(wait bool, deadline time.Time, all *batch) error {
	for n := range drainMax {
		b, err := h.src.next(wait && n == 0, deadline)
		switch {
		case errors.Is(err, errTime):
			return nil
		case errors.Is(err, errOverrun):
			h.stats.overruns.Add(1)
			all.stale = partAll
			all.neighbours = nil // the table will be read whole
			continue
		case err != nil:
			return err
		}
		h.stats.notifications.Add(1)
		all.stale |= b.stale
		all.neighbours = append(all.neighbours, b.neighbours...)
	}
	return nil
}

// fetch reads tables of the kernel into h.facts, and counts it.
func (h *Host) fetch(want part) error {
	h.stats.reads.Add(1)
	return h.src.fetch(want, &h.facts)
}

// update publishes the next snapshot, from the tables that were read and the neighbours that notifications have changed, and notifies the
// watchers, if anything is new.
func (h *Host) update(read part, changes []neighbourChange) {
	was := h.current.Load()
	next := &Snapshot{generation: was.generation, serial: was.serial + 1, topology: was.topology, neighbours: was.neighbours,
		log: was.log}
	moved := false
	if read&^partNeighbours != 0 {
		if t := newTopology(&h.facts); !t.equal(was.topology) {
			next.topology, moved = t, true
		}
	}
	if read&partNeighbours != 0 {
		next.replaceNeighbours(h.facts.Neighbours)
		h.facts.Neighbours = nil // the map is the table now
	} else if len(changes) > 0 {
		next.neighbours = maps.Clone(was.neighbours)
	}
	for i := range changes {
		next.changeNeighbour(&changes[i])
	}
	if !moved && len(changes) == 0 && read&partNeighbours == 0 {
		return
	}
	if moved {
		next.generation++
	}
	h.resolver.forgetOvertaken(moved || read&partNeighbours != 0, changes)
	h.publish(next)
	if n := was.NeighbourChanges(); moved || next.NeighbourChanges() != n {
		list, ok := next.ChangedNeighbours(n)
		h.notify(Change{Tables: moved || !ok, Neighbours: list})
	}
}

// notify calls the watchers, in the order in which they began.
func (h *Host) notify(c Change) {
	h.mu.Lock()
	watchers := make([]func(Change), 0, len(h.watchers)) // in the order in which they began
	for _, id := range slices.Sorted(maps.Keys(h.watchers)) {
		watchers = append(watchers, h.watchers[id])
	}
	h.mu.Unlock()
	for _, f := range watchers {
		f(c)
	}
}

// publish stores the snapshot before its generation: a goroutine that reads the generation then loads that snapshot or a later one.
func (h *Host) publish(s *Snapshot) {
	h.current.Store(s)
	h.generation.Store(s.generation)
}
