package xtreme

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

// chosen is the kind of kernel ring that an engine's pollers use.
type chosen struct {
	kind    conf.RingKind // uring or epoll
	driver  func(ring.DriverConfig) (ring.Driver, error)
	reasons []ring.Reason // why no better kind was taken; sockets' paths show them
	offload bool          // offload was asked for: the kernel ring carries what the offloaded ring beside it cannot
}

// notAsked is the reason why a poller of another kind than offload has no offloaded ring; want is the kind that was asked for.
func notAsked(want conf.RingKind) ring.Reason {
	text := fmt.Sprintf("not offload: %s was asked for", want)
	if want == conf.RingAuto {
		text = "not offload: auto takes kernel rings, our own stack must be asked for"
	}
	return ring.Reason{Code: "offload.not_asked", Text: text}
}

// candidates are the kinds of kernel ring, the best first.
var candidates = []struct {
	kind   conf.RingKind
	probe  func() error
	driver func(ring.DriverConfig) (ring.Driver, error)
}{
	{conf.RingUring, uring.Probe, uring.New},
	{conf.RingEpoll, epoll.Probe, epoll.New},
}

// choose decides which kind of kernel ring a poller gets that asks for want. A kind that is asked for by name must work, else it is an error.
// RingAuto and RingOffload take the first candidate that works, with the reasons why those before it do not. The decision is remembered, so
// that the kernel is probed once for each kind asked for.
func (e *Engine) choose(want conf.RingKind) (chosen, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return chosen{}, fmt.Errorf("xtreme: engine: %w", ring.ErrClosed)
	}
	if c, ok := e.kinds[want]; ok {
		return c, nil
	}
	c := chosen{offload: want == conf.RingOffload}
	asked := want
	if c.offload {
		want = conf.RingAuto
	} else {
		c.reasons = []ring.Reason{notAsked(want)}
	}
	lasting := true // the reasons will be the same the next time
	for _, k := range candidates {
		if want != conf.RingAuto && want != k.kind {
			c.reasons = append(c.reasons, ring.Reason{Code: string(k.kind) + ".not_asked",
				Text: fmt.Sprintf("not %s: %s was asked for", k.kind, want)})
			continue
		}
		if err := k.probe(); err != nil {
			if want == k.kind {
				return chosen{}, fmt.Errorf("xtreme: ring kind %s: %w", want, err)
			}
			reason, lasts := reasonOf(k.kind, err)
			c.reasons = append(c.reasons, reason)
			lasting = lasting && lasts
			continue
		}
		c.kind, c.driver = k.kind, k.driver
		break // those that follow are no better
	}
	if c.driver == nil {
		return chosen{}, fmt.Errorf("xtreme: no kind of ring works here: %v", c.reasons)
	}
	if lasting { // else probe again: memory or descriptors may have been short for a moment
		e.kinds[asked] = c
	}
	return c, nil
}

// reasonOf returns why a kind of ring cannot be used, from the error of its probe. lasts says that the next probe will fail in the same way:
// the kernel lacks a feature.
func reasonOf(kind conf.RingKind, err error) (r ring.Reason, lasts bool) {
	var f *ring.FeatureError
	if errors.As(err, &f) {
		return ring.Reason{Code: f.Code, Text: "not " + string(kind) + ": " + f.Error()}, true
	}
	return ring.Reason{Code: string(kind) + ".error", Text: "not " + string(kind) + ": " + err.Error()}, false
}
