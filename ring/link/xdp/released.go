package xdp

import (
	"sync"
	"time"
)

// releaseLimit is how long after the close of an AF_XDP socket of this process a busy queue is taken for its own former one.
const releaseLimit = 3 * time.Second

// queueID names a queue of an interface. Two network namespaces may use one number; the only effect is a longer wait for a busy queue.
type queueID struct{ ifIndex, queue int }

// releases remembers when this process closed the AF_XDP socket of a queue. The kernel unbinds the socket later, in a work item that takes the
// lock of its network configuration (xp_release_deferred). Until then bind(2) answers EBUSY, as it does for a queue of another process, and
// without CONFIG_XDP_SOCKETS_DIAG nothing tells the two apart. On a host that configures interfaces at the same time the lock is often taken
// for longer than Config.Retry. Any goroutine.
type releases struct {
	mu sync.Mutex
	at map[queueID]time.Time
}

var releasedQueues = releases{at: map[queueID]time.Time{}}

// add notes that the socket of a queue was closed now. It forgets the notes that no longer matter.
func (r *releases) add(q queueID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.at {
		if now.Sub(at) > releaseLimit {
			delete(r.at, id)
		}
	}
	r.at[q] = now
}

// retryUntil is the time until which a bind to the queue is tried again after EBUSY.
func (r *releases) retryUntil(q queueID, now time.Time, retry time.Duration) time.Time {
	until := now.Add(retry)
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.at[q]; ok && at.Add(releaseLimit).After(until) {
		return at.Add(releaseLimit)
	}
	return until
}
