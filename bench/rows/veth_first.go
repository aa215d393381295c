package rows

import "github.com/socketxtreme/socketxtreme/bench/harness"

var vethFirstSend = harness.Family{
	Name: "udp-veth first send",
	About: "The time of the first send of a socket of our own stack, prepared for it or not, beside that of its later sends; over a veth pair. " +
		"Engine and poller are as xtreme makes them.",
	Rows: forEach(hasOwnStack, vethFirstRows),
}

// vethFirstRows lists the rows of the first datagram after a pause, over a veth pair.
func vethFirstRows(our string) []harness.Row {
	const within150 = 1 / 1.5
	t := table{ours: our}
	prepared, unprepared, warm := vethFirst("prepared"), vethFirst("unprepared"), vethFirst("warm")
	t.besideItself(prepared, warm, "warm", harness.MedianLatency, within150)
	t.besideItself(unprepared, warm, "warm", harness.MedianLatency, 0)
	return t.rows
}

// vethFirst is the workload of one datagram after a pause; sample says which of them is measured.
func vethFirst(sample string) harness.Workload {
	return harness.Workload{
		Name: "udp-veth-first-" + sample, Group: "udp-veth-first", Proto: "udp", Mode: harness.First, Conns: 1, Rest: harness.Spin, Veth: true,
		Both: true, Sample: sample, Seconds: 0.5, Rounds: 7,
	}
}
