package rows

import (
	"strconv"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

var stack = harness.Family{
	Name: "stack",
	About: "One layer alone, not what xtreme makes, which opens no links in memory: ring, sockets and our own stack over a link in memory, " +
		"beside frames that are turned around by hand on the same link.",
	Rows: onceFor(hasOwnStack, stackRows),
}

// perEcho is what an echo of a batch may take above frames that are turned around on the same link: 0.7 and 0.8 times of what it took, on the
// machine of docs/performance.md, before the stack had a path for the usual case.
func perEcho(batch int) harness.Metric {
	if batch == 1 {
		return harness.NanosecondsAbove(162, "echo")
	}
	return harness.NanosecondsAbove(78, "echo")
}

// stackRows lists the rows of the stack's cost for an echo, beside the raw link: of a datagram, and of a message on a connection, each of the
// batch on its own.
func stackRows() []harness.Row {
	tcp := table{ours: "ours-tcp-stack"}
	for _, batch := range []int{1, 32} {
		w := stackLoop(batch)
		w.Name = "tcp-" + w.Name
		tcp.beside(w, perEcho(batch), "raw-link", 0)
		tcp.within(w, harness.Mallocs, 10*harness.LeastMallocs)
	}
	published := table{ours: "ours-stack-published", rows: tcp.rows}
	for _, batch := range []int{1, 32} {
		published.beside(stackLoop(batch), publishing("echo"), "ours-stack", 1)
	}
	t := table{ours: "ours-stack", rows: published.rows}
	for _, batch := range []int{1, 32} {
		w := stackLoop(batch)
		t.beside(w, perEcho(batch), "raw-link", 1)
		t.within(w, harness.Mallocs, 10*harness.LeastMallocs)
	}
	return t.rows
}

func stackLoop(batch int) harness.Workload {
	return harness.Workload{
		Name: "stack-" + strconv.Itoa(batch), Proto: "memory", Mode: harness.Loop, Batch: batch, Seconds: 0.5, Rounds: 9,
	}
}
