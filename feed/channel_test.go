package feed

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// seg is a packet of session 7.
func seg(line uint8, seq uint64, count uint32, at int64) Segment[uint64] {
	return Segment[uint64]{Session: 7, Seq: seq, Count: count, Line: line, Arrival: at}
}

func (r *rig) transitions() (all []State) {
	for _, e := range r.events {
		if e.Kind == StateChanged {
			all = append(all, e.To)
		}
	}
	return all
}

func (r *rig) last(k Kind) Event {
	for i := len(r.events) - 1; i >= 0; i-- {
		if r.events[i].Kind == k {
			return r.events[i]
		}
	}
	require.Failf(r.t, "no such event", "%v in %v", k, r.events)
	return Event{}
}

func TestFirstArrivalWinsPerMessage(t *testing.T) {
	r := newRig(t, Config{Lines: 2, GapTime: 1000})
	r.in(seg(0, 1, 4, 10)) // A: 1 2 3 4
	r.in(seg(1, 3, 4, 20)) // B cuts otherwise: 5 6 are new
	r.in(seg(0, 5, 2, 30)) // A's copy
	r.in(seg(1, 1, 4, 40)) // a twin of the first
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 6}, r.out)
	a, b := r.c.Line(0), r.c.Line(1)
	require.Equal(t, uint64(4), a.FirstWins)
	require.Equal(t, uint64(2), a.Duplicates)
	require.Equal(t, uint64(2), b.FirstWins)
	require.Equal(t, uint64(6), b.Duplicates)
	require.Zero(t, a.Lost)
	require.Equal(t, uint64(2), b.Reordered, "B brought 1 and 2 after 3: its own hole from the epoch's first message on")
	require.Zero(t, b.Lost)
	require.Equal(t, uint64(1), b.Gaps)
	require.Equal(t, uint64(7), a.Next)
	require.Equal(t, uint64(7), b.Next)
	require.Len(t, r.twins, 1)
	require.Equal(t, int64(30), r.twins[0].Lag)
	require.Equal(t, uint8(0), r.twins[0].TwinLine)
	require.Equal(t, []State{Sync}, r.transitions())
}

func TestParkedInTheMiddleOfALaterPacket(t *testing.T) {
	r := newRig(t, Config{Lines: 2, GapTime: 1000})
	r.in(seg(0, 1, 1, 10))
	r.in(seg(1, 4, 2, 20)) // 4 5 wait
	require.Equal(t, GapWait, r.c.Stats().State)
	r.in(seg(0, 2, 6, 30)) // 2 3, then B's 4 5, then 6 7
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 6, 7}, r.out)
	require.Equal(t, uint64(2), r.c.Line(1).FirstWins)
	require.Equal(t, uint64(5), r.c.Line(0).FirstWins)
	require.Equal(t, uint64(2), r.c.Line(0).Duplicates)
	require.Equal(t, uint64(2), r.c.Stats().FilledByLine)
	require.Equal(t, uint64(2), r.c.Line(0).Filled)
	require.Zero(t, r.c.Line(1).Filled)
	require.Equal(t, []State{Sync, GapWait, Sync}, r.transitions())
}

func TestAHeartbeatRevealsTheLossOfTheTail(t *testing.T) {
	r := newRig(t, Config{Lines: 1, GapTime: 100})
	r.in(seg(0, 1, 3, 0))
	r.in(seg(0, 6, 0, 50)) // 4 and 5 were lost
	require.Equal(t, GapWait, r.c.Stats().State)
	r.c.Poll(149)
	r.drain()
	require.Equal(t, GapWait, r.c.Stats().State)
	require.Equal(t, int64(150), r.c.Deadline())
	r.c.Poll(150)
	r.drain()
	s := r.c.Stats()
	require.Equal(t, Stale, s.State)
	require.Equal(t, uint64(2), s.Unrecovered)
	e := r.last(GaveUp)
	require.Equal(t, []uint64{4, 6}, []uint64{e.Seq, e.End})
	require.Equal(t, CauseNoRecovery, e.Cause)
	require.Equal(t, uint64(2), r.c.Line(0).Lost)

	r.in(seg(0, 5, 1, 160))
	require.Equal(t, uint64(1), r.c.Line(0).Late, "it comes after it was given up")
	r.c.Resynced(170)
	r.drain()
	require.Equal(t, Sync, r.c.Stats().State)
	r.in(seg(0, 6, 1, 180))
	require.Equal(t, []Range{{4, 6}}, r.lost)
}

