package nic

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Every move of the table happens in one of these lives of an attachment, and no other move.
func TestLegalMoves(t *testing.T) {
	var mu sync.Mutex
	seen := map[[2]State]string{}
	name := ""
	observeMove = func(from, to State) {
		mu.Lock()
		defer mu.Unlock()
		seen[[2]State{from, to}] = name
	}
	t.Cleanup(func() { observeMove = nil })
	for _, life := range []struct {
		name string
		live func(w *world)
	}{
		{"lost and opened again", func(w *world) {
			r := w.attached(1)
			w.lose("e0")
			r.check()
			require.Equal(w.t, Closing, r.state("e0"))
			require.Zero(w.t, r.carrying())
			r.until("e0", Attached)
			require.Equal(w.t, 2, w.opened)
			require.Equal(w.t, 1, r.carrying())
			r.close()
		}},
		{"opened again in vain, and given up while it has nothing", func(w *world) {
			r := w.attached(1)
			w.failing["e0"] = true
			w.lose("e0")
			r.until("e0", Opening)
			r.until("e0", Closed)
			require.NotZero(w.t, r.a.Due())
			r.close()
		}},
		{"opened halfway", func(w *world) {
			w.queues, w.refuse[1] = 2, true
			r := w.ring(1)
			require.ErrorIs(w.t, r.a.Add(Interface{Name: "e0"}), errFake)
			require.Equal(w.t, Left, r.state("e0"))
			require.Empty(w.t, r.a.list)
			r.close()
		}},
		{"opened halfway again, and given up while that is closed", func(w *world) {
			w.queues = 2
			r := w.attached(1)
			w.refuse[1] = true
			w.lose("e0")
			r.until("e0", Closed)
			w.hold("close")
			r.until("e0", Opening)
			r.until("e0", Closing)
			w.held("close")
			r.close("close")
		}},
		{"given up while it is opened again", func(w *world) {
			r := w.attached(1)
			w.hold("prepare")
			w.lose("e0")
			r.until("e0", Opening)
			w.held("prepare")
			r.close("prepare")
		}},
		{"a child follows its base", func(w *world) {
			r := w.attached(1)
			require.NoError(w.t, r.a.Add(Interface{Name: "e0", On: "v0", VLAN: 5}))
			require.Equal(w.t, Attached, r.state("v0"))
			require.Equal(w.t, 2, r.carrying())
			w.lose("e0")
			r.check()
			require.Equal(w.t, Closed, r.state("v0"))
			r.until("v0", Attached)
			require.Equal(w.t, 2, r.carrying())
			r.close()
		}},
		{"takes over the queue of another ring", func(w *world) {
			r, other := w.beside(2, []int{1})
			other.close()
			r.check()
			require.Equal(w.t, Expanding, r.state("e0"))
			r.until("e0", Attached)
			require.Equal(w.t, 2, r.carrying())
			r.close()
		}},
		{"cannot use one of two queues, and takes both over later", func(w *world) {
			r, other := w.beside(3, []int{1, 2})
			other.close()
			w.broken[1] = true
			w.hold("close")
			r.until("e0", Trimming)
			require.Equal(w.t, 1, r.carrying())
			w.pass("close")
			r.until("e0", Attached)
			w.broken = map[int]bool{}
			for r.carrying() < 3 {
				r.check()
			}
			r.close()
		}},
		{"lost while it takes over a queue", func(w *world) {
			r, other := w.beside(2, []int{1})
			w.hold("prepare")
			other.close()
			r.until("e0", Expanding)
			w.held("prepare")
			w.lose("e0")
			r.check()
			require.Equal(w.t, Lost, r.state("e0"))
			w.pass("prepare")
			r.until("e0", Closing)
			r.until("e0", Attached)
			r.close()
		}},
		{"lost while it closes what it could not use", func(w *world) {
			r, other := w.beside(3, []int{1, 2})
			other.close()
			w.broken[1] = true
			w.hold("close")
			r.until("e0", Trimming)
			w.held("close")
			w.lose("e0")
			r.check()
			require.Equal(w.t, Lost, r.state("e0"))
			w.broken = map[int]bool{}
			w.pass("close")
			r.until("e0", Attached)
			r.close()
		}},
		{"lost without a link, and the device noticed by another ring", func(w *world) {
			w.queues = 1
			other, third, r := w.ring(1), w.ring(2), w.ring(3)
			require.NoError(w.t, other.a.Add(Interface{Name: "e0"}))
			require.NoError(w.t, third.a.Add(Interface{Name: "e0", Queues: []int{}}))
			require.NoError(w.t, r.a.Add(Interface{Name: "e0"}))
			require.Zero(w.t, r.carrying())
			w.hold("prepare")
			w.refuse[0] = true
			other.close()
			r.until("e0", Expanding)
			w.held("prepare")
			w.lose("e0")
			third.check() // it has the device to close
			r.check()
			require.Equal(w.t, Lost, r.state("e0"))
			w.pass("prepare")
			r.until("e0", Closed)
			w.refuse = map[int]bool{}
			r.until("e0", Attached)
			r.close()
			third.close()
		}},
		{"given up while it takes over a queue", func(w *world) {
			r, other := w.beside(2, []int{1})
			w.hold("prepare")
			other.close()
			r.until("e0", Expanding)
			w.held("prepare")
			r.close("prepare")
		}},
		{"given up while it closes what it could not use", func(w *world) {
			r, other := w.beside(3, []int{1, 2})
			other.close()
			w.broken[1] = true
			w.hold("close")
			r.until("e0", Trimming)
			w.held("close")
			r.close("close")
		}},
		{"given up when it was lost while it took over a queue", func(w *world) {
			r, other := w.beside(2, []int{1})
			w.hold("prepare")
			other.close()
			r.until("e0", Expanding)
			w.held("prepare")
			w.lose("e0")
			r.check()
			require.Equal(w.t, Lost, r.state("e0"))
			r.close("prepare")
		}},
	} {
		name = life.name
		t.Run(life.name, func(t *testing.T) { life.live(newWorld(t)) })
	}
	for from := range numStates {
		for to := range numStates {
			_, happened := seen[[2]State{from, to}]
			require.Equal(t, legalMoves[from].has(to), happened, "%v to %v", from, to)
		}
	}
}

