package rows

import (
	"strconv"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

var layer = harness.Family{
	Name: "layer",
	About: "One layer alone, not what xtreme makes: ring.Poll, Bytes and Release over a driver without a kernel, beside the same loop " +
		"without a ring.",
	Rows: onceFor(isThisLibrary, layerRows),
}

// perCompletion may be 19 ns above the bare loop's: 0.8 times of what it was, on the machine of docs/performance.md, when the rows were made.
var perCompletion = harness.NanosecondsAbove(19, "completion")

// layerRows lists the rows of the core's cost for a completion, beside a bare loop.
func layerRows() []harness.Row {
	t := table{ours: "ours"}
	t.beside(layerLoop(1), perCompletion, "bare", 1)
	t.beside(layerLoop(16), perCompletion, "bare", 1)
	t.beside(layerLoop(64), perCompletion, "bare", 0)
	published := table{ours: "ours-published", rows: t.rows}
	for _, batch := range []int{1, 16, 64} {
		published.beside(layerLoop(batch), publishing("completion"), "ours", 1)
	}
	return published.rows
}

// publishing is what a turn may take more with counters in a statistics file that is being read than with counters in memory of its own.
func publishing(per string) harness.Metric { return harness.NanosecondsAbove(2, per) }

// layerLoop is batch completions a turn.
func layerLoop(batch int) harness.Workload {
	return harness.Workload{
		Name: "layer-" + strconv.Itoa(batch), Proto: "memory", Mode: harness.Loop, Batch: batch, Seconds: 0.5, Rounds: 9,
	}
}
