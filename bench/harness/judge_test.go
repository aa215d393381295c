package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pp is a reading of a ping-pong with the given median latency and rate.
func pp(p50, rate float64) Reading {
	return Reading{
		Mode: PingPong, Seconds: 1, N: 1000, P10: p50 / 2, P25: p50 / 1.5, P50: p50, P75: p50 * 1.1, P90: p50 * 1.2,
		P99: p50 * 2, P999: p50 * 3, Max: p50 * 4, Rate: rate, WindowMS: 1000, Windows: 1, BestWindowRate: rate,
		MedianWindowRate: rate, Sent: 1001, ServerCPUSeconds: 0.5, RSSBytes: 1 << 20, PeakRSSBytes: 2 << 20,
	}
}

func outcome(rounds ...[2]Reading) Outcome {
	var o Outcome
	for _, r := range rounds {
		o.Rounds = append(o.Rounds, Round{Ours: Turn{Reading: r[0], Attempts: 1}, Peer: Turn{Reading: r[1], Attempts: 1}})
	}
	return o
}

var latencyRow = Row{Workload: pingPong("tcp", 1), Ours: "a", Peer: "b", Metric: MedianLatency, Goal: 2}

func TestJudgeTakesTheMedianOfTheRoundsRatios(t *testing.T) {
	// Ratios 3, 1.5, 4. The ratio of the medians (6000/2000 = 3) would be the same here; of the sums it would not.
	r := judge(latencyRow, outcome(
		[2]Reading{pp(2000, 1), pp(6000, 1)}, [2]Reading{pp(4000, 1), pp(6000, 1)},
		[2]Reading{pp(2000, 1), pp(8000, 1)}), false)
	require.Empty(t, r.malformed())
	require.InDelta(t, 3, *r.Ratio, 1e-12)
	require.Equal(t, Spread{Min: 1.5, Q1: 2.25, Q3: 3.5, Max: 4}, *r.Spread)
	require.Equal(t, Met, r.Status)
	require.True(t, *r.Met)
	require.True(t, *r.Steady)
	require.InDelta(t, 2000, r.Ours.P50, 0)
	require.InDelta(t, 6000, r.Peer.P50, 0)
	require.EqualValues(t, 3000, r.Ours.N)
	require.InDelta(t, 1.5, r.Ours.CPUSeconds, 1e-12)
	require.EqualValues(t, 2<<20, r.Ours.PeakRSSBytes)
}

func TestJudgeVerdicts(t *testing.T) {
	good, bad := [2]Reading{pp(1000, 1), pp(3000, 1)}, [2]Reading{pp(1000, 1), pp(1000, 1)}
	for _, c := range []struct {
		name        string
		rounds      [][2]Reading
		met, steady bool
	}{
		{"all above", [][2]Reading{good, good, good}, true, true},
		{"median above, worst quartile below", [][2]Reading{good, good, good, bad, bad}, true, false},
		{"median below", [][2]Reading{good, bad, bad}, false, false},
		{"exactly the goal", [][2]Reading{{pp(1000, 1), pp(2000, 1)}}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := judge(latencyRow, outcome(c.rounds...), false)
			require.Equal(t, c.met, *r.Met)
			require.Equal(t, c.steady, *r.Steady)
			require.Empty(t, r.malformed())
		})
	}
}

func TestJudgeWithoutVerdict(t *testing.T) {
	rounds := outcome([2]Reading{pp(1000, 1), pp(3000, 1)})
	quick := judge(latencyRow, rounds, true)
	require.Equal(t, Measured, quick.Status)
	require.Nil(t, quick.Met)

	row := latencyRow
	row.Goal = 0
	noGoal := judge(row, rounds, false)
	require.Equal(t, Measured, noGoal.Status)
	require.Nil(t, noGoal.Goal)

	notRun := judge(latencyRow, Outcome{NotRun: "no such server"}, false)
	require.Equal(t, NotRun, notRun.Status)
	require.Empty(t, notRun.malformed())

	failed := judge(latencyRow, Outcome{Rounds: rounds.Rounds, Faults: []string{"a: 1 messages duplicated"}}, false)
	require.Equal(t, Failed, failed.Status)
	require.Contains(t, failed.Reason, "duplicated")
	require.Nil(t, failed.Met, "a row that lost messages is not met, however fast")

	require.Equal(t, Failed, judge(latencyRow, Outcome{}, false).Status)
}

