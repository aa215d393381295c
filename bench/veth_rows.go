package main

import (
	"strconv"
	"strings"
)

var (
	systemCalls = Metric{Name: "calls", Unit: "system calls/message", Of: Reading.callsPerMessage}
	received    = Metric{Name: "rate", Unit: "messages/s", HigherBetter: true, Of: func(r Reading) float64 { return r.MedianWindowRate }}
	// perEcho may be 90 ns above frames that are turned around on the same link.
	perEcho = Metric{Name: "ns", Unit: "ns/echo", Allowed: 90, Of: func(r Reading) float64 { return r.P50 }}
)

// vethRows compare our own stack over AF_XDP with the kernel's sockets and with AF_XDP by hand, over one veth pair.
func vethRows(our string) []Row {
	var rows []Row
	add := func(w Workload, m Metric, peer string, goal float64) {
		rows = append(rows, Row{Workload: w, Ours: our, Peer: peer, Metric: m, Goal: goal})
	}
	limit := func(w Workload, m Metric, bound float64) {
		rows = append(rows, Row{Workload: w, Ours: our, Peer: Limit, Bound: bound, Metric: m, Goal: 1})
	}
	against := func(w, peer Workload, label string, m Metric, goal float64) {
		rows = append(rows, Row{Workload: w, Ours: our, Peer: our, PeerWorkload: &peer, PeerLabel: label, Metric: m, Goal: goal})
	}
	const within108, within150 = 1 / 1.08, 1 / 1.5

	both := vethPingPong("pingpong")
	both.Both = true
	add(both, medianLatency, "c-recv", 1.6)
	add(both, medianLatency, "c-xdp", within108)
	for _, peer := range []string{"c-epoll", "ours-uring", "ours-epoll", "net", "sockperf"} {
		add(both, medianLatency, peer, 0)
	}
	add(both, tailLatency, "c-recv", 0)
	add(both, tailLatency, "c-xdp", 0)

	spin := vethPingPong("server-spin")
	add(spin, medianLatency, "c-recv", 1.25)
	for _, peer := range []string{"c-xdp", "c-epoll", "ours-uring", "ours-epoll", "net", "sockperf"} {
		add(spin, medianLatency, peer, 0)
	}
	block := vethPingPong("server-block")
	block.Block = true
	add(block, medianLatency, "c-recv-block", 2.4)
	for _, peer := range []string{"c-xdp", "c-recv", "net"} {
		add(block, medianLatency, peer, 0)
	}

	window := vethPingPong("window-32")
	window.Both, window.Window, window.Seconds, window.Rounds = true, 32, 3, 7
	add(window, transactions, "c-recv", 2.4)
	add(window, transactions, "c-xdp", 0)
	limit(window, systemCalls, 0.06)
	limit(window, mallocs, 0.01)

	receive := vethFlood("receive", 64, 0)
	add(receive, received, "c-mmsg", 4)
	add(receive, received, "c-xdp", 0)
	one := vethFlood("multicast-1-64B", 64, 1)
	for _, w := range []Workload{vethFlood("multicast-1-1472B", 1472, 1), one} {
		add(w, received, "c-mmsg", 0)
	}
	for _, groups := range []int{10, 50, 150} {
		w := vethFlood("multicast-"+strconv.Itoa(groups)+"-64B", 64, groups)
		add(w, received, "c-mmsg", 0)
		against(w, one, "multicast-1", received, 0)
	}

	prepared, unprepared, warm := vethFirst("prepared"), vethFirst("unprepared"), vethFirst("warm")
	against(prepared, warm, "warm", medianLatency, within150)
	against(unprepared, warm, "warm", medianLatency, 0)
	return rows
}

// stackRows are what an echo costs in our own stack, without a kernel.
func stackRows() []Row {
	var rows []Row
	for _, batch := range []int{1, 32} {
		w, goal := stackLoop(batch), 0.0
		if batch == 32 {
			goal = 1
		}
		rows = append(rows, Row{Workload: w, Ours: "ours-stack", Peer: "raw-link", Metric: perEcho, Goal: goal},
			Row{Workload: w, Ours: "ours-stack", Peer: Limit, Bound: 10 * leastMallocs, Metric: mallocs, Goal: 1})
	}
	return rows
}

// offloadedServer tells whether a server on our side has a stack of its own: it serves on the veth pair only.
func offloadedServer(name string) bool { return strings.HasPrefix(name, "ours-offload") }

func vethPingPong(name string) Workload {
	return Workload{Name: "udp-veth-" + name, Proto: "udp", Mode: PingPong, Conns: 1, Rest: Spin, Veth: true, Seconds: 1, Rounds: 10}
}

// vethFlood is a search for the highest rate, and then windows of a tenth of Seconds.
func vethFlood(name string, size, groups int) Workload {
	w := Workload{Name: "udp-veth-" + name, Proto: "udp", Mode: Flood, Conns: 1, Rest: Spin, Veth: true, Native: true, Size: size,
		Groups: groups, Seconds: 10, Rounds: 3}
	if groups > 0 { // many of them, compared with each other as well
		w.Group, w.Seconds = "udp-veth-multicast", 2
	}
	return w
}

func vethFirst(sample string) Workload {
	return Workload{Name: "udp-veth-first-" + sample, Group: "udp-veth-first", Proto: "udp", Mode: First, Conns: 1, Rest: Spin, Veth: true,
		Both: true, Sample: sample, Seconds: 0.5, Rounds: 7}
}

func stackLoop(batch int) Workload {
	return Workload{Name: "stack-" + strconv.Itoa(batch), Proto: "memory", Mode: Loop, Batch: batch, Seconds: 0.5, Rounds: 9}
}