// What is missing is told with the arrival of the newest packet in front of it, also of a heartbeat; of two gaps each has its own.
func TestMissedTellsSinceWhen(t *testing.T) {
	r := newRig(t, Config{Lines: 2, GapTime: 100})
	r.in(seg(0, 1, 4, 10))
	r.in(seg(1, 1, 4, 20)) // the twin
	r.in(seg(0, 5, 0, 25)) // a heartbeat: nothing is missing yet
	r.in(seg(0, 7, 2, 30)) // 5 and 6 are missing
	r.in(seg(1, 7, 2, 40))
	r.in(seg(1, 10, 1, 50)) // and 9
	r.in(seg(0, 11, 1, 200))
	var since, behind []int64
	for _, e := range r.events {
		if e.Kind == Missed {
			since, behind = append(since, e.Since), append(behind, e.Behind)
		}
	}
	require.Equal(t, []int64{25, 30}, since)
	require.Equal(t, []int64{30, 50}, behind)
}

// How long messages took that are missing is told by those in front of them, without the pause of a sender that was silent before the gap.
func TestMissedTellsThePace(t *testing.T) {
	const us, ms = int64(1e3), int64(1e6)
	var r *rig
	now, seq := second, uint64(1)
	flow := func(packets int, every int64) {
		for range packets {
			now += every
			r.in(seg(0, seq, 3, now))
			seq += 3
		}
	}
	r = newRig(t, Config{Lines: 1, GapTime: 2 * ms})
	flow(3000, 100*us)
	last := now
	seq, now = seq+60, now+200*ms // 20 packets are skipped behind a pause
	flow(100, 100*us)
	e := r.last(Missed)
	require.Equal(t, [2]int64{last, last + 200*ms + 100*us}, [2]int64{e.Since, e.Behind})
	require.InDelta(t, 2*ms, e.Took, float64(ms)/2)

	r, seq = newRig(t, Config{Lines: 1, GapTime: 2 * ms}), 1 // a feed that is slow
	flow(600, 5*second)
	seq += 3
	flow(1, 10*second)
	r.c.Poll(now + 2*ms)
	r.drain()
	e = r.last(Missed)
	require.Equal(t, 10*second, e.Behind-e.Since)
	require.InDelta(t, 5*second, e.Took, float64(second))
}

// What no line brings within the window is reported with its range, and again when the recovery server brings it; what another line brings in
// time is not.
func TestMissedAndFilledAreReported(t *testing.T) {
	r := newRig(t, Config{Lines: 2, GapTime: 100, Recovery: RecoveryConfig{Attempts: 1, Timeout: 50}})
	r.in(seg(0, 1, 2, 0))
	r.in(seg(0, 9, 1, 10)) // 3 to 8 are not here
	r.in(seg(1, 3, 2, 20)) // the other line has 3 and 4
	r.c.Poll(110)
	r.drain()
	e := r.last(Missed)
	require.Equal(t, []uint64{5, 9}, []uint64{e.Seq, e.End})
	require.Equal(t, CauseDue, e.Cause)
	var q Request
	require.True(t, r.c.Request(110, &q))
	r.in(seg(Recovery, 5, 3, 120))
	e = r.last(Filled)
	require.Equal(t, []uint64{5, 8}, []uint64{e.Seq, e.End})
	require.EqualValues(t, Recovery, e.Line)
	r.c.Poll(1000)
	r.drain()
	r.c.Poll(2000)
	r.drain()
	e = r.last(GaveUp)
	require.Equal(t, []uint64{8, 9}, []uint64{e.Seq, e.End})
	n := 0
	for _, e := range r.events {
		if e.Kind == Missed {
			n++
		}
	}
	require.Equal(t, 1, n)
}

func TestABacklogOfOneLineDoesNotOutrunTheOther(t *testing.T) {
	r := newRig(t, Config{Lines: 2, GapTime: 10, PollOnly: true})
	r.in(seg(0, 1, 1, 0))
	for q := uint64(3); q < 50; q++ { // A's backlog is longer than the gap window
		r.in(seg(0, q, 1, int64(q)))
	}
	r.in(seg(1, 2, 1, 2)) // and only then B is read
	require.Len(t, r.out, 49)
	r.c.Tick(51)
	r.in(seg(0, 51, 1, 20)) // it had waited in the socket for long
	r.c.Poll(60)
	r.drain()
	require.Len(t, r.out, 49)
	r.c.Poll(61)
	r.drain()
	require.Len(t, r.out, 50)
}

