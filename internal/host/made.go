package host

import (
	"sync"
	"time"
)

// Make is a host of tables that are made up, for tests of kinds of interface that the kernel at hand lacks. change gives it others, which are
// followed as the kernel's are; nobody looks for neighbours there.
func Make(f Facts) (h *Host, change func(Facts), err error) {
	m := &made{facts: f, news: make(chan struct{}, 1), ended: make(chan struct{})}
	if h, err = open(m, 0); err != nil {
		return nil, nil, err
	}
	return h, func(f Facts) {
		m.mu.Lock()
		m.facts = f
		m.mu.Unlock()
		select {
		case m.news <- struct{}{}:
		default: // the last ones were not taken yet
		}
	}, nil
}

// made is a source whose kernel is a caller.
type made struct {
	mu    sync.Mutex
	facts Facts
	news  chan struct{}
	ended chan struct{}
}

func (m *made) next(wait bool, deadline time.Time) (batch, error) {
	var late <-chan time.Time
	switch {
	case !wait:
		select {
		case <-m.news:
			return batch{stale: partAll}, nil
		case <-m.ended:
			return batch{}, errClosed
		default:
			return batch{}, errTime
		}
	case !deadline.IsZero():
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-m.news:
		return batch{stale: partAll}, nil
	case <-m.ended:
		return batch{}, errClosed
	case <-late:
		return batch{}, errTime
	}
}

func (m *made) fetch(_ part, to *Facts) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	*to = Facts{Links: append([]Link(nil), m.facts.Links...), Away: append([]Child(nil), m.facts.Away...),
		Addresses: append([]Address(nil), m.facts.Addresses...), Routes: append([]Route(nil), m.facts.Routes...), Rules: m.facts.Rules,
		Neighbours: append([]Neighbour(nil), m.facts.Neighbours...), PathMTUs: m.facts.PathMTUs}
	return nil
}

func (m *made) kick(Target) error { return nil }
func (m *made) stop()             { close(m.ended) }
func (m *made) close()            {}