func TestJudgeAgainstALimit(t *testing.T) {
	row := Row{Workload: Workload{Name: "idle", Proto: "tcp", Mode: Idle, Conns: 100}, Ours: "a", Peer: Limit, Bound: 0.01, Metric: IdleCPU, Goal: 1}
	reading := Reading{Mode: Idle, Seconds: 2, N: 100, Sent: 200, ServerCPUSeconds: 0.004, RSSBytes: 1, PeakRSSBytes: 1}
	r := judge(row, outcome([2]Reading{reading, {}}), false)
	require.InDelta(t, 5, *r.Ratio, 1e-9)
	require.Equal(t, Met, r.Status)
	require.Empty(t, r.malformed())

	reading.ServerCPUSeconds = 0.04
	require.Equal(t, Missed, judge(row, outcome([2]Reading{reading, {}}), false).Status)

	reading.ServerCPUSeconds = 0 // no CPU at all is still a number JSON can hold
	r = judge(row, outcome([2]Reading{reading, {}}), false)
	require.InDelta(t, 0.01/leastCPUFraction, *r.Ratio, 1e-6)
	_, err := json.Marshal(r)
	require.NoError(t, err)
}

func TestMalformed(t *testing.T) {
	for name, spoil := range map[string]func(*Result){
		"no unit":          func(r *Result) { r.Unit = "" },
		"no ratio":         func(r *Result) { r.Ratio = nil },
		"ratio zero":       func(r *Result) { *r.Ratio = 0 },
		"spread":           func(r *Result) { r.Spread.Q1 = *r.Ratio + 1 },
		"met":              func(r *Result) { *r.Met = !*r.Met },
		"no rounds":        func(r *Result) { r.Rounds = nil },
		"nothing measured": func(r *Result) { r.Peer.N = 0 },
		"percentiles":      func(r *Result) { r.Ours.P99 = r.Ours.P50 - 1 },
		"status":           func(r *Result) { r.Status = "fine" },
		"no reason":        func(r *Result) { r.Status = Failed },
		"memory":           func(r *Result) { r.Ours.PeakRSSBytes = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r := judge(latencyRow, outcome([2]Reading{pp(1000, 1), pp(3000, 1)}), false)
			require.Empty(t, r.malformed())
			spoil(&r)
			require.NotEmpty(t, r.malformed())
		})
	}
}

func TestReadingFaults(t *testing.T) {
	w := pingPong("udp", 1)
	require.Empty(t, pp(1000, 1).Faults(w))
	for name, spoil := range map[string]func(*Reading){
		"lost":         func(r *Reading) { r.Lost = 1 },
		"duplicated":   func(r *Reading) { r.Duplicated = 1 },
		"out of order": func(r *Reading) { r.OutOfOrder = 1 },
		"changed":      func(r *Reading) { r.Corrupt = 1 },
		"nothing":      func(r *Reading) { r.N = 0 },
		"percentiles":  func(r *Reading) { r.P50 = 0 },
		"rates":        func(r *Reading) { r.Windows = 0 },
		"instead":      func(r *Reading) { r.Mode = Gap },
	} {
		r := pp(1000, 1)
		spoil(&r)
		faults := r.Faults(w)
		require.Len(t, faults, 1, name)
		require.Contains(t, faults[0], name)
	}
	// A flood over UDP loses messages; it must not duplicate them.
	flood := pp(0, 1e6)
	flood.Mode, flood.Lost = OneWay, 100
	require.Empty(t, flood.Faults(oneWay("udp")))
	require.NotEmpty(t, flood.Faults(oneWay("tcp")))
	flood.Duplicated = 1
	require.NotEmpty(t, flood.Faults(oneWay("udp")))
}

func TestTheQuietestReadingThatMeasuredSomethingIsKept(t *testing.T) {
	w := pingPong("tcp", 1)
	quiet, loud, blank := pp(1, 1), pp(1, 1), Reading{Mode: PingPong}
	loud.ForeignFraction = 0.5
	require.InDelta(t, 0.5, Round{Peer: Turn{Reading: loud}}.disturbed(), 0)
	require.True(t, quiet.better(loud, w))
	require.False(t, loud.better(quiet, w))
	require.True(t, loud.better(blank, w), "a blank turn was not disturbed, yet it measured nothing")
	require.False(t, blank.better(loud, w))
}

