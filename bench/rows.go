package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Metric is what a row compares, taken from one server's reading of one round.
type Metric struct {
	Name, Unit   string
	HigherBetter bool
	// Allowed is how much more than the peer ours may have, where that is the question: the ratio is then Allowed divided by the
	// difference. 0: the ratio is that of the values.
	Allowed float64
	Of      func(Reading) float64
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
	tailLatency = Metric{Name: "p99", Unit: "ns", Of: func(r Reading) float64 { return r.P99 }}
	resident    = Metric{Name: "rss", Unit: "bytes", Of: func(r Reading) float64 { return float64(r.PeakRSSBytes) }}
	mallocs     = Metric{Name: "mallocs", Unit: "allocations/message", Of: Reading.mallocsPerMessage}
	idleCPU     = Metric{Name: "cpu", Unit: "CPU fraction", Of: func(r Reading) float64 {
		return max(r.ServerCPUSeconds/r.Seconds, leastCPUFraction)
	}}
	memory = Metric{Name: "memory", Unit: "bytes/idle connection",
		Of: func(r Reading) float64 { return r.perIdle(r.RSSBeforeIdle, r.RSSWithIdle) }}
	// perCompletion may be 20 ns above the bare loop's.
	perCompletion = Metric{Name: "ns", Unit: "ns/completion", Allowed: 20, Of: func(r Reading) float64 { return r.P50 }}
)

// leastCPUFraction stands for "no CPU time at all", which would make a ratio infinite: 10 µs in a second.
const leastCPUFraction = 1e-5

// Limit is the peer of a row that is judged against a fixed bound instead of another server.
const Limit = "limit"

// Row is one line of the result: two servers, one workload, one metric, one goal.
type Row struct {
	Workload   Workload
	Ours, Peer string // names of servers; Peer may be Limit
	// PeerWorkload is the peer's when it is not Workload: the row then compares a server with itself, and PeerLabel says how the
	// peer differs.
	PeerWorkload *Workload
	PeerLabel    string
	Bound        float64 // of Limit
	Metric       Metric
	Goal         float64 // times better; 0: reported without a goal
}

// Name identifies the row, for -run and in the result.
func (r Row) Name() string {
	return strings.Join([]string{r.Workload.Name, r.Metric.Name, r.Ours, r.peerName()}, "/")
}

func (r Row) peerName() string {
	if r.PeerLabel != "" {
		return r.PeerLabel
	}
	return r.Peer
}

// ours and peer are the two entrants; a row against Limit has no peer.
func (r Row) ours() Entrant { return Entrant{r.Ours, r.Workload} }

func (r Row) peer() Entrant {
	if r.PeerWorkload != nil {
		return Entrant{r.Peer, *r.PeerWorkload}
	}
	return Entrant{r.Peer, r.Workload}
}

// table lists all rows, for each server that stands on our side.
func table(ours []string) []Row {
	var rows []Row
	if slices.ContainsFunc(ours, func(our string) bool { return strings.HasPrefix(our, "ours-") }) {
		rows = layerRows()
	}
	if slices.ContainsFunc(ours, offloadedServer) {
		rows = append(rows, stackRows()...)
	}
	for _, our := range ours {
		if offloadedServer(our) {
			rows = append(rows, vethRows(our)...)
			continue
		}
		rows = append(rows, tableFor(our)...)
		rows = append(rows, idleRows(our)...)
		rows = append(rows, appRows(swapped(our))...)
	}
	return rows
}

// layerRows measure the part of this library that is the same on every kind of ring.
func layerRows() []Row {
	var rows []Row
	for _, batch := range []int{1, 16, 64} {
		goal := 1.0
		if batch == 64 {
			goal = 0
		}
		rows = append(rows, Row{Workload: layer(batch), Ours: "ours", Peer: "bare", Metric: perCompletion, Goal: goal})
	}
	return rows
}

