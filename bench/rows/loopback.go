package rows

import (
	"strconv"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

var loopback = harness.Family{
	Name:  "loopback",
	About: "A server with a handler on a reactor that xtreme made, beside servers of other libraries and loops in C, over loopback.",
	Rows:  forEach(onKernelSockets, loopbackRows),
}

// loopbackRows lists the rows of TCP and UDP over loopback.
func loopbackRows(our string) []harness.Row {
	const gap = 30 * time.Millisecond
	const within110 = 1 / 1.1
	// The uring ring has the higher goal where system calls dominate; every other server is held to epoll's.
	rate256 := 1.10
	if strings.Contains(our, "uring") {
		rate256 = 1.15
	}
	twin := 0.0 // beside the twin in C: the uring ring's goal
	if strings.Contains(our, "uring") {
		twin = 0.95
	}
	t := table{ours: our}
	t.beside(pingPong("tcp", 1), harness.MedianLatency, "gnet", 2.9)
	t.beside(pingPong("tcp", 1), harness.MedianLatency, "net", 2.9)
	t.beside(pingPong("tcp", 1), harness.MedianLatency, "c-epoll", 0)
	t.beside(pingPong("tcp", 1), harness.MedianLatency, "c-uring", twin)
	t.beside(sleepingClient("tcp"), harness.MedianLatency, "gnet", 0)
	t.beside(sleepingClient("tcp"), harness.MedianLatency, "net", 0)
	t.beside(pingPong("udp", 1), harness.MedianLatency, "net", 2.8)
	t.beside(pingPong("udp", 1), harness.MedianLatency, "gnet", 0)
	t.beside(pingPong("udp", 1), harness.MedianLatency, "c-recv", within110)

	t.beside(pingPong("tcp", 100), harness.Transactions, "gnet", 1.0)
	t.beside(pingPong("tcp", 100), harness.Transactions, "net", 1.0)
	t.beside(pingPong("tcp", 256), harness.Transactions, "gnet", rate256)
	t.beside(pingPong("tcp", 256), harness.Transactions, "c-epoll", 0)
	t.beside(pingPong("tcp", 256), harness.Transactions, "c-uring", twin)
	t.beside(pingPong("tcp", 4096), harness.Transactions, "gnet", 1.25)
	t.beside(pingPong("tcp", 4096), harness.ServerCPU, "gnet", 1.4)
	t.beside(pingPong("tcp", 4096), harness.Transactions, "c-epoll", 0)
	t.beside(pingPong("tcp", 4096), harness.Transactions, "c-uring", twin)
	t.beside(pingPong("tcp", 4096), harness.ServerCPU, "c-epoll", 0)

	t.beside(oneWay("udp"), harness.Messages, "net", 0)
	t.beside(oneWay("udp"), harness.Messages, "gnet", 0)
	t.beside(oneWay("tcp"), harness.Messages, "net", 0)
	t.beside(oneWay("tcp"), harness.Messages, "gnet", 0)

	t.beside(wakeUp("tcp", gap), harness.MedianLatency, "net", within110)
	t.beside(wakeUp("udp", gap), harness.MedianLatency, "net", within110)
	t.within(idle("tcp", 100), harness.IdleCPU, 0.01)
	return t.rows
}

// pingPong is the workload of a round trip at a time on each of some connections.
func pingPong(proto string, conns int) harness.Workload {
	w := harness.Workload{
		Name: proto + "-pingpong-" + strconv.Itoa(conns), Proto: proto, Mode: harness.PingPong, Conns: conns, Rest: harness.Spin,
		Seconds: 1, Rounds: 10,
	}
	if conns > 1 { // judged by the mean of one second, so a round holds several of them
		w.Seconds, w.Rounds = 3, 7
	}
	return w
}

// sleepingClient is pingPong of one connection with a client that sleeps in recv until the answer comes, as most clients do: the server has as
// long to fall asleep as the client takes to wake up.
func sleepingClient(proto string) harness.Workload {
	w := pingPong(proto, 1)
	w.Name, w.Block = w.Name+"-sleeping", true
	return w
}

func oneWay(proto string) harness.Workload {
	return harness.Workload{
		Name: proto + "-oneway", Proto: proto, Mode: harness.OneWay, Conns: 1, Rest: harness.Spin, Seconds: 1, Rounds: 7,
	}
}

// wakeUp is the workload of one request after each pause, long enough for the server to sleep.
func wakeUp(proto string, gap time.Duration) harness.Workload {
	return harness.Workload{
		Name: proto + "-wake-" + gap.String(), Proto: proto, Mode: harness.Gap, Conns: 1, Gap: gap, Rest: harness.Adaptive,
		Seconds: 3, Rounds: 7,
	}
}

// idle is the workload of connections without traffic.
func idle(proto string, conns int) harness.Workload {
	return harness.Workload{
		Name: proto + "-idle-" + strconv.Itoa(conns), Proto: proto, Mode: harness.Idle, Conns: conns, Rest: harness.Adaptive,
		Seconds: 3, Rounds: 5,
	}
}
