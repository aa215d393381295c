package xtreme

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// callerMemory lists the memory of callers (PollerConfig.Memory) that pollers of this process use, of all engines: two pollers with the same
// buffers would overwrite each other's packets.
var callerMemory struct {
	sync.Mutex
	claims []*memoryClaim
}

// memoryClaim keeps the memory of one poller from others. nil: the poller maps its own.
type memoryClaim struct {
	poller string
	region *sys.Region
	held   bool // the poller was closed with packets still held, which stay valid
}

// claimMemory claims a caller's memory for a poller that is being made. It is an error if another poller uses a part of it.
func claimMemory(poller string, region *sys.Region) (*memoryClaim, error) {
	callerMemory.Lock()
	defer callerMemory.Unlock()
	for _, c := range callerMemory.claims {
		if !c.region.Overlaps(region) {
			continue
		}
		state := "which is open"
		if c.held {
			state = "which was closed with packets still held"
		}
		return nil, fmt.Errorf("PollerConfig.Memory: the memory overlaps that of poller %q, %s: %w", c.poller, state, unix.EBUSY)
	}
	c := &memoryClaim{poller: poller, region: region}
	callerMemory.claims = append(callerMemory.claims, c)
	return c, nil
}

// release ends the claim, before the region is closed.
func (c *memoryClaim) release() {
	if c == nil {
		return
	}
	callerMemory.Lock()
	defer callerMemory.Unlock()
	if i := slices.Index(callerMemory.claims, c); i >= 0 {
		callerMemory.claims = slices.Delete(callerMemory.claims, i, i+1)
	}
}

// hold makes the claim last for the rest of the process, because the application still has packets in the memory.
func (c *memoryClaim) hold() {
	if c == nil {
		return
	}
	callerMemory.Lock()
	defer callerMemory.Unlock()
	c.held = true
}