// idleRows compare a server with many idle connections to the same server with few, and what a connection costs.
func idleRows(our string) []Row {
	const few, some, many, deadline = 10, 1000, 10000, time.Minute
	var rows []Row
	against := func(w, peer Workload, label string, m Metric, goal float64) {
		rows = append(rows, Row{Workload: w, Ours: our, Peer: our, PeerWorkload: &peer, PeerLabel: label, Metric: m, Goal: goal})
	}
	for _, c := range []struct {
		idle     int
		deadline time.Duration
	}{{some, 0}, {many, 0}, {many, deadline}} {
		w, peer := activeBeside(c.idle, c.deadline), activeBeside(few, c.deadline)
		label := idleName(few, c.deadline)
		against(w, peer, label, transactions, 0.95)
		against(w, peer, label, medianLatency, 0)
		against(w, peer, label, serverCPU, 0)
	}
	for _, m := range []Metric{transactions, memory} {
		against(activeBeside(many, deadline), activeBeside(many, 0), idleName(many, 0), m, 0)
	}
	for _, peer := range []string{"gnet", "net"} {
		for _, m := range []Metric{transactions, memory} {
			rows = append(rows, Row{Workload: activeBeside(many, 0), Ours: our, Peer: peer, Metric: m})
		}
	}
	return rows
}

// swapped is the server that stands for ours where handlers of gnet are compared: the same handler on reactor/gnet.
func swapped(our string) string {
	if ring, ok := strings.CutPrefix(our, "ours-"); ok {
		return "swap-" + ring
	}
	return our
}

// appRows compare servers that were written for gnet: echo and redis's protocol over streams, and echo over datagrams.
func appRows(our string) []Row {
	var rows []Row
	add := func(w Workload, m Metric, peer string, goal float64) {
		rows = append(rows, Row{Workload: w, Ours: our, Peer: peer, Metric: m, Goal: goal})
	}
	rate := map[int]float64{1: 1.0, 100: 1.1, 1000: 1.2}
	for _, app := range []App{Echo, RESP} {
		for _, conns := range []int{1, 100, 1000} {
			for _, size := range []int{64, 1024} {
				for _, depth := range []int{1, 16} {
					w := pipeline(app, conns, size, depth)
					pingPong := 0.0
					if app == Echo && conns == 1 && size == 64 && depth == 1 {
						pingPong = 2.5
					}
					add(w, transactions, "gnet", rate[conns])
					add(w, medianLatency, "gnet", pingPong)
					add(w, tailLatency, "gnet", 1.0)
					add(w, serverCPU, "gnet", 0)
					add(w, resident, "gnet", 0)
					add(w, transactions, "net", 0)
					add(w, transactions, "netpoll", 0)
				}
			}
		}
	}
	udp := udpEcho(100)
	add(udp, transactions, "gnet", 1.5)
	add(udp, tailLatency, "gnet", 1.0)
	add(udp, mallocs, "gnet", 0)
	return append(rows, Row{Workload: udp, Ours: our, Peer: Limit, Bound: 0.01, Metric: mallocs, Goal: 1})
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
		row(sleeping("tcp"), medianLatency, "gnet", 0),
		row(sleeping("tcp"), medianLatency, "net", 0),
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

// Entrant is one server under one workload: what takes a turn in each round.
type Entrant struct {
	Server   string
	Workload Workload
}

// Case is one measurement and the rows read from it: entrants that take turns.
type Case struct {
	Group    string
	Entrants []Entrant
	Rows     []Row
}

// groupRows puts the rows of one group of workloads into one case: a server that stands in several rows is measured once, in the
// same rounds as all it is compared with. Cases, entrants and rows keep the order of the table.
func groupRows(rows []Row) []Case {
	var cases []Case
	for _, r := range rows {
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Group == r.Workload.group() })
		if i < 0 {
			i = len(cases)
			cases = append(cases, Case{Group: r.Workload.group()})
		}
		c := &cases[i]
		c.Rows = append(c.Rows, r)
		c.enter(r.ours())
		if r.Peer != Limit {
			c.enter(r.peer())
		}
	}
	return cases
}

func (c *Case) enter(e Entrant) {
	if !slices.Contains(c.Entrants, e) {
		c.Entrants = append(c.Entrants, e)
	}
}

func listRows(w io.Writer, rows []Row) {
	for _, r := range rows {
		goal := "no goal"
		switch {
		case r.Goal > 0 && r.Metric.Allowed > 0:
			goal = fmt.Sprintf("at most %g more", r.Metric.Allowed/r.Goal)
		case r.Goal > 0:
			goal = fmt.Sprintf("goal %.3g times better", r.Goal)
		}
		fmt.Fprintf(w, "%-76s %-22s %s\n", r.Name(), r.Metric.Unit, goal)
	}
}