func TestRecoveryAsksWithinBoundsAndGivesUp(t *testing.T) {
	r := newRig(t, Config{Lines: 1, GapPackets: 1, Recovery: RecoveryConfig{Attempts: 3, Timeout: 10, TimeoutMax: 25,
		MaxMessages: 4}})
	var q Request
	r.in(seg(0, 1, 1, 0))
	r.in(seg(0, 12, 1, 0))
	require.False(t, r.c.Request(0, &q), "the hole still waits for another line")
	r.in(seg(0, 13, 1, 0))
	require.Equal(t, Recovering, r.c.Stats().State)
	for i, at := range []int64{0, 10, 30} {
		require.True(t, r.c.Request(at, &q))
		require.Equal(t, Request{Range{2, 6}, 7, i + 1}, q)
		require.False(t, r.c.Request(at, &q), "one at a time")
	}
	require.Equal(t, int64(55), r.c.Deadline())
	r.c.Poll(55)
	r.drain()
	require.Equal(t, Stale, r.c.Stats().State)
	require.Equal(t, CauseAttempts, r.last(GaveUp).Cause)
	require.Equal(t, uint64(3), r.c.Stats().Requests)
	require.Equal(t, []uint64{1, 12, 13}, r.out)
}

// TestDeadlineIsNotInThePastBesideAnOutstandingRequest: a loop that sleeps until Deadline must not spin because a second hole waits for
// its turn to be asked for.
func TestDeadlineIsNotInThePastBesideAnOutstandingRequest(t *testing.T) {
	r := newRig(t, Config{Lines: 1, GapTime: 5, Recovery: RecoveryConfig{Attempts: 2, Timeout: 100, TimeoutMax: 100, Outstanding: 2}})
	r.in(seg(0, 1, 1, 0))
	for q := uint64(3); q <= 7; q += 2 { // three holes: 2, 4 and 6
		r.in(seg(0, q, 1, 0))
	}
	var asked []int64
	now := int64(0)
	for turn := 0; r.c.Deadline() < 1<<62; turn++ {
		require.Less(t, turn, 20, "the loop spins at %d: Deadline is %d after Poll, Next and Request", now, r.c.Deadline())
		now = max(now, r.c.Deadline()) // the sleep
		r.c.Poll(now)
		r.drain()
		for q := (Request{}); r.c.Request(now, &q); {
			asked = append(asked, now)
		}
		require.Greater(t, r.c.Deadline(), now, "nothing is left to do at %d", now)
	}
	require.Equal(t, []int64{5, 5, 105, 105, 205, 305}, asked, "two at once: the first two holes twice, then the third twice")
	require.Equal(t, uint64(3), r.c.Stats().Unrecovered)
}

func TestRecoveryGoesOnAsAnswersCome(t *testing.T) {
	for _, onePacket := range []bool{false, true} {
		r := newRig(t, Config{Lines: 1, Recovery: RecoveryConfig{Attempts: 2, Timeout: 10, MaxMessages: 6,
			OnePacket: onePacket}})
		var q Request
		r.in(seg(0, 1, 1, 0))
		r.in(seg(0, 11, 1, 0))
		require.True(t, r.c.Request(0, &q))
		require.Equal(t, Range{2, 8}, q.Range)
		r.in(seg(Recovery, 2, 3, 1)) // a part of the answer
		require.Equal(t, onePacket, r.c.Request(1, &q), "only a server that answers with one packet is asked again at once")
		if onePacket {
			require.Equal(t, Range{5, 11}, q.Range)
			require.Equal(t, 1, q.Attempt)
			r.in(seg(Recovery, 5, 6, 2))
		} else {
			r.in(seg(Recovery, 5, 3, 2))
			require.True(t, r.c.Request(2, &q))
			require.Equal(t, Range{8, 11}, q.Range)
			r.in(seg(Recovery, 8, 3, 3))
		}
		require.Equal(t, Sync, r.c.Stats().State)
		require.Equal(t, uint64(9), r.c.Stats().FilledByRecovery)
		require.Equal(t, uint64(9), r.c.Line(Recovery).Filled)
		require.Equal(t, 9, r.byRec)
		require.Len(t, r.out, 11)
		require.Equal(t, []State{Sync, Recovering, Sync}, r.transitions())
	}
}