func TestTurnsAreRepeatedWithinBounds(t *testing.T) {
	w := pingPong("tcp", 1)
	for name, c := range map[string]struct {
		quick    bool
		spare    time.Duration
		lost     []float64 // of the attempts, the last for all that follow
		change   func(*Reading)
		attempts int
		noisy    bool
	}{
		"quiet":               {spare: time.Hour, lost: []float64{0.01}, attempts: 1},
		"quiet at the third":  {spare: time.Hour, lost: []float64{0.5, 0.2, 0.04}, attempts: 3},
		"never quiet":         {spare: time.Hour, lost: []float64{0.5, 0.2, 0.4}, attempts: 4, noisy: true},
		"no time to spare":    {lost: []float64{0.5}, attempts: 1, noisy: true},
		"time for one repeat": {spare: 1, lost: []float64{0.5}, attempts: 2, noisy: true},
		"quick":               {quick: true, spare: time.Hour, lost: []float64{0.5}, attempts: 1, noisy: true},
		"quick and nothing":   {quick: true, lost: []float64{0}, change: func(r *Reading) { r.N = 0 }, attempts: 4},
		"lost is not noise": {spare: time.Hour, lost: []float64{0.5}, change: func(r *Reading) { r.Lost = 1 },
			attempts: 1, noisy: true},
		"nothing, without time": {lost: []float64{0}, change: func(r *Reading) { r.N = 0 }, attempts: 4},
	} {
		t.Run(name, func(t *testing.T) {
			h := &runner{o: Options{Quick: c.quick, Retries: 3}}
			taken := 0
			turn, err := h.quietTurn(w, &c.spare, func(Pace) (Reading, error) {
				r := pp(1000, 1)
				r.HostLostFraction = c.lost[min(taken, len(c.lost)-1)]
				if c.change != nil {
					c.change(&r)
				}
				taken++
				return r, nil
			})
			require.NoError(t, err)
			require.Equal(t, c.attempts, taken)
			require.Equal(t, c.attempts, turn.Attempts)
			require.Equal(t, c.noisy, turn.Noisy)
			require.InDelta(t, slices.Min(c.lost), turn.Reading.HostLostFraction, 0, "the quietest is kept")
		})
	}
}

// What one entrant did stays with its own rows.
func TestOutcomePutsTheTwoSidesTogether(t *testing.T) {
	w := pingPong("tcp", 1)
	turns := func(p50 ...float64) []Turn {
		var out []Turn
		for i, v := range p50 {
			out = append(out, Turn{Reading: pp(v, 1), Attempts: i + 1, Noisy: i == 1})
		}
		return out
	}
	records := map[Entrant]*Record{
		{"a", w}: {Turns: turns(1000, 2000)},
		{"b", w}: {Turns: turns(3000, 8000)},
		{"c", w}: {Turns: turns(3000), Failed: "fell over"},
		{"d", w}: {NotRun: "no such thing"},
		{"e", w}: {Turns: turns(3000, 4000), Faults: []string{"1 of 9 messages lost"}},
	}
	row := func(ours, peer string) Row { return Row{Workload: w, Ours: ours, Peer: peer, Metric: MedianLatency} }
	judged := func(r Row) Result { return judge(r, outcomeOf(r, records), false) }

	good := judged(row("a", "b"))
	require.Equal(t, Measured, good.Status)
	require.InDelta(t, 3.5, *good.Ratio, 1e-12)
	require.Equal(t, []int{1, 2}, []int{good.Rounds[0].Attempts, good.Rounds[1].Attempts})
	require.True(t, good.Rounds[1].Noisy)
	require.False(t, good.Rounds[0].Noisy)

	failed := judged(row("a", "c"))
	require.Equal(t, Failed, failed.Status)
	require.Equal(t, "fell over", failed.Reason)
	require.Len(t, failed.Rounds, 1, "the rounds both took part in")
	require.Equal(t, Failed, judged(row("c", "a")).Status)
	require.Equal(t, NotRun, judged(row("a", "d")).Status)
	require.Equal(t, NotRun, judged(row("d", "a")).Status)
	require.Equal(t, "e: 1 of 9 messages lost", judged(row("a", "e")).Reason)
	require.Equal(t, "e: 1 of 9 messages lost", judged(row("e", "a")).Reason)

	limited := row("a", Limit)
	limited.Bound = 2000
	require.InDelta(t, 1.5, *judged(limited).Ratio, 1e-12)
}

