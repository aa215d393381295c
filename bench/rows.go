package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// Metric is what a row compares, taken from one server's reading of one round.
type Metric struct {
	Name, Unit   string
	HigherBetter bool
	Of           func(Reading) float64
}

var (
	medianLatency = Metric{Name: "p50", Unit: "ns", Of: func(r Reading) float64 { return r.P50 }}
	// The median of the one-second means: it forgives a second that the host spoiled, and a best second of luck.
	transactions = Metric{Name: "rate", Unit: "transactions/s", HigherBetter: true,
		Of: func(r Reading) float64 { return r.MedianWindowRate }}
	messages = Metric{Name: "rate", Unit: "messages/s", HigherBetter: true,
		Of: func(r Reading) float64 { return r.MedianWindowRate }}
	serverCPU = Metric{Name: "server-cpu", Unit: "ns CPU/transaction",
		Of: func(r Reading) float64 { return r.ServerCPUSeconds * 1e9 / float64(r.N) }}
	idleCPU = Metric{Name: "cpu", Unit: "CPU fraction", Of: func(r Reading) float64 {
		return max(r.ServerCPUSeconds/r.Seconds, leastCPUFraction)
	}}
)

// leastCPUFraction stands for "no CPU time at all", which would make a ratio infinite: 10 µs in a second.
const leastCPUFraction = 1e-5

// Limit is the peer of a row that is judged against a fixed bound instead of another server.
const Limit = "limit"

// Row is one line of the result: two servers, one workload, one metric, one goal.
type Row struct {
	Workload   Workload
	Ours, Peer string // names of servers; Peer may be Limit
	Bound      float64
	Metric     Metric
	Goal       float64 // times better; 0: reported without a goal
}

// Name identifies the row, for -run and in the result.
func (r Row) Name() string {
	return strings.Join([]string{r.Workload.Name, r.Metric.Name, r.Ours, r.Peer}, "/")
}

// table lists all rows, for each server that stands on our side.
func table(ours []string) []Row {
	var rows []Row
	for _, our := range ours {
		rows = append(rows, tableFor(our)...)
	}
	return rows
}

func tableFor(our string) []Row {
	const gap = 30 * time.Millisecond
	row := func(w Workload, m Metric, peer string, goal float64) Row {
		return Row{Workload: w, Ours: our, Peer: peer, Metric: m, Goal: goal}
	}
	// The uring ring has the higher goal where system calls dominate; every other server is held to epoll's.
	rate256 := 1.10
	if strings.Contains(our, "uring") {
		rate256 = 1.15
	}
	const within110 = 1 / 1.1
	return []Row{
		row(pingPong("tcp", 1), medianLatency, "gnet", 2.9),
		row(pingPong("tcp", 1), medianLatency, "net", 2.9),
		row(pingPong("tcp", 1), medianLatency, "c-epoll", 0),
		row(pingPong("udp", 1), medianLatency, "net", 2.8),
		row(pingPong("udp", 1), medianLatency, "gnet", 0),
		row(pingPong("udp", 1), medianLatency, "c-recv", within110),

		row(pingPong("tcp", 100), transactions, "gnet", 1.0),
		row(pingPong("tcp", 100), transactions, "net", 1.0),
		row(pingPong("tcp", 256), transactions, "gnet", rate256),
		row(pingPong("tcp", 256), transactions, "c-epoll", 0),
		row(pingPong("tcp", 4096), transactions, "gnet", 1.25),
		row(pingPong("tcp", 4096), serverCPU, "gnet", 1.4),
		row(pingPong("tcp", 4096), transactions, "c-epoll", 0),
		row(pingPong("tcp", 4096), serverCPU, "c-epoll", 0),

		row(oneWay("udp"), messages, "net", 0),
		row(oneWay("udp"), messages, "gnet", 0),
		row(oneWay("tcp"), messages, "net", 0),
		row(oneWay("tcp"), messages, "gnet", 0),

		row(wake("tcp", gap), medianLatency, "net", within110),
		row(wake("udp", gap), medianLatency, "net", within110),
		{Workload: idle("tcp", 100), Ours: our, Peer: Limit, Bound: 0.01, Metric: idleCPU, Goal: 1},
	}
}

func selectRows(rows []Row, run *regexp.Regexp) []Row {
	var chosen []Row
	for _, r := range rows {
		if run.MatchString(r.Name()) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// Case is one measurement and the rows read from it: one workload, two servers taking turns.
type Case struct {
	Workload   Workload
	Ours, Peer string
	Rows       []Row
}

// groupRows puts the rows that differ only in what they read from the measurement into one case, in table order.
func groupRows(rows []Row) []Case {
	var cases []Case
	for _, r := range rows {
		if n := len(cases); n > 0 {
			if c := &cases[n-1]; c.Workload.Name == r.Workload.Name && c.Ours == r.Ours && c.Peer == r.Peer {
				c.Rows = append(c.Rows, r)
				continue
			}
		}
		cases = append(cases, Case{Workload: r.Workload, Ours: r.Ours, Peer: r.Peer, Rows: []Row{r}})
	}
	return cases
}

func listRows(w io.Writer, rows []Row) {
	for _, r := range rows {
		goal := "no goal"
		if r.Goal > 0 {
			goal = fmt.Sprintf("goal %.3g times better", r.Goal)
		}
		fmt.Fprintf(w, "%-52s %-20s %s\n", r.Name(), r.Metric.Unit, goal)
	}
}
