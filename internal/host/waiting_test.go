package host

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

var limits = WaitingLimits{Packets: 4, PerTarget: 2, Time: time.Second}

// line is a queue and what came out of it.
type line struct {
	*Waiting[int]
	t     *testing.T
	given []string
	sent  []string
	held  int // a packet that cannot be sent, unless it is 0
}

func newLine(t *testing.T, l WaitingLimits) *line {
	q := &line{t: t}
	var err error
	q.Waiting, err = NewWaiting(l, func(p int, to Target, why GiveUp) {
		q.given = append(q.given, fmt.Sprintf("%d %v %v", p, to.Addr, why))
	})
	require.NoError(t, err)
	return q
}

func (q *line) check(s *Snapshot) {
	q.Check(s, func(p int, n Neighbour) bool {
		if p == q.held {
			return false
		}
		q.sent = append(q.sent, fmt.Sprintf("%d %v", p, n.MAC))
		return true
	})
}

func at(serial uint64, n ...Neighbour) *Snapshot { return NewSnapshot(Facts{Neighbours: n}, serial) }

var (
	targetA = Target{2, ip("10.0.0.1")}
	targetB = Target{3, ip("10.0.1.1")}
	targetC = Target{3, ip("10.0.1.2")}
)

func TestWaitingSendsInOrder(t *testing.T) {
	q := newLine(t, limits)
	s := at(1)
	q.Add(0, s, targetA, 1)
	q.Add(0, s, targetB, 2)
	q.Add(0, s, targetA, 3)
	require.Equal(t, 3, q.Len())
	require.True(t, q.Waits(targetA))
	require.False(t, q.Waits(targetC))
	q.check(s)
	require.Empty(t, q.sent)

	q.check(at(2, neighbour(targetA, unix.NUD_REACHABLE, 9)))
	require.Equal(t, []string{"1 02:00:00:00:00:09", "3 02:00:00:00:00:09"}, q.sent)
	require.Equal(t, 1, q.Len())
	require.False(t, q.Waits(targetA))
	require.Empty(t, q.given)
}

// A packet that cannot be sent yet keeps its place, before the others to its neighbour, and is tried again by the next Check.
func TestWaitingForAnotherReason(t *testing.T) {
	q := newLine(t, limits)
	q.held = 3
	s := at(1)
	for p, to := range []Target{targetA, targetA, targetB} {
		q.Add(0, s, to, 2+p)
	}
	s = at(2, neighbour(targetA, unix.NUD_REACHABLE, 9), neighbour(targetB, unix.NUD_REACHABLE, 8))
	for range 2 {
		q.check(s)
		require.Equal(t, []string{"2 02:00:00:00:00:09", "4 02:00:00:00:00:08"}, q.sent)
		require.Equal(t, 1, q.Len())
	}
	q.held = 0
	q.check(s)
	require.Equal(t, "3 02:00:00:00:00:09", q.sent[2])
	require.Zero(t, q.Len())
	require.Empty(t, q.given)
}

func TestWaitingKeepsTheLatest(t *testing.T) {
	q := newLine(t, limits)
	s := at(1)
	for p := range 4 {
		q.Add(0, s, targetA, p)
	}
	require.Equal(t, []string{"0 10.0.0.1 neighbour.oldest", "1 10.0.0.1 neighbour.oldest"}, q.given)
	q.Add(0, s, targetB, 4)
	q.Add(0, s, targetB, 5)
	q.Add(0, s, targetC, 6)
	require.Equal(t, "6 10.0.1.2 neighbour.full", q.given[2])
	require.False(t, q.Waits(targetC))
	q.Add(0, s, targetB, 7)
	require.Equal(t, "4 10.0.1.1 neighbour.oldest", q.given[3])
	require.EqualValues(t, 3, q.GivenUp(GiveUpOldest))
	require.EqualValues(t, 1, q.GivenUp(GiveUpFull))
	require.Equal(t, 4, q.Len())

	q = newLine(t, WaitingLimits{Packets: 2, PerTarget: 2, Time: time.Second})
	q.Add(0, s, targetA, 1)
	q.Add(0, s, targetB, 2)
	q.Add(0, s, targetA, 3)
	require.Equal(t, []string{"1 10.0.0.1 neighbour.oldest"}, q.given, "no place left: its own oldest gives way, not another's")
}

func TestWaitingTimesOut(t *testing.T) {
	q := newLine(t, limits)
	require.Equal(t, clock.Never, q.Deadline())
	q.Add(100, at(1), targetA, 1)
	q.Add(200, at(1), targetB, 2)
	q.Add(300, at(1), targetA, 3)
	second := clock.Time(time.Second)
	require.Equal(t, second+100, q.Deadline())
	q.Expire(second + 99)
	require.Empty(t, q.given)
	q.Expire(second + 200)
	require.Equal(t, []string{"1 10.0.0.1 neighbour.time", "2 10.0.1.1 neighbour.time"}, q.given)
	require.Equal(t, second+300, q.Deadline())
}

