package shadow

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// One look at procfs that fails is not the end of looking: what was known holds until it can be read again, and sockets are told once each way.
func TestALookForOtherMembersThatFails(t *testing.T) {
	f := GroupWatcher{search: &search{}}
	found := map[GroupFlow]struct{}{GroupFlow{host.GroupOn{Group: [4]byte{239, 1, 1, 1}, Interface: 2}, 7000}: {}}
	failed := errors.New("too many open files")
	for _, step := range []struct {
		found   map[GroupFlow]struct{}
		err     error
		version uint64
	}{{found, nil, 1}, {nil, failed, 2}, {nil, failed, 2}, {found, nil, 3}, {found, nil, 3}, {map[GroupFlow]struct{}{}, nil, 4}} {
		require.True(t, f.publish(f.search, &OtherSockets{Shared: step.found}, step.err), "it looks on")
		require.Equal(t, step.version, f.version.Load())
		require.ErrorIs(t, f.Why(), step.err)
		if step.err != nil {
			require.Equal(t, found, f.OtherSockets().Shared)
		} else {
			require.Equal(t, step.found, f.OtherSockets().Shared)
		}
	}
	require.False(t, f.publish(&search{}, &OtherSockets{Shared: found}, nil), "another watch looks")
}

// listing is a kernel that has lists alone.
type listing struct {
	Kernel
	has lists
}

func (l *listing) OpenMembers() (Members, error) { return &l.has, nil }

// lists are a kernel's lists, as the watcher reads them. meanwhile is called while it reads.
type lists struct {
	users     map[host.GroupOn]int
	bound     []host.Bound
	meanwhile func()
}

func (l *lists) Users() (map[host.GroupOn]int, error) { return l.users, nil }
func (l *lists) Limit() error                         { return nil }
func (l *lists) Close() error                         { return nil }
func (l *lists) Bound() (list []host.Bound, err error) {
	list = l.bound
	if l.meanwhile != nil {
		l.meanwhile()
	}
	return list, nil
}

// stepped is a watcher whose steps a test makes.
type stepped struct {
	*GroupWatcher
	kernel listing
	wakes  int
	step   func(nudged bool) time.Duration
}

func newStepped(t *testing.T) *stepped {
	w := &stepped{}
	w.GroupWatcher = NewGroupWatcher(WatcherConfig{Kernel: &w.kernel, Wake: func() { w.wakes++ },
		Repeat: func(step func(bool) time.Duration) (nudge, stop func()) {
			w.step = step
			return func() {}, func() {}
		}})
	t.Cleanup(func() { w.RemoveRing(1); w.RemoveRing(2) })
	return w
}

// look is two steps, of which the second confirms the first.
func (w *stepped) look() {
	if w.step(false) == confirmAfter {
		w.step(false)
	}
}

// A socket of ours is bound, and joins, some time before its owner says so: an owner can be displaced for longer than the watcher waits before
// it asks a second time. What was found is dropped when the owner has said it, whether it was published by then or is about to be.
func TestSocketOfOursThatIsNotedLate(t *testing.T) {
	on := host.GroupOn{Group: [4]byte{239, 1, 1, 1}, Interface: 2}
	flow := GroupFlow{on, 7000}
	joined := func(inode uint64) Joined {
		return Joined{Inode: inode, Port: 7000, Groups: map[host.GroupOn]int{on: 1}}
	}
	port := func(inode uint64) PortUse { return PortUse{Inode: inode, Port: 7000} }
	ours, late, other := host.Bound{Port: 7000, Inode: 1}, host.Bound{Port: 7000, Inode: 2}, host.Bound{Port: 7000, Inode: 3}
	note := map[string]func(w *stepped){
		"joined": func(w *stepped) { w.SetJoined(Key{2, 1}, joined(2)) },
		"port":   func(w *stepped) { w.SetPort(Key{2, 1}, port(2)) },
		"sends":  func(w *stepped) { w.AddSend(Key{2, 1}, 2, GroupFlow{on, 9}) },
	}
	for name, noteLate := range note {
		for _, when := range []string{"after it was published", "while it looks"} {
			for _, hasOther := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, another socket: %v", name, when, hasOther), func(t *testing.T) {
					w := newStepped(t)
					w.kernel.has.users, w.kernel.has.bound = map[host.GroupOn]int{on: 2}, []host.Bound{ours, late}
					if hasOther {
						w.kernel.has.users[on]++
						w.kernel.has.bound = append(w.kernel.has.bound, other)
					}
					w.SetJoined(Key{1, 1}, joined(1))
					w.SetPort(Key{1, 1}, port(1))
					if when == "while it looks" {
						require.Equal(t, confirmAfter, w.step(false))
						w.kernel.has.meanwhile = func() { w.kernel.has.meanwhile = nil; noteLate(w) }
						w.step(false)
					} else {
						w.look()
						require.Contains(t, w.OtherSockets().Shared, flow)
						require.Contains(t, w.OtherSockets().Ports, port(1))
						before := w.Version()
						noteLate(w)
						require.Equal(t, !hasOther, w.Version() != before, "rings read it again")
					}
					found := w.OtherSockets()
					for range 2 {
						if hasOther {
							require.Contains(t, found.Shared, flow)
							require.Contains(t, found.Ports, port(1))
						} else {
							require.Empty(t, found.Shared)
							require.Empty(t, found.Ports)
						}
						w.look()
						found = w.OtherSockets()
					}
				})
			}
		}
	}
}

