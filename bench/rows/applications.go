package rows

import (
	"strconv"
	"strings"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

var applications = harness.Family{
	Name:  "applications",
	About: "Handlers written for gnet, on gnet and on reactor/gnet: echo and redis's protocol over streams, echo over datagrams. Over loopback.",
	Rows:  forEach(onKernelSockets, func(our string) []harness.Row { return applicationRows(swapped(our)) }),
}

// swapped is the peer that stands for ours where handlers of gnet are compared: the same handler on reactor/gnet.
func swapped(our string) string {
	if ring, ok := strings.CutPrefix(our, "ours-"); ok {
		return "swap-" + ring
	}
	return our
}

// applicationRows lists the rows of pipelined echo and RESP servers.
func applicationRows(our string) []harness.Row {
	t := table{ours: our}
	rate := map[int]float64{1: 1.0, 100: 1.1, 1000: 1.2}
	for _, app := range []harness.App{harness.Echo, harness.RESP} {
		for _, conns := range []int{1, 100, 1000} {
			for _, size := range []int{64, 1024} {
				for _, depth := range []int{1, 16} {
					w := pipeline(app, conns, size, depth)
					oneAtATime := 0.0
					if app == harness.Echo && conns == 1 && size == 64 && depth == 1 {
						oneAtATime = 2.5
					}
					t.beside(w, harness.Transactions, "gnet", rate[conns])
					t.beside(w, harness.MedianLatency, "gnet", oneAtATime)
					t.beside(w, harness.TailLatency, "gnet", 1.0)
					t.beside(w, harness.ServerCPU, "gnet", 0)
					t.beside(w, harness.PeakMemory, "gnet", 0)
					t.beside(w, harness.RestingMemory, "gnet", 1/1.3)
					t.beside(w, harness.Transactions, "net", 0)
					t.beside(w, harness.Transactions, "netpoll", 0)
				}
			}
		}
	}
	udp := udpEcho(100)
	t.beside(udp, harness.Transactions, "gnet", 1.5)
	t.beside(udp, harness.TailLatency, "gnet", 1.0)
	t.beside(udp, harness.Mallocs, "gnet", 0)
	t.within(udp, harness.Mallocs, 0.01)
	return t.rows
}

// pipeline is conns connections with depth requests of size bytes outstanding on each.
func pipeline(app harness.App, conns, size, depth int) harness.Workload {
	w := harness.Workload{
		Name: string(app) + "-" + strconv.Itoa(conns) + "-" + strconv.Itoa(size) + "B", Proto: "tcp", Mode: harness.Pipeline, App: app,
		Conns: conns, Size: size, Depth: depth, Rest: harness.Spin, Seconds: 1, Rounds: 5,
	}
	if depth > 1 {
		w.Name += "-x" + strconv.Itoa(depth)
	}
	return w
}

// udpEcho is a datagram outstanding on each of conns flows. The server is one socket.
func udpEcho(conns int) harness.Workload {
	w := pingPong("udp", conns)
	w.Name = "udp-echo-" + strconv.Itoa(conns)
	return w
}