// TestWaitingFailsOnNewFailuresOnly: an entry may be FAILED from long ago; the kernel is asked anew.
func TestWaitingFailsOnNewFailuresOnly(t *testing.T) {
	failed := neighbour(targetA, unix.NUD_FAILED, 0)
	failed.Serial = 3
	q := newLine(t, limits)
	q.Add(0, at(5, failed), targetA, 1)
	q.check(at(5, failed))
	q.check(at(6, failed))
	require.Empty(t, q.given)
	failed.Serial = 7
	q.check(at(7, failed))
	require.Equal(t, []string{"1 10.0.0.1 neighbour.failed"}, q.given)
	require.Zero(t, q.Len())
}

// TestWaitingLooksAgain: the sender looked into an older snapshot than the last Check did.
func TestWaitingLooksAgain(t *testing.T) {
	q := newLine(t, limits)
	older, newer := at(1), at(2, neighbour(targetA, unix.NUD_STALE, 9))
	q.check(newer)
	q.Add(0, older, targetA, 1)
	q.check(newer)
	require.Equal(t, []string{"1 02:00:00:00:00:09"}, q.sent)
}

func TestWaitingDrops(t *testing.T) {
	q := newLine(t, limits)
	s := at(1)
	q.Add(0, s, targetA, 1)
	q.Add(0, s, targetB, 2)
	q.Add(0, s, targetC, 3)
	q.Drop(targetA)
	q.Drop(targetA)
	require.Equal(t, []string{"1 10.0.0.1 neighbour.closed"}, q.given)
	q.Add(0, s, targetA, 4)
	q.DropInterface(3)
	require.Len(t, q.given, 3)
	require.Equal(t, 1, q.Len())
	q.Close()
	require.Len(t, q.given, 4)
	require.Zero(t, q.Len())
	require.EqualValues(t, 4, q.GivenUp(GiveUpClosed))
}

func TestWaitingArguments(t *testing.T) {
	gone := func(int, Target, GiveUp) {}
	for says, l := range map[string]WaitingLimits{
		"Packets 0":        {PerTarget: 1, Time: 1},
		"PerTarget 0":      {Packets: 1, Time: 1},
		"PerTarget 3 of 2": {Packets: 2, PerTarget: 3, Time: 1},
		"Time 0s":          {Packets: 1, PerTarget: 1},
	} {
		_, err := NewWaiting(l, gone)
		require.ErrorContains(t, err, says)
		require.ErrorIs(t, err, unix.EINVAL)
	}
	_, err := NewWaiting[int](limits, nil)
	require.ErrorContains(t, err, "gaveUp")
}

// TestWaitingAccounts runs random operations: every packet comes out once, and per neighbour in order.
func TestWaitingAccounts(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		last, out := map[Target]int{}, 0
		leave := func(p int, to Target, why GiveUp) {
			if why != GiveUpFull {
				require.Greater(t, p, last[to], "seed %d", seed)
				last[to] = p
			}
			out++
		}
		w, err := NewWaiting(WaitingLimits{Packets: 1 + r.IntN(8), PerTarget: 1, Time: 50}, leave)
		require.NoError(t, err)
		w.limits.PerTarget = 1 + r.IntN(w.limits.Packets)
		now := clock.Time(0)
		const packets = 500
		for p := 1; p <= packets; p++ {
			to := Target{1 + r.IntN(3), targetA.Addr}
			w.Add(now, at(uint64(p)), to, p)
			switch now = now.Add(time.Duration(r.IntN(30))); r.IntN(6) {
			case 0:
				w.Expire(now)
				require.True(t, now.Before(w.Deadline()))
			case 1:
				w.Check(at(uint64(p+1), neighbour(to, unix.NUD_REACHABLE, 9)), func(p int, n Neighbour) bool {
					leave(p, n.Target, 0)
					return true
				})
			case 2:
				w.DropInterface(1)
			}
			require.Equal(t, p, out+w.Len(), "seed %d", seed)
		}
		w.Close()
		require.Equal(t, packets, out)
	}
}

func TestWaitingAllocatesNothing(t *testing.T) {
	w, err := NewWaiting(limits, func(int, Target, GiveUp) {})
	require.NoError(t, err)
	none, found := at(1), at(2, neighbour(targetA, unix.NUD_REACHABLE, 9))
	send := func(int, Neighbour) bool { return true }
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for p := range 3 {
			w.Add(0, none, targetA, p)
			w.Add(0, none, targetB, p)
		}
		w.Check(none, send)
		w.Check(found, send)
		w.Expire(clock.Never)
	}))
}
