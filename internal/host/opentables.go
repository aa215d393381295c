package host

import (
	"sync"
	"time"
)

// OpenTables makes a Host that mirrors tables of the caller instead of a kernel's, for tests of kinds of interface that the kernel at hand
// lacks. change replaces the tables, and the Host follows as it follows the kernel; requests for neighbours do nothing.
func OpenTables(f Facts) (h *Host, change func(Facts), err error) {
	m := &tablesSource{facts: f, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	if h, err = open(m, 0); err != nil {
		return nil, nil, err
	}
	return h, func(f Facts) {
		m.mu.Lock()
		m.facts = f
		m.mu.Unlock()
		select {
		case m.changed <- struct{}{}:
		default: // the last ones were not taken yet
		}
	}, nil
}

// tablesSource is the source of OpenTables.
type tablesSource struct {
	mu      sync.Mutex
	facts   Facts
	changed chan struct{}
	ended   chan struct{}
}

// next waits for a change of the tables; see source.
func (m *tablesSource) next(wait bool, deadline time.Time) (batch, error) {
	var late <-chan time.Time
	switch {
	case !wait:
		select {
		case <-m.changed:
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
	case <-m.changed:
		return batch{stale: partAll}, nil
	case <-m.ended:
		return batch{}, errClosed
	case <-late:
		return batch{}, errTime
	}
}

// fetch copies all tables, whichever are asked for.
func (m *tablesSource) fetch(_ part, to *Facts) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	*to = Facts{Links: append([]Link(nil), m.facts.Links...), RemoteChildren: append([]Child(nil), m.facts.RemoteChildren...),
		Addresses: append([]Address(nil), m.facts.Addresses...), Routes: append([]Route(nil), m.facts.Routes...), Rules: m.facts.Rules,
		Neighbours: append([]Neighbour(nil), m.facts.Neighbours...), PathMTUs: m.facts.PathMTUs}
	return nil
}

func (m *tablesSource) request(Target) error { return nil }
func (m *tablesSource) refresh() bool {
	select {
	case m.changed <- struct{}{}:
	default: // it is to be read already
	}
	return true
}
func (m *tablesSource) stop()  { close(m.ended) }
func (m *tablesSource) close() {}