// The ratio of a difference: how many times it fits into what is allowed.
func TestJudgeADifference(t *testing.T) {
	row := Row{Workload: Workload{Name: "loop", Proto: "memory", Mode: Loop, Batch: 1}, Ours: "ours", Peer: "bare", Metric: NanosecondsAbove(20, "turn"), Goal: 1}
	for _, c := range []struct {
		ours, bare, ratio float64
		met               bool
	}{{13, 3, 2, true}, {23, 3, 1, true}, {43, 3, 0.5, false}, {3, 3, mostTimesBetter, true}, {2, 3, mostTimesBetter, true}} {
		r := judge(row, outcome([2]Reading{pp(c.ours, 1), pp(c.bare, 1)}), false)
		require.InDelta(t, c.ratio, *r.Ratio, 1e-9)
		require.Equal(t, c.met, *r.Met)
		require.InDelta(t, 20, r.Allowed, 0)
		require.Empty(t, r.malformed())
	}
}

func TestMemoryPerIdleConnection(t *testing.T) {
	w := pingPong("tcp", 100)
	w.Beside = 1000
	few, many := pp(1000, 1), pp(1000, 1)
	few.Idle, few.RSSBeforeIdle, few.RSSWithIdle = 1000, 10<<20, 10<<20+4096_000
	many.Idle, many.RSSBeforeIdle, many.RSSWithIdle = 1000, 20<<20, 20<<20+8192_000
	many.SlabBeforeIdle, many.SlabWithIdle = 1<<30, 1<<30+7000_000
	require.Empty(t, few.Faults(w))
	r := judge(Row{Workload: w, Ours: "a", Peer: "b", Metric: MemoryPerIdle}, outcome([2]Reading{few, many}), false)
	require.InDelta(t, 2, *r.Ratio, 1e-12)
	require.InDelta(t, 4096, r.Ours.Value, 1e-9)
	require.InDelta(t, 8192, r.Peer.MemoryPerIdle, 1e-9)
	require.InDelta(t, 7000, r.Peer.SlabPerIdle, 1e-9)
	require.Equal(t, 1000, r.Peer.Idle)
	require.Empty(t, r.malformed())

	few.RSSWithIdle = few.RSSBeforeIdle - 4096 // the heap shrank meanwhile
	r = judge(Row{Workload: w, Ours: "a", Peer: "b", Metric: MemoryPerIdle}, outcome([2]Reading{few, many}), false)
	require.InDelta(t, 1, r.Ours.Value, 0)
	require.Empty(t, r.malformed())

	many.Idle = 999
	require.Contains(t, many.Faults(w)[0], "999 idle connections instead of 1000")
}

// A rate without a loss that was never found is no result.
func TestFloodWithoutARate(t *testing.T) {
	w := flood()
	r := Reading{Mode: Flood, Seconds: 10, N: 100, Sent: 200, Lost: 100, Windows: 10, MedianWindowRate: 10, BestWindowRate: 11, Offered: 20,
		SpoiledWindows: 2}
	require.Empty(t, r.Faults(w))
	r.SpoiledWindows = 3
	require.Contains(t, fmt.Sprint(r.Faults(w)), "no rate was found")
	r.SpoiledWindows, r.OutOfOrder = 0, 1
	require.Contains(t, fmt.Sprint(r.Faults(w)), "out of order")
}

func TestMallocsPerMessage(t *testing.T) {
	require.InDelta(t, 2.5, Reading{Sent: 1000, Mallocs: 2500, HasMallocs: true}.mallocsPerMessage(), 1e-12)
	require.InDelta(t, LeastMallocs, Reading{Sent: 1000, HasMallocs: true}.mallocsPerMessage(), 0)
	require.False(t, usable(Reading{Sent: 1000}.mallocsPerMessage()), "a server that says nothing has not allocated nothing")
	require.False(t, usable(Reading{HasMallocs: true}.mallocsPerMessage()))
}