// attached is a ring that is attached to e0.
func (w *world) attached(number int) *fakeRing {
	r := w.ring(number)
	require.NoError(w.t, r.a.Add(Interface{Name: "e0"}))
	require.Equal(w.t, Attached, r.state("e0"))
	require.Equal(w.t, w.queues, r.carrying())
	return r
}

// beside is a ring that takes whatever queues of e0 are free, beside another one that has some.
func (w *world) beside(queues int, theirs []int) (r, other *fakeRing) {
	w.queues = queues
	r, other = w.ring(1), w.ring(2)
	require.NoError(w.t, other.a.Add(Interface{Name: "e0", Queues: theirs}))
	require.NoError(w.t, r.a.Add(Interface{Name: "e0"}))
	require.Equal(w.t, queues-len(theirs), r.carrying())
	return r, other
}

// A move that is not in the table is refused, leaves the state as it is, and is counted; where tests asked for that it panics.
func TestIllegalMoves(t *testing.T) {
	old := illegalMove
	t.Cleanup(func() { illegalMove = old })
	illegalMove = func(_, _ State) {}
	for from := range numStates {
		for to := range numStates {
			p := &attachment{set: &Attachments{}, state: from}
			legal := legalMoves[from].has(to)
			require.Equal(t, legal, p.move(to), "%v to %v", from, to)
			if legal {
				require.Equal(t, to, p.state)
				require.Zero(t, p.set.stats.IllegalMoves)
				continue
			}
			require.Equal(t, from, p.state)
			require.Equal(t, uint64(1), p.set.Stats().IllegalMoves)
		}
	}
	PanicOnIllegalMoves()
	p := &attachment{set: &Attachments{}, state: Left}
	require.PanicsWithValue(t, "nic: an attachment cannot go from left to opening", func() { p.move(Opening) })
}

// A member that goes leaves, and comes back as another attachment; roles follow the host.
func TestMembersComeAndGo(t *testing.T) {
	w := newWorld(t)
	enslave := func(name string, master int) {
		w.having(name, func(l *host.Link) { l.Master = master })
	}
	enslave("e0", b0)
	enslave("e1", b0)
	w.having("b0", func(l *host.Link) { l.BondMode, l.BondActive = host.BondActiveBackup, e0 })
	snap := w.host.Snapshot()
	path := snap.Path(b0)
	require.True(t, path.Offload, "%v", path)
	r := w.ring(1)
	require.NoError(t, r.a.Add(Interface{Name: "b0", Bond: true}))
	require.Equal(t, 2, r.carrying())
	roles := func() (list []Role) {
		for _, l := range r.links {
			if l != nil {
				list = append(list, l.Role)
			}
		}
		return list
	}
	require.Equal(t, []Role{Active, Backup}, roles())
	w.having("b0", func(l *host.Link) { l.BondActive = e1 })
	r.check()
	require.Equal(t, []Role{Backup, Active}, roles())
	enslave("e0", 0)
	r.until("e0", Left)
	require.Equal(t, 1, r.carrying())
	enslave("e0", b0)
	r.until("e0", Attached)
	require.Equal(t, 2, r.carrying())
	require.Len(t, r.links, 2, "the place of one that left is used again")
	r.close()
}

// An interface that was deleted and made again has another number: the driver is told, and the attachment counts as lost until its job has
// ended.
func TestMadeAgain(t *testing.T) {
	w := newWorld(t)
	r := w.attached(1)
	ended := make(chan struct{})
	r.rejoin = r.a.Start(func() { <-ended }, func() {})
	w.having("e0", func(l *host.Link) { l.Index = 17 })
	r.until("e0", Attached)
	for len(r.renamed) == 0 {
		r.check()
	}
	require.Equal(t, [][2]int{{e0, 17}}, r.renamed)
	require.Equal(t, 17, r.a.CurrentIndex(e0))
	require.Zero(t, r.carrying())
	require.Equal(t, "link.joining", r.a.Statuses()[0].Why.Code)
	close(ended)
	r.rejoin.Await()
	r.rejoin.Finish()
	r.check()
	require.Equal(t, 1, r.carrying())
	r.close()
}

