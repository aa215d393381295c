package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Tables that are made up are followed as a kernel's are: watchers are notified of a change that moves an answer, and of no other.
func TestMake(t *testing.T) {
	f := twoLinks()
	h, change, err := OpenTables(f)
	require.NoError(t, err)
	told := make(chan Change, 16)
	defer h.Watch(func(c Change) { told <- c })()
	first := h.Generation()
	change(f) // the same
	f.Links = append([]Link(nil), f.Links...)
	f.Links[1].Flags = 0
	change(f)
	require.Equal(t, Change{Tables: true}, <-told)
	require.Equal(t, first+1, h.Generation())
	w, err := h.Snapshot().Route(Query{Target: ip("8.8.8.8")})
	require.NoError(t, err)
	require.Equal(t, 3, w.Interface)
	require.NoError(t, h.Close())
	change(f) // of a host that is closed: nothing happens
	change(f)
}