func TestRecoveryBudget(t *testing.T) {
	r := newRig(t, Config{Lines: 1, Recovery: RecoveryConfig{Attempts: 100, Timeout: 1, TimeoutMax: 1, Budget: 5,
		BudgetTime: 1000}})
	r.in(seg(0, 1, 1, 0))
	r.in(seg(0, 5, 1, 0))
	asked := 0
	for now := range int64(2000) {
		for q := (Request{}); r.c.Request(now, &q); {
			asked++
		}
	}
	require.Equal(t, 10, asked)
	require.Equal(t, int64(2000), r.c.Deadline())
}

func TestRejectedGivesUp(t *testing.T) {
	r := newRig(t, Config{Lines: 1, Recovery: RecoveryConfig{Attempts: 3}})
	r.in(seg(0, 1, 1, 0))
	r.in(seg(0, 5, 1, 0))
	var q Request
	require.True(t, r.c.Request(1, &q))
	r.c.Rejected(2, q.Range)
	r.drain()
	require.Equal(t, []uint64{1, 5}, r.out)
	require.Equal(t, CauseRejected, r.last(GaveUp).Cause)
	require.Equal(t, uint64(1), r.c.Stats().Rejects)
}

func TestALateJoinerAsksForTheBeginning(t *testing.T) {
	r := newRig(t, Config{Lines: 1, Start: 1, Recovery: RecoveryConfig{Attempts: 1, MaxMessages: 100}})
	r.in(seg(0, 50, 2, 0))
	var q Request
	require.True(t, r.c.Request(0, &q))
	require.Equal(t, Range{1, 50}, q.Range)
	r.in(seg(Recovery, 1, 49, 1))
	require.Len(t, r.out, 51)
}

func TestOverflowGivesUpTheOldestHole(t *testing.T) {
	t.Run("slots", func(t *testing.T) {
		r := newRig(t, Config{Lines: 1, Slots: 3, GapTime: 1 << 40})
		r.in(seg(0, 1, 1, 0))
		for q := uint64(3); q <= 7; q += 1 {
			r.in(seg(0, q, 1, 0))
		}
		require.Equal(t, []uint64{1, 3, 4, 5, 6, 7}, r.out)
		require.Equal(t, CauseOverflow, r.last(GaveUp).Cause)
		require.Equal(t, uint64(1), r.c.Stats().Overflows)
	})
	t.Run("window", func(t *testing.T) {
		r := newRig(t, Config{Lines: 1, Window: 64, GapTime: 1 << 40})
		r.in(seg(0, 1, 1, 0))
		r.in(seg(0, 3, 1, 0))
		r.in(seg(0, 60, 2, 0))
		r.in(seg(0, 66, 1, 0)) // 2…66 is more than the window: 2 goes, 3 comes out, then it fits
		require.Equal(t, []uint64{1, 3}, r.out)
		r.in(seg(0, 1000, 100, 0)) // longer than the window
		require.Equal(t, append([]uint64{1, 3, 60, 61, 66}, r.out[5:]...), r.out)
		require.Len(t, r.out, 105)
		require.Equal(t, Stale, r.c.Stats().State)
	})
	t.Run("holes", func(t *testing.T) {
		r := newRig(t, Config{Lines: 1, Holes: 4, GapTime: 1 << 40})
		for q := uint64(1); q < 40; q += 2 {
			r.in(seg(0, q, 1, 0))
		}
		require.LessOrEqual(t, r.c.Stats().HolesMax, 4)
		r.c.Flush(0)
		r.drain()
		require.Len(t, r.out, 20)
	})
}

