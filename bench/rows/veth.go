package rows

import "github.com/socketxtreme/socketxtreme/bench/harness"

var vethRoundTrips = harness.Family{
	Name: "udp-veth round trips",
	About: "Our own stack over AF_XDP beside the kernel's sockets and AF_XDP by hand, over a veth pair: one datagram outstanding, and 32. " +
		"Engine and poller are as xtreme makes them, at both ends where the client is ours; the XDP program runs behind the veth's driver, as it " +
		"does there by itself.",
	Rows: forEach(hasOwnStack, vethRoundTripRows),
}

// vethRoundTripRows lists the rows of round trips over a veth pair.
func vethRoundTripRows(our string) []harness.Row {
	const ofTheTwin = 0.87 // what a stack may cost beside frames that are turned around in place
	t := table{ours: our}

	both := vethPingPong("pingpong")
	both.Both = true
	t.beside(both, harness.MedianLatency, "c-recv", 1.6)
	t.beside(both, harness.MedianLatency, "c-xdp", ofTheTwin)
	for _, peer := range []string{"c-epoll", "ours-uring", "ours-epoll", "net", "sockperf"} {
		t.beside(both, harness.MedianLatency, peer, 0)
	}
	t.beside(both, harness.TailLatency, "c-recv", 0)
	t.beside(both, harness.TailLatency, "c-xdp", 0)

	spin := vethPingPong("server-spin")
	t.beside(spin, harness.MedianLatency, "c-recv", 1.25)
	for _, peer := range []string{"c-xdp", "c-epoll", "ours-uring", "ours-epoll", "net", "sockperf"} {
		t.beside(spin, harness.MedianLatency, peer, 0)
	}
	block := vethPingPong("server-block")
	block.Block = true
	t.beside(block, harness.MedianLatency, "c-recv-block", 2.4)
	for _, peer := range []string{"c-xdp", "c-recv", "net"} {
		t.beside(block, harness.MedianLatency, peer, 0)
	}

	window := vethPingPong("window-32")
	window.Both, window.Window, window.Seconds, window.Rounds = true, 32, 3, 7
	t.beside(window, harness.Transactions, "c-recv", 2.4)
	t.beside(window, harness.Transactions, "c-xdp", ofTheTwin)
	t.within(window, harness.SystemCalls, 0.06)
	t.within(window, harness.Mallocs, 0.01)
	return t.rows
}

func vethPingPong(name string) harness.Workload {
	return harness.Workload{
		Name: "udp-veth-" + name, Proto: "udp", Mode: harness.PingPong, Conns: 1, Rest: harness.Spin, Veth: true, Seconds: 1, Rounds: 10,
	}
}
