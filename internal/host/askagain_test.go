package host

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// One request a second is for a neighbour that has not answered. When it has answered, when the kernel has dropped its entry (ip neigh del, an
// interface that goes down), or when the tables have changed (the interface is up again), the next packet asks at once, as the kernel's own
// does.
func TestResolveAsksAgainAfterNews(t *testing.T) {
	for name, news := range map[string]func(*fake){
		"the neighbour has answered": func(f *fake) { f.neighbour(neighbour(gateway, unix.NUD_REACHABLE, 9), false) },
		"its entry is gone":          func(f *fake) { f.neighbour(neighbour(gateway, unix.NUD_FAILED, 0), true) },
		"a link has changed":         func(f *fake) { f.say(func(t *Facts) { t.Links[1].Flags = 0 }, batch{stale: partLinks | partRoutes}) },
		"all was read again":         func(f *fake) { f.said <- func() (batch, error) { return batch{}, errOverrun } },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(twoLinks())
			h := newHost(t, f)
			asked, err := h.Resolve(gateway)
			require.NoError(t, err)
			require.True(t, asked)
			eventually(t, "it was asked for", func() bool { return len(f.kicks()) == 1 })
			other := Target{3, ip("10.0.1.9")} // whose news end the test's wait
			f.mu.Lock()
			f.tables.Neighbours = []Neighbour{neighbour(other, unix.NUD_REACHABLE, 7)} // where the table is read
			f.mu.Unlock()
			news(f)
			f.neighbour(f.tables.Neighbours[0], false)
			eventually(t, "the news are seen", func() bool { _, ok := h.Snapshot().Neighbour(other); return ok })
			asked, err = h.Resolve(gateway)
			require.NoError(t, err)
			require.True(t, asked)
			asked, err = h.Resolve(gateway)
			require.NoError(t, err)
			require.False(t, asked, "once")
		})
	}
}

// A failure is no answer: who is not there is asked for once a second.
func TestResolveDoesNotAskAgainAfterFailure(t *testing.T) {
	f := newFake(twoLinks())
	h := newHost(t, f)
	_, err := h.Resolve(gateway)
	require.NoError(t, err)
	f.neighbour(neighbour(gateway, unix.NUD_FAILED, 0), false)
	eventually(t, "the failure is seen", func() bool { n, _ := h.Snapshot().Neighbour(gateway); return n.Failed() })
	asked, err := h.Resolve(gateway)
	require.NoError(t, err)
	require.False(t, asked)
}