func TestEpochs(t *testing.T) {
	base := Config{Lines: 2, GapTime: 1 << 40, EpochStart: 1}
	sent := func(s Segment[uint64], at int64) Segment[uint64] { s.Sent = at; return s }
	t.Run("session", func(t *testing.T) {
		r := newRig(t, base)
		r.in(seg(0, 100, 2, 0))
		r.in(seg(0, 104, 2, 0)) // a hole that nothing will fill
		next := seg(0, 1, 1, 5)
		next.Session = 8
		r.in(next)
		require.Equal(t, []uint64{100, 101, 104, 105, 1}, r.out, "the old epoch's parked messages come before the new one")
		require.Equal(t, uint32(2), r.c.Stats().Epoch)
		require.Equal(t, CauseSession, r.last(GaveUp).Cause)
		r.in(seg(1, 102, 2, 6)) // the other line's straggler does not bring the old session back
		require.Equal(t, uint64(1), r.c.Line(1).OldEpoch)
		require.Equal(t, uint64(8), r.c.Stats().Session)
	})
	t.Run("a stray packet of another session does not deafen", func(t *testing.T) {
		r := newRig(t, base)
		r.in(seg(0, 100, 1, 0))
		stray := seg(0, 1, 1, 0)
		stray.Session = 9
		r.in(stray)
		for q := uint64(101); q < 101+sessionBack; q++ {
			require.Equal(t, uint32(2), r.c.Stats().Epoch)
			r.in(seg(0, q, 1, 0))
		}
		require.Equal(t, uint32(3), r.c.Stats().Epoch)
		require.Equal(t, uint64(7), r.c.Stats().Session)
	})
	t.Run("restart in the same session", func(t *testing.T) {
		r := newRig(t, base)
		r.in(sent(seg(0, 1, 50, 0), 10*second))
		r.in(sent(seg(1, 1, 50, 1), 10*second))
		r.in(sent(seg(0, 1, 0, 2), 20*second)) // a heartbeat from the beginning, ten seconds newer
		require.Equal(t, uint32(2), r.c.Stats().Epoch)
		require.Equal(t, CauseRestart, r.last(EpochBegan).Cause)
		r.in(sent(seg(1, 40, 11, 3), 10*second)) // the other line is behind: still the old epoch
		require.Equal(t, uint64(1), r.c.Line(1).OldEpoch)
		r.in(sent(seg(1, 1, 0, 4), 20*second)) // and does not restart again
		r.in(sent(seg(0, 1, 3, 5), 20*second+1))
		require.Equal(t, uint32(2), r.c.Stats().Epoch)
		require.Len(t, r.out, 53)
	})
	t.Run("an old packet that is a little newer is no restart", func(t *testing.T) {
		r := newRig(t, base)
		r.in(sent(seg(0, 1, 50, 0), 10*second))
		r.in(sent(seg(1, 1, 50, 1), 11*second))
		require.Equal(t, uint32(1), r.c.Stats().Epoch)
		r.in(sent(seg(Recovery, 1, 50, 2), 99*second))
		require.Equal(t, uint32(1), r.c.Stats().Epoch, "a recovery server's send time proves nothing")
	})
	t.Run("reset", func(t *testing.T) {
		r := newRig(t, base)
		r.in(sent(seg(0, 90, 3, 0), 10))
		reset := sent(seg(0, 1, 1, 0), 20)
		reset.Reset = true
		r.in(reset)
		reset.Line = 1
		r.in(reset) // the other line's copy of the same reset
		require.Equal(t, uint32(2), r.c.Stats().Epoch)
		require.Equal(t, []uint64{90, 91, 92, 1}, r.out)
		require.Equal(t, uint64(1), r.c.Line(1).Duplicates)
	})
	t.Run("a new epoch's lost beginning is a gap", func(t *testing.T) {
		r := newRig(t, base)
		r.in(seg(0, 90, 3, 0))
		next := seg(0, 4, 1, 5)
		next.Session = 8
		r.in(next)
		require.Equal(t, GapWait, r.c.Stats().State)
		require.Equal(t, uint64(1), r.c.Stats().First)
	})
}

func TestEndOfSessionWaitsForWhatIsMissing(t *testing.T) {
	r := newRig(t, Config{Lines: 1, Recovery: RecoveryConfig{Attempts: 1}})
	r.in(seg(0, 1, 1, 0))
	end := seg(0, 4, 0, 1)
	end.End = true
	r.in(end)
	require.Equal(t, Recovering, r.c.Stats().State)
	r.in(seg(Recovery, 2, 2, 2))
	require.Equal(t, Ended, r.c.Stats().State)
	require.Equal(t, []uint64{1, 2, 3}, r.out)
}

