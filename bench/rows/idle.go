package rows

import (
	"strconv"
	"time"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

var idleConnections = harness.Family{
	Name: "idle connections",
	About: "A reactor that xtreme made with many idle connections beside the active ones, beside the same with few; and what a connection costs, " +
		"beside other libraries. Over loopback.",
	Rows: forEach(onKernelSockets, idleRows),
}

// idleRows lists the rows of one active connection beside many idle ones.
func idleRows(our string) []harness.Row {
	const few, some, many, deadline = 10, 1000, 10000, time.Minute
	t := table{ours: our}
	for _, c := range []struct {
		idle     int
		deadline time.Duration
	}{{some, 0}, {many, 0}, {many, deadline}} {
		w, peer := activeBeside(c.idle, c.deadline), activeBeside(few, c.deadline)
		label := idleName(few, c.deadline)
		t.besideItself(w, peer, label, harness.Transactions, 0.95)
		t.besideItself(w, peer, label, harness.MedianLatency, 0)
		t.besideItself(w, peer, label, harness.ServerCPU, 0)
	}
	for _, m := range []harness.Metric{harness.Transactions, harness.MemoryPerIdle} {
		t.besideItself(activeBeside(many, deadline), activeBeside(many, 0), idleName(many, 0), m, 0)
	}
	for _, peer := range []string{"gnet", "net"} {
		for _, m := range []harness.Metric{harness.Transactions, harness.MemoryPerIdle} {
			t.beside(activeBeside(many, 0), m, peer, 0)
		}
	}
	return t.rows
}

// activeBeside is 100 connections that work among n that do not. All of them share their rounds: what is compared is the same server
// with more or fewer idle connections.
func activeBeside(n int, deadline time.Duration) harness.Workload {
	w := pingPong("tcp", 100)
	w.Group, w.Beside, w.Deadline = "tcp-active-100", n, deadline
	w.Name = w.Group + "-" + idleName(n, deadline)
	w.Seconds, w.Rounds = 2, 5
	return w
}

// idleName distinguishes the workloads of activeBeside.
func idleName(n int, deadline time.Duration) string {
	name := "idle-" + strconv.Itoa(n)
	if deadline > 0 {
		name += "-deadlines"
	}
	return name
}
