package xtreme

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Pollers that divide the queues of interfaces (PollerConfig.QueueShare) open each interface together. The kernel gets what comes in on a queue
// that nobody serves, and its guard drops segments of our own TCP. So an interface that one of them opens is opened by the others too, and by
// those that are made later. Each begins in its next Poll, or its first one; a job makes the calls that wait for the kernel's configuration.
//
//	poller A: ListenTCP ──► attach eth0, queues 0, 2 … ──► openShares ──► posted to B
//	poller B: Poll ──► openShare ──► attach eth0, openLater     ··· polls on ···     takes over the links
//	                                   └─ job: bind queues 1, 3 … ──────────────────────┘

// openShares has all other pollers with a share open an interface that from has opened, by devices with the names below. It may wait: not for
// Poll.
func (e *Engine) openShares(from *Poller, ifName string, below []string) {
	e.nics.noteShared(ifName, below) // before the pollers are listed: one that is made now sees the name, or is on the list
	for _, p := range e.Pollers() {
		if p != from {
			p.openShareSoon(ifName)
		}
	}
}

// openSharesOf has a new poller open its shares of the interfaces that others have opened. The poller is on the engine's list by now, so that it
// does not miss an interface that is opened meanwhile: see openShares.
func (e *Engine) openSharesOf(p *Poller) {
	for _, ifName := range e.nics.sharedNames() {
		p.openShareSoon(ifName)
	}
}

// openShareSoon posts openShare to a poller with a share. Any goroutine.
func (p *Poller) openShareSoon(ifName string) {
	if p.offloaded != nil && p.offloaded.share.Of > 1 {
		_ = p.Post(func() { p.offloaded.openShare(ifName) }) // refused once the poller is closed: it serves nothing then
	}
}

// openShare attaches the poller to an interface that another one has opened, if it may open that and another poller still uses the engine's
// interfaces. It waits for nothing. Owner only.
func (f *offloading) openShare(ifName string) {
	if len(f.named) > 0 && !slices.ContainsFunc(f.named, func(i conf.Interface) bool { return i.Name == ifName }) {
		return
	}
	if f.mirror == nil {
		if f.mirror, f.exchange = f.poller.engine.nics.joinOpen(); f.mirror == nil {
			return // the last poller that had opened an interface has closed
		}
	}
	f.forgetClosedRing()
	snap := f.mirror.Snapshot()
	l, ok := snap.LinkByName(ifName)
	if !ok {
		return // it is gone, and with it what the other one had opened
	}
	var why []ring.Reason
	if p := snap.Path(l.Index); !p.Offload { // it has changed since the other one opened it: it belongs to a bond now, say
		why = []ring.Reason{{Code: p.Code, Text: p.Text}}
	} else {
		why = f.attach(snap, l.Index, 1, stampSource(f.time, &ring.Config{}), openLater)
	}
	for _, r := range why {
		f.poller.engine.log.Info("this poller's share of an interface is the kernel's", "poller", f.poller.name, "interface", ifName, "because", r.String())
	}
}