// A target where the sockets' flows cannot be claimed is none: nothing is attached.
func TestRefusedTarget(t *testing.T) {
	w := newWorld(t)
	r := w.ring(1)
	r.refuse = unix.ENOSPC
	for range 3 {
		require.ErrorIs(t, r.a.Add(Interface{Name: "e0"}), unix.ENOSPC)
		require.Empty(t, r.a.list)
	}
	require.Len(t, r.links, 1)
	r.close()
}

// A link that the caller made is listed as the others; when it is lost it is closed, and not opened again.
func TestLinkOfTheCaller(t *testing.T) {
	w := newWorld(t)
	d := &fakeDevice{w: w, info: link.Info{Name: "mem0", MTU: 1500, Headroom: 128}}
	made := func() func(string, Patience) (Device, error) {
		w.links++
		return OpenLinks(w.host, map[string]link.Staged{"e0": &fakeLink{d: d, info: d.info}, "nosuchif": nil})
	}
	w.table = NewTable(TableConfig{Host: w.host, Open: made()})
	r := w.ring(1)
	require.ErrorIs(t, r.a.Add(Interface{Name: "e1"}), unix.ENODEV)
	require.ErrorIs(t, r.a.Add(Interface{Name: "nosuchif"}), unix.ENODEV)
	require.NoError(t, r.a.Add(Interface{Name: "e0"}))
	require.True(t, r.a.Has(e0))
	r.check()
	require.Equal(t, 1, r.carrying())
	require.Zero(t, r.told)
	w.mu.Lock()
	d.lost = true
	w.mu.Unlock()
	r.check()
	require.Zero(t, r.carrying())
	require.Equal(t, 1, r.told)
	require.Equal(t, "link.detached", r.a.Statuses()[0].Why.Code)
	for end := time.Now().Add(10 * time.Second); r.a.Stats().RetryFailures < 2; r.check() {
		require.True(t, time.Now().Before(end))
		time.Sleep(time.Millisecond)
	}
	require.Contains(t, r.a.Statuses()[0].Why.Text, "is not made again")
	require.Zero(t, w.links)
	r.close()

	w.table = NewTable(TableConfig{Host: w.host, Open: made()})
	r = w.ring(1)
	require.NoError(t, r.a.Add(Interface{Name: "e0", Queues: []int{}}))
	require.Equal(t, 1, w.links)
	r.close()
	require.Zero(t, w.links, "closed with its device")
}

// A ring without attachments has nothing to look at.
func TestNone(t *testing.T) {
	var a Attachments
	require.False(t, a.NeedsCheck(0, 1))
	require.False(t, a.HasEvents())
	a.Check(0)
	require.Empty(t, a.Statuses())
	require.Equal(t, 7, a.CurrentIndex(7))
	require.NoError(t, a.Close())
	require.Equal(t, "unknown state", fmt.Sprint(numStates))
}

func init() { PanicOnIllegalMoves() }

// A ring that names queues gets those of them that the device was opened with; it is refused where there is none of these, or where one is not
// there at all. Of a bond that goes for each member.
func TestQueuesThatADeviceLeavesOut(t *testing.T) {
	for name, c := range map[string]struct {
		leftOut, queues []int
		links           int // 0: refused
		says            string
	}{
		"some":                  {[]int{0, 3}, []int{0, 1}, 1, ""},
		"all":                   {[]int{0, 3}, []int{3, 0}, 0, "e0: Queues are [3 0], the interface is opened with [1 2]"},
		"none, and not there":   {[]int{0, 3}, []int{1, 4}, 0, "e0: Queues has 4, the interface [1 2]"},
		"some, and not there":   {[]int{0, 3}, []int{0, 1, 4}, 0, "e0: Queues has 4, the interface [1 2]"},
		"of a ring without any": {[]int{0, 3}, []int{}, -1, ""},
	} {
		for _, bond := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " bond: ", bond), func(t *testing.T) {
				w := newWorld(t)
				w.queues, w.leftOut = 4, c.leftOut
				i := Interface{Name: "e0", Queues: c.queues}
				if bond {
					w.having("e0", func(l *host.Link) { l.Master = b0 })
					w.having("b0", func(l *host.Link) { l.BondMode, l.BondActive = host.BondActiveBackup, e0 })
					i.Name, i.Bond = "b0", true
				}
				r := w.ring(1)
				err := r.a.Add(i)
				if c.links == 0 {
					require.ErrorIs(t, err, unix.EINVAL)
					require.ErrorContains(t, err, c.says)
				} else {
					require.NoError(t, err)
					require.Equal(t, max(c.links, 0), r.carrying())
				}
				require.NoError(t, r.a.Close())
			})
		}
	}
}
