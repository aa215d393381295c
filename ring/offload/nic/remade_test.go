package nic

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// without removes an interface from the host's tables, and waits until the mirror has them.
func (w *world) without(name string) {
	w.having(name, func(*host.Link) {
		w.facts.Links = slices.DeleteFunc(w.facts.Links, func(l host.Link) bool { return l.Name == name })
	})
}

// remade makes an interface with index old again, with another index. Its members and VLANs follow. It may have been deleted before.
func (w *world) remade(old host.Link, index int) {
	w.facts.Links = slices.DeleteFunc(slices.Clone(w.facts.Links), func(l host.Link) bool { return l.Name == old.Name })
	was := old.Index
	old.Index = index
	w.facts.Links = append(w.facts.Links, old)
	w.having(old.Name, func(*host.Link) {
		for i := range w.facts.Links {
			if l := &w.facts.Links[i]; l.Master == was {
				l.Master = index
			}
		}
	})
}

// linkNow is an interface as the host's tables have it.
func (w *world) linkNow(name string) host.Link {
	l, ok := w.host.Snapshot().LinkByName(name)
	require.True(w.t, ok)
	return l
}

// A ring without a queue has no link at a place that could be renumbered. It notices all the same that the interface which has the addresses was
// deleted and made again: the driver joins the groups of its sockets there again.
func TestMadeAgainWithoutQueues(t *testing.T) {
	for _, x := range []struct {
		name, on string
		add      []Interface
	}{
		{"a VLAN", "v0", []Interface{{Name: "e0", On: "v0", VLAN: 5, Queues: []int{}}}},
		{"a VLAN beside its base", "v0", []Interface{{Name: "e0", Queues: []int{}}, {Name: "e0", On: "v0", VLAN: 5}}},
		{"a bond", "b0", []Interface{{Name: "b0", Bond: true, Queues: []int{}}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t)
			if x.on == "b0" {
				w.having("b0", func(l *host.Link) { l.BondMode, l.BondActive = host.BondActiveBackup, e0 })
				w.having("e0", func(l *host.Link) { l.Master = b0 })
			}
			other := w.attached(1)
			r := w.ring(2)
			for _, i := range x.add {
				require.NoError(t, r.a.Add(i))
			}
			require.Zero(t, r.carrying())
			old := w.linkNow(x.on)
			require.True(t, r.a.Has(old.Index))
			r.check()
			require.Empty(t, r.renamed)
			if x.on == "v0" {
				w.without("v0")
				r.check()
				require.Empty(t, r.renamed)
			}
			w.remade(old, 33)
			r.check()
			require.Equal(t, [][2]int{{old.Index, 33}}, r.renamed)
			require.True(t, r.a.Has(33))
			require.False(t, r.a.Has(old.Index))
			require.Equal(t, 33, r.a.CurrentIndex(old.Index))
			for range 3 {
				r.check()
			}
			require.Len(t, r.renamed, 1, "the driver is told once")
			r.close()
			other.close()
		})
	}
}

// The interface is deleted a second time while the first place is renumbered: all places have the new index, or none.
func TestMadeAgainTwice(t *testing.T) {
	w := newWorld(t)
	w.queues = 2
	r := w.ring(1)
	require.NoError(t, r.a.Add(Interface{Name: "e0", On: "v0", VLAN: 5}))
	require.Equal(t, 2, r.carrying())
	old := w.linkNow("v0")
	indexes := func() (list []int) {
		for _, l := range r.links {
			list = append(list, l.IfIndex)
		}
		return list
	}
	w.remade(old, 33)
	again := w.linkNow("v0")
	r.onRenumbered = func() {
		r.onRenumbered = nil
		w.without("v0")
	}
	r.check()
	require.Nil(t, r.onRenumbered)
	w.remade(again, 33)
	r.check()
	require.Equal(t, []int{33, 33}, indexes())
	require.Equal(t, [][2]int{{v0, 33}}, r.renamed)
	r.close()
}

// The first try to open an interface that was made again fails: the driver learns the other index all the same.
func TestMadeAgainAndRefusedOnce(t *testing.T) {
	w := newWorld(t)
	r := w.attached(1)
	w.broken[0] = true
	w.having("e0", func(l *host.Link) { l.Index = 17 })
	r.until("e0", Opening)
	r.until("e0", Closed)
	w.broken = map[int]bool{}
	r.until("e0", Attached)
	require.Equal(t, [][2]int{{e0, 17}}, r.renamed)
	require.Equal(t, 17, r.a.CurrentIndex(e0))
	r.close()
}

// A link that carries less than its interface still does when that was made again.
func TestMadeAgainWithASmallerMTU(t *testing.T) {
	w := newWorld(t)
	w.linkMTU = 1400
	r := w.ring(1)
	require.NoError(t, r.a.Add(Interface{Name: "e0", On: "v0", VLAN: 5}))
	require.Equal(t, 1400, r.links[0].MTU)
	w.remade(w.linkNow("v0"), 33)
	r.check()
	require.Equal(t, 33, r.links[0].IfIndex)
	require.Equal(t, 1400, r.links[0].MTU)
	r.close()
}
