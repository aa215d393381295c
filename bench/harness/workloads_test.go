package harness

import "strconv"

// Workloads of the kinds that rows are made of.

func pingPong(proto string, conns int) Workload {
	return Workload{Name: proto + "-pingpong-" + strconv.Itoa(conns), Proto: proto, Mode: PingPong, Conns: conns, Rest: Spin, Seconds: 1, Rounds: 10}
}

func oneWay(proto string) Workload {
	return Workload{Name: proto + "-oneway", Proto: proto, Mode: OneWay, Conns: 1, Rest: Spin, Seconds: 1, Rounds: 7}
}

func flood() Workload {
	return Workload{Name: "flood", Proto: "udp", Mode: Flood, Conns: 1, Veth: true, Size: 64, Seconds: 10, Rounds: 3}
}