// The same of a group that ours send to: who receives it decides whether the kernel sends a copy, and senders receive PATH when that changes.
func TestReceiverOfOursThatIsNotedLate(t *testing.T) {
	on := host.GroupOn{Group: [4]byte{239, 1, 1, 1}, Interface: 2}
	flow := GroupFlow{on, 7000}
	for _, when := range []string{"after it was published", "between two looks", "while it looks"} {
		for _, hasOther := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, another socket: %v", when, hasOther), func(t *testing.T) {
				w := newStepped(t)
				w.kernel.has.users, w.kernel.has.bound = map[host.GroupOn]int{on: 1}, []host.Bound{{Port: 7000, Inode: 2}}
				if hasOther {
					w.kernel.has.bound = append(w.kernel.has.bound, host.Bound{Port: 7000, Inode: 3})
				}
				noteLate := func() { w.SetJoined(Key{2, 1}, Joined{Inode: 2, Port: 7000, Groups: map[host.GroupOn]int{on: 1}}) }
				w.AddSend(Key{1, 1}, 1, flow)
				require.Equal(t, confirmAfter, w.step(false))
				switch when {
				case "between two looks":
					noteLate()
				case "while it looks":
					w.kernel.has.meanwhile = func() { w.kernel.has.meanwhile = nil; noteLate() }
				}
				w.step(false)
				if when == "after it was published" {
					require.True(t, w.OtherSockets().Received[flow])
					noteLate()
				}
				require.Equal(t, hasOther, w.OtherSockets().Received[flow])
				w.look()
				require.Equal(t, hasOther, w.OtherSockets().Received[flow])
			})
		}
	}
}

// A socket of ours is withdrawn before its descriptors are closed, and its owner may be displaced in between: it is nobody else's until the
// kernel has closed it. One that stays open, as a socket that is left to the kernel does, counts soon.
func TestSocketOfOursThatIsClosedLate(t *testing.T) {
	on := host.GroupOn{Group: [4]byte{239, 1, 1, 1}, Interface: 2}
	flow := GroupFlow{on, 7000}
	joined := func(inode uint64) Joined {
		return Joined{Inode: inode, Port: 7000, Groups: map[host.GroupOn]int{on: 1}}
	}
	port := PortUse{Inode: 1, Port: 7000}
	for name, withdraw := range map[string]func(w *stepped){
		"it leaves":          func(w *stepped) { w.SetJoined(Key{2, 1}, Joined{}); w.RemovePort(Key{2, 1}); w.RemoveSends(Key{2, 1}) },
		"its ring is closed": func(w *stepped) { w.RemoveRing(2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newStepped(t)
			w.kernel.has.users = map[host.GroupOn]int{on: 2}
			w.kernel.has.bound = []host.Bound{{Port: 7000, Inode: 1}, {Port: 7000, Inode: 2}}
			w.SetJoined(Key{1, 1}, joined(1))
			w.SetPort(Key{1, 1}, port)
			w.AddSend(Key{1, 1}, 1, flow)
			w.SetJoined(Key{2, 1}, joined(2))
			w.SetPort(Key{2, 1}, PortUse{Inode: 2, Port: 7000})
			w.AddSend(Key{2, 1}, 2, flow)
			w.look()
			require.False(t, w.OtherSockets().Received[flow])
			withdraw(w)
			for range 2 {
				w.step(false)
				require.False(t, w.OtherSockets().Received[flow], "still open")
				require.Empty(t, w.OtherSockets().Shared)
				require.Empty(t, w.OtherSockets().Ports)
			}
			for range leftLooks + 1 {
				w.look()
			}
			require.True(t, w.OtherSockets().Received[flow], "it stays open: it receives what the kernel gives it")
			require.Contains(t, w.OtherSockets().Shared, flow)
			require.Contains(t, w.OtherSockets().Ports, port)
		})
	}
}
