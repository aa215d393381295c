package host

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// SteppedConfig is a simulated kernel as a Host reads it.
type SteppedConfig struct {
	Facts   func() Facts         // all tables as they are now
	Request func(t Target) error // has the kernel look for a neighbour
	Now     func() time.Time
}

// Steps is what moves a Host that has no goroutine: it reads, and speaks for its neighbours, when it is told to. One goroutine.
type Steps struct{ host *Host }

// NeighbourChange is a notification about a neighbour.
type NeighbourChange struct {
	Neighbour
	Gone bool
}

// OpenStepped makes a Host over a simulated kernel. It behaves as one that Open made, at the times that the Steps say.
func OpenStepped(c SteppedConfig) (*Host, *Steps, error) {
	h := &Host{src: stepped{c}, refresh: refreshEvery, watchers: map[int]func(Change){}, now: c.Now}
	if err := h.fetch(partAll); err != nil {
		return nil, nil, err
	}
	h.publish(NewSnapshot(h.facts, 1))
	h.resolver = newResolver(h)
	h.resolver.inline = true
	return h, &Steps{h}, nil
}

// Read reads all tables but the neighbours, as after a notification that they have changed.
func (s *Steps) Read() error {
	h := s.host
	h.stats.notifications.Add(1)
	if err := h.fetch(partAll); err != nil {
		return err
	}
	h.update(partAll&^partNeighbours, nil)
	return nil
}

// Neighbours is a notification about neighbours.
func (s *Steps) Neighbours(changes []NeighbourChange) {
	s.host.stats.notifications.Add(1)
	list := make([]neighbourChange, len(changes))
	for i, c := range changes {
		list[i] = neighbourChange{c.Neighbour, c.Gone}
	}
	s.host.update(0, list)
}

// Tick tells the kernel which neighbours are in use. It is due once a second.
func (s *Steps) Tick() {
	list := s.host.resolver.due(nil, s.host.now())
	slices.SortFunc(list, func(a, b *Hop) int { return cmp.Or(cmp.Compare(a.Interface, b.Interface), a.Addr.Compare(b.Addr)) })
	for _, hop := range list {
		s.host.resolver.request(hop.Target)
	}
}

// stepped is a source that is asked and says nothing by itself.
type stepped struct{ SteppedConfig }

var errStepped = errors.New("host: a simulated kernel has no notifications of its own")

func (s stepped) next(bool, time.Time) (batch, error) { return batch{}, errStepped }

func (s stepped) fetch(_ part, to *Facts) error {
	*to = s.Facts()
	return nil
}

func (s stepped) request(t Target) error { return s.Request(t) }
func (s stepped) refresh() bool          { return false } // there is no goroutine that would read
func (s stepped) stop()                  {}
func (s stepped) close()                 {}
