package harness

import "time"

// Mode says what the client does; the C client knows the same words.
type Mode string

const (
	PingPong Mode = "pingpong" // every flow has one request outstanding
	OneWay   Mode = "oneway"   // a flood; the server counts
	Gap      Mode = "gap"      // one request every Workload.Gap, to a server that has gone to sleep
	Idle     Mode = "idle"     // connections that are left alone
	Pipeline Mode = "pipeline" // every connection has Depth requests of Size bytes outstanding; a client of its own
	Flood    Mode = "flood"    // frames made by the kernel, at the highest rate of which next to nothing is lost; the server counts
	First    Mode = "first"    // the time of single sends, of which Sample says more; a client of ours
	Loop     Mode = "loop"     // no server and no client: one program that times its own loop
)

// Rest is what a server does when there is nothing to do.
type Rest string

const (
	Spin     Rest = "spin"
	Adaptive Rest = "adaptive"
	Wait     Rest = "wait"
)

// App is what the messages of Pipeline are.
type App string

const (
	Echo App = "echo"
	RESP App = "resp" // the redis protocol: SET and GET in turn
)

// Workload is one way of loading a server. It is the same for both servers of a row.
type Workload struct {
	Name  string
	Group string // workloads of one group are measured in the same rounds; "" is a group of its own
	Proto string // tcp or udp; memory with Loop
	Mode  Mode
	Conns int
	Gap   time.Duration // Gap only
	Rest  Rest          // asked of servers that have a choice

	App         App // Pipeline only
	Size, Depth int // Pipeline, and Size Flood: bytes of a message or value; requests outstanding on each connection

	Beside   int           // PingPong: idle connections beside the Conns active ones
	Deadline time.Duration // asked of the server: a read deadline on every connection, moved with every message; 0: none
	Batch    int           // Loop: completions a turn

	Veth     bool   // over the veth pair instead of loopback
	Both     bool   // the client is of the server's kind, where it has one; else the client is a socket of the kernel
	Block    bool   // the client, a socket of the kernel, sleeps until the answer comes
	Window   int    // requests outstanding on the one flow; 0: one
	Native   bool   // Programs run in the veth's driver, not behind it
	Groups   int    // Flood: to so many groups in turn, a socket for each; 0: to the server's address
	Overload bool   // Flood: messages come as fast as they can be made, and what is lost does not count
	Sample   string // First: prepared, unprepared or warm

	Seconds float64 // measured per server and round in a full run
	Rounds  int     // in a full run
}

// Role is what the server has to do with the messages: return them, count them, or take them for commands of redis.
func (w Workload) Role() string {
	switch {
	case w.Mode == OneWay || w.Mode == Flood:
		return "count"
	case w.App == RESP:
		return "resp"
	}
	return "echo"
}

// Lossy says that losing messages is part of the workload: a UDP flood is as fast as the sender can send, and who looks for the highest
// rate without loss has to go beyond it.
func (w Workload) Lossy() bool { return w.Mode == OneWay && w.Proto == "udp" || w.Mode == Flood }

// group is the name of w's group.
func (w Workload) group() string {
	if w.Group != "" {
		return w.Group
	}
	return w.Name
}
