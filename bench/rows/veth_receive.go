package rows

import (
	"strconv"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

var vethReceive = harness.Family{
	Name: "udp-veth receive",
	About: "The highest rate of which next to nothing is lost, of frames that the kernel makes: our own stack beside recvmmsg and AF_XDP by hand, " +
		"to one address and to many groups. Engine and poller are as xtreme makes them, with SX_OFFLOAD_XDP_MODE=native: a card's frames are " +
		"taken in the driver too, and those of the source never were socket buffers.",
	Rows: forEach(hasOwnStack, vethReceiveRows),
}

// vethReceiveRows lists the rows of receiving over a veth pair.
func vethReceiveRows(our string) []harness.Row {
	t := table{ours: our}
	receive := vethFlood("receive", 64, 0)
	t.beside(receive, harness.Messages, "c-mmsg", 4)
	t.beside(receive, harness.Messages, "c-xdp", 0)

	overload := vethFlood("overload", 64, 0)
	overload.Overload, overload.Seconds = true, 2
	t.beside(overload, harness.Messages, "c-mmsg", 0)
	t.beside(overload, harness.Messages, "c-xdp", 0.9)

	one := vethFlood("multicast-1-64B", 64, 1)
	for _, w := range []harness.Workload{vethFlood("multicast-1-1472B", 1472, 1), one} {
		t.beside(w, harness.Messages, "c-mmsg", 0)
	}
	for _, groups := range []int{10, 50, 150} {
		w := vethFlood("multicast-"+strconv.Itoa(groups)+"-64B", 64, groups)
		t.beside(w, harness.Messages, "c-mmsg", 0)
		t.besideItself(w, one, "multicast-1", harness.Messages, 0)
	}
	return t.rows
}

// vethFlood is a search for the highest rate, and then windows of a tenth of Seconds.
func vethFlood(name string, size, groups int) harness.Workload {
	w := harness.Workload{
		Name: "udp-veth-" + name, Proto: "udp", Mode: harness.Flood, Conns: 1, Rest: harness.Spin, Veth: true, Native: true, Size: size,
		Groups: groups, Seconds: 10, Rounds: 3,
	}
	if groups > 0 { // many of them, compared with each other as well
		w.Group, w.Seconds = "udp-veth-multicast", 2
	}
	return w
}