func TestDeadLineDoesNotStopTheOther(t *testing.T) {
	r := newRig(t, Config{Lines: 2, LineTimeout: 100})
	r.in(seg(0, 1, 1, 0))
	r.in(seg(1, 1, 1, 5))
	for q := uint64(2); q < 10; q++ {
		r.in(seg(0, q, 1, int64(q)*20))
		r.c.Poll(int64(q) * 20)
		r.drain()
	}
	require.True(t, r.c.Line(1).Dead)
	require.False(t, r.c.Line(0).Dead)
	e := r.last(LineDead)
	require.Equal(t, uint8(1), e.Line)
	require.Equal(t, int64(120), e.Time)
	require.Equal(t, uint64(8), r.c.Line(1).Lost)
	r.in(seg(1, 9, 1, 181))
	require.Equal(t, uint8(1), r.last(LineAlive).Line)
	require.False(t, r.c.Line(1).Dead)
	require.Equal(t, uint64(7), r.c.Line(1).Lost)
	require.Equal(t, Sync, r.c.Stats().State)
}

func TestLossPerLine(t *testing.T) {
	r := newRig(t, Config{Lines: 2, GapTime: 1 << 40})
	rnd := rand.New(rand.NewPCG(5, 5))
	var lost [2]uint64
	last := uint64(5000)
	if testing.Short() {
		last = 1000 // what is checked after each grows with what came before
	}
	for q := uint64(1); q <= last; q++ {
		for l := range uint8(2) {
			if q > 1 && rnd.IntN(50) == 0 {
				lost[l]++
				continue
			}
			r.in(seg(l, q, 1, int64(q)))
		}
	}
	r.in(seg(0, last+1, 0, int64(last)+1))
	r.in(seg(1, last+1, 0, int64(last)+1))
	require.Equal(t, lost[0], r.c.Line(0).Lost)
	require.Equal(t, lost[1], r.c.Line(1).Lost)
}

func TestACorruptSequenceNumberDoesNotDeafen(t *testing.T) {
	r := newRig(t, Config{Lines: 1, GapTime: 100, MaxJump: 1000, RestartAfter: -1})
	r.in(seg(0, 1, 1, 0))
	r.in(seg(0, 1<<40, 1, 0))
	r.in(seg(0, 2, 1, 0))
	require.Equal(t, []uint64{1, 2}, r.out)
	require.Equal(t, uint64(1), r.c.Line(0).Wild)
	require.Zero(t, r.c.Line(0).Lost)
	// A second packet that continues the first one makes it true.
	r.in(seg(0, 1<<41, 2, 0))
	r.in(seg(0, 1<<41+2, 1, 0))
	r.c.Poll(100)
	r.drain()
	require.Equal(t, []uint64{1, 2, 1<<41 + 2}, r.out)
	require.Equal(t, Stale, r.c.Stats().State)
}

func TestOversizeAndMalformed(t *testing.T) {
	r := newRig(t, Config{Lines: 1, CopyBytes: 16, GapTime: 100})
	r.in(seg(0, 1, 1, 0))
	r.in(seg(0, 5, 3, 0)) // 24 bytes cannot be parked
	require.Equal(t, uint64(1), r.c.Line(0).Oversize)
	s := seg(0, 1<<63, 1, 0)
	s.Seq, s.Count, s.Payload = ^uint64(0), 3, []byte{}
	r.in(s)
	require.Equal(t, uint64(1), r.c.Line(0).Malformed)
	r.in(seg(6, 2, 1, 0))
	require.Equal(t, uint64(1), r.c.Line(Recovery).Malformed)
	require.Equal(t, []uint64{1}, r.out)
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]Config{
		"Lines 0":                 {},
		"Lines 9":                 {Lines: 9},
		"Window 100":              {Lines: 1, Window: 100},
		"Slots -1":                {Lines: 1, Slots: -1},
		"Holes 2":                 {Lines: 1, Holes: 2},
		"CopyBytes 70000":         {Lines: 1, CopyBytes: 70000},
		"GapTime -1":              {Lines: 1, GapTime: -1},
		"LineTimeout -1":          {Lines: 1, LineTimeout: -1},
		"Recovery.Attempts -1":    {Lines: 1, Recovery: RecoveryConfig{Attempts: -1}},
		"Recovery.Timeout -1":     {Lines: 1, Recovery: RecoveryConfig{Timeout: -1, TimeoutMax: 5}},
		"Recovery.TimeoutMax 1":   {Lines: 1, Recovery: RecoveryConfig{Timeout: 5, TimeoutMax: 1}},
		"Recovery.Budget -1":      {Lines: 1, Recovery: RecoveryConfig{Budget: -1}},
		"Recovery.Outstanding -1": {Lines: 1, Recovery: RecoveryConfig{Outstanding: -1}},
		"Recovery.BudgetTime -1":  {Lines: 1, Recovery: RecoveryConfig{BudgetTime: -1}},
	} {
		_, err := New[int](c)
		require.ErrorContains(t, err, name)
	}
}

