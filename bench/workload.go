package main

import (
	"strconv"
	"time"
)

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

	Veth   bool   // over the veth pair instead of loopback
	Both   bool   // the client is of the server's kind, where it has one; else the client is a socket of the kernel
	Block  bool   // the client, a socket of the kernel, sleeps until the answer comes
	Window int    // requests outstanding on the one flow; 0: one
	Native bool   // programs run in the veth's driver, not behind it
	Groups int    // Flood: to so many groups in turn, a socket for each; 0: to the server's address
	Sample string // First: prepared, unprepared or warm

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

// pace is the length of one measurement.
type pace struct{ seconds, warmup, settle float64 }

// group is the name of w's group.
func (w Workload) group() string {
	if w.Group != "" {
		return w.Group
	}
	return w.Name
}

// clientArgs is the client's command line but for the server's port and process id.
func (w Workload) clientArgs(p pace) []string {
	if w.Mode == Pipeline {
		return []string{
			"-app", string(w.App), "-conns", strconv.Itoa(w.Conns), "-size", strconv.Itoa(w.Size), "-depth", strconv.Itoa(w.Depth),
			"-seconds", strconv.FormatFloat(p.seconds, 'f', 3, 64), "-warmup", strconv.FormatFloat(p.warmup, 'f', 3, 64),
		}
	}
	args := []string{
		"-proto", w.Proto, "-mode", string(w.Mode), "-conns", strconv.Itoa(w.Conns),
		"-seconds", strconv.FormatFloat(p.seconds, 'f', 3, 64),
		"-warmup", strconv.FormatFloat(p.warmup, 'f', 3, 64),
		"-settle", strconv.FormatFloat(p.settle, 'f', 3, 64),
	}
	if w.Block {
		args = append(args, "-block")
	}
	if w.Beside > 0 {
		args = append(args, "-idle", strconv.Itoa(w.Beside))
	}
	if w.Mode == Gap {
		args = append(args, "-gap-ms", strconv.FormatFloat(float64(w.Gap)/float64(time.Millisecond), 'f', 3, 64))
	}
	return args
}

func pingPong(proto string, conns int) Workload {
	w := Workload{
		Name: proto + "-pingpong-" + strconv.Itoa(conns), Proto: proto, Mode: PingPong, Conns: conns, Rest: Spin,
		Seconds: 1, Rounds: 10,
	}
	if conns > 1 { // judged by the mean of one second, so a round holds several of them
		w.Seconds, w.Rounds = 3, 7
	}
	return w
}

// sleeping is pingPong of one connection with a client that sleeps in recv until the answer comes, as most clients do: the server has as long to
// fall asleep as the client takes to wake up.
func sleeping(proto string) Workload {
	w := pingPong(proto, 1)
	w.Name, w.Block = w.Name+"-sleeping", true
	return w
}

func oneWay(proto string) Workload {
	return Workload{Name: proto + "-oneway", Proto: proto, Mode: OneWay, Conns: 1, Rest: Spin, Seconds: 1, Rounds: 7}
}

func wake(proto string, gap time.Duration) Workload {
	return Workload{
		Name: proto + "-wake-" + gap.String(), Proto: proto, Mode: Gap, Conns: 1, Gap: gap, Rest: Adaptive,
		Seconds: 3, Rounds: 7,
	}
}

func idle(proto string, conns int) Workload {
	return Workload{
		Name: proto + "-idle-" + strconv.Itoa(conns), Proto: proto, Mode: Idle, Conns: conns, Rest: Adaptive,
		Seconds: 3, Rounds: 5,
	}
}

// activeBeside is 100 connections that work among n that do not. All of them share their rounds: what is compared is the same server
// with more or fewer idle connections.
func activeBeside(n int, deadline time.Duration) Workload {
	w := pingPong("tcp", 100)
	w.Group, w.Beside, w.Deadline = "tcp-active-100", n, deadline
	w.Name = w.Group + "-" + idleName(n, deadline)
	w.Seconds, w.Rounds = 2, 5
	return w
}

// idleName tells the workloads of activeBeside apart.
func idleName(n int, deadline time.Duration) string {
	name := "idle-" + strconv.Itoa(n)
	if deadline > 0 {
		name += "-deadlines"
	}
	return name
}

// pipeline is conns connections with depth requests of size bytes outstanding on each.
func pipeline(app App, conns, size, depth int) Workload {
	w := Workload{
		Name: string(app) + "-" + strconv.Itoa(conns) + "-" + strconv.Itoa(size) + "B", Proto: "tcp", Mode: Pipeline, App: app,
		Conns: conns, Size: size, Depth: depth, Rest: Spin, Seconds: 1, Rounds: 5,
	}
	if depth > 1 {
		w.Name += "-x" + strconv.Itoa(depth)
	}
	return w
}

// udpEcho is a datagram outstanding on each of conns flows. The server is one socket.
func udpEcho(conns int) Workload {
	w := pingPong("udp", conns)
	w.Name = "udp-echo-" + strconv.Itoa(conns)
	return w
}

// layer is the completion layer without a kernel under it, batch completions a turn.
func layer(batch int) Workload {
	return Workload{
		Name: "layer-" + strconv.Itoa(batch), Proto: "memory", Mode: Loop, Batch: batch, Seconds: 0.5, Rounds: 9,
	}
}
