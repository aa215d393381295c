package xtreme

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

// chosen is a kind of ring and why it is not a better one.
type chosen struct {
	kind    conf.RingKind
	driver  func(ring.DriverConfig) (ring.Driver, error)
	reasons []ring.Reason
	offload bool // this kind is for what the offloaded ring beside it does not carry
}

// notAsked is the first reason of every path of a kernel ring.
func notAsked(want conf.RingKind) ring.Reason {
	text := fmt.Sprintf("not offload: %s was asked for", want)
	if want == conf.RingAuto {
		text = "not offload: auto takes kernel rings, our own stack must be asked for"
	}
	return ring.Reason{Code: "offload.not_asked", Text: text}
}

// candidates, best first.
var candidates = []struct {
	kind   conf.RingKind
	probe  func() error
	driver func(ring.DriverConfig) (ring.Driver, error)
}{
	{conf.RingUring, uring.Probe, uring.New},
	{conf.RingEpoll, epoll.Probe, epoll.New},
}

// choose decides once per kind asked for. A kind asked for by name is had or is an error; auto takes the first that works and
// keeps the reasons of those before it. Beside an offloaded ring is the one that auto takes.
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
	certain := true
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
			reason, known := reasonOf(k.kind, err)
			c.reasons = append(c.reasons, reason)
			certain = certain && known
			continue
		}
		c.kind, c.driver = k.kind, k.driver
		break // what follows would be no better path
	}
	if c.driver == nil {
		return chosen{}, fmt.Errorf("xtreme: no kind of ring works here: %v", c.reasons)
	}
	if certain { // a shortage of the moment is no reason for a lesser kind the next time
		e.kinds[asked] = c
	}
	return c, nil
}

// reasonOf is why a kind cannot be used; not known when the kernel's answer may be another one the next time.
func reasonOf(kind conf.RingKind, err error) (r ring.Reason, known bool) {
	var f *ring.FeatureError
	if errors.As(err, &f) {
		return ring.Reason{Code: f.Code, Text: "not " + string(kind) + ": " + f.Error()}, true
	}
	return ring.Reason{Code: string(kind) + ".error", Text: "not " + string(kind) + ": " + err.Error()}, false
}
