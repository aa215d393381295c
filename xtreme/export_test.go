package xtreme

import (
	"encoding/json"
	"io"
)

// The pages of feeds.
type (
	FeedPage = feedPage
	LinePage = linePage
)

// HoldLock takes the engine's lock until the returned function is called.
func (e *Engine) HoldLock() (release func()) {
	e.mu.Lock()
	return e.mu.Unlock
}

// Capture answers a request for a capture, as the statistics' control socket does.
func (e *Engine) Capture(with json.RawMessage, w io.Writer) error { return e.stats.capture(with, w) }

// OpenDrops opens the block for the drops of an offloaded ring, as is done before the ring is made.
func (p *Poller) OpenDrops() { p.monitor.offloadDrops() }

// JoinInterfaces makes a user of what offloaded rings share; leave undoes that.
func (e *Engine) JoinInterfaces() (leave func() error, err error) {
	_, _, err = e.nics.join()
	return e.nics.leave, err
}

// HasExchange reports whether there is an exchange.
func (e *Engine) HasExchange() bool { return e.nics.currentExchange() != nil }

// OpenShare opens the poller's share of an interface, as is done after another poller has opened the interface.
func OpenShare(p *Poller, ifName string) { p.offloaded.openShare(ifName) }