func TestMisuseIsNoticed(t *testing.T) {
	c, err := New[int](Config{Lines: 1})
	require.NoError(t, err)
	c.Input(&Segment[int]{Seq: 1, Count: 1})
	require.Panics(t, func() { c.Input(&Segment[int]{Seq: 2, Count: 1}) })
	require.Panics(t, func() { c.Flush(0) })
}

// steady is a stream on two lines with a loss on one of them now and then.
func steady(c *Channel[uint64], d *Delivery[uint64], seq *uint64, payload []byte) {
	for l := range uint8(2) {
		if l == 0 && *seq%64 == 0 {
			continue // lost on A; B brings it, after A's next
		}
		q := *seq
		if l == 1 {
			q -= 3
		}
		c.Input(&Segment[uint64]{Session: 1, Seq: q, Count: 1, Line: l, Arrival: int64(*seq), Payload: payload})
		for c.Next(d) {
		}
	}
	*seq++
}

func TestNothingAllocates(t *testing.T) {
	for _, copied := range []int{0, 64} {
		c, err := New[uint64](Config{Lines: 2, GapTime: 1000, CopyBytes: copied, LineTimeout: 100,
			Recovery: RecoveryConfig{Attempts: 2, Timeout: 5}})
		require.NoError(t, err)
		var d Delivery[uint64]
		var e Event
		var q Request
		seq := uint64(100)
		p := make([]byte, 32)
		require.Zero(t, testing.AllocsPerRun(5000, func() {
			steady(c, &d, &seq, p)
			c.Poll(int64(seq))
			for c.Next(&d) {
			}
			for c.Event(&e) {
			}
			for c.Request(int64(seq), &q) {
			}
		}))
		require.NotZero(t, c.Stats().FilledByLine)
	}
}

func BenchmarkInOrder(b *testing.B) {
	c, err := New[uint64](Config{Lines: 1})
	require.NoError(b, err)
	p := make([]byte, 64)
	var d Delivery[uint64]
	s := Segment[uint64]{Session: 1, Count: 1, Payload: p}
	b.ReportAllocs()
	for i := range b.N {
		s.Seq, s.Arrival = uint64(i+1), int64(i)
		c.Input(&s)
		for c.Next(&d) {
		}
	}
}

func BenchmarkTwoLinesWithLoss(b *testing.B) {
	c, err := New[uint64](Config{Lines: 2, GapTime: 1 << 40})
	require.NoError(b, err)
	p := make([]byte, 64)
	var d Delivery[uint64]
	var e Event
	seq := uint64(100)
	b.ReportAllocs()
	for range b.N {
		steady(c, &d, &seq, p)
		for c.Event(&e) {
		}
	}
}

// A refusal is of what was asked for: the rest of a longer hole is asked for on.
func TestRejectedGivesUpWhatWasAskedForAlone(t *testing.T) {
	r := newRig(t, Config{Lines: 1, Recovery: RecoveryConfig{Attempts: 3, MaxMessages: 4}})
	r.in(seg(0, 1, 1, 0))
	r.in(seg(0, 12, 1, 0))
	var q Request
	require.True(t, r.c.Request(1, &q))
	require.Equal(t, Range{2, 6}, q.Range)
	r.c.Rejected(2, q.Range)
	r.drain()
	require.True(t, r.c.Request(3, &q))
	require.Equal(t, Range{6, 10}, q.Range)
	require.Equal(t, 1, q.Attempt)
	r.in(seg(Recovery, 6, 4, 4))
	require.True(t, r.c.Request(5, &q))
	require.Equal(t, Range{10, 12}, q.Range)
	r.in(seg(Recovery, 10, 2, 6))
	require.Equal(t, []uint64{1, 6, 7, 8, 9, 10, 11, 12}, r.out)
	require.Equal(t, CauseRejected, r.last(GaveUp).Cause)
}
