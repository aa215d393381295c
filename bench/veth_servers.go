package main

import (
	"strconv"
)

// onVeth says that a server with an address of its own can serve on the veth pair.
func onVeth(s Server) Server {
	s.Veth = true
	return s
}

// offloadServer is our own stack over AF_XDP, with a client of the same kind.
var offloadServer = Server{
	Name: "ours-offload", About: "SocketXtreme, one ring with its own stack over AF_XDP", Go: true, Protos: []string{"udp"},
	Roles: []string{"echo", "count"}, Veth: true, VethOnly: true,
	command: func(p programs, w Workload) []string {
		argv := []string{p.self, "peer", "offload", "-proto", "udp", "-role", w.Role(), "-addr", serverAddr + ":0", "-iface", serverDevice,
			"-groups", strconv.Itoa(w.Groups)}
		return append(argv, nativeFlag(w)...)
	},
	client: func(p programs, w Workload, pace pace) []string {
		argv := append([]string{p.self, "peer", "offload-client", "-iface", clientDevice, "-addr", clientAddr, "-peer", serverAddr},
			span(pace)...)
		if w.Mode == First {
			return append(argv, "-sample", w.Sample)
		}
		return append(append(argv, windowFlag(w)...), nativeFlag(w)...)
	},
}

// xdpServer is AF_XDP without a stack, at both ends.
var xdpServer = Server{
	Name: "c-xdp", About: "C, AF_XDP by hand, no stack", Protos: []string{"udp"}, Roles: []string{"echo", "count"}, Veth: true, VethOnly: true,
	command: func(p programs, w Workload) []string {
		return append([]string{p.xdp, "-mode", w.Role(), "-iface", serverDevice, "-addr", serverAddr}, nativeFlag(w)...)
	},
	client: func(p programs, w Workload, pace pace) []string {
		argv := append([]string{p.xdp, "-mode", "pingpong", "-iface", clientDevice, "-addr", clientAddr, "-peer", serverAddr,
			"-peer-mac", serverMAC.String()}, span(pace)...)
		return append(append(argv, windowFlag(w)...), nativeFlag(w)...)
	},
}

// blockingServer sleeps in recvmsg, whatever the workload says.
var blockingServer = Server{
	Name: "c-recv-block", About: "C, blocking recvmsg and sendmsg on one socket", Protos: []string{"udp"}, Roles: []string{"echo", "count"},
	Veth: true, VethOnly: true,
	command: func(p programs, w Workload) []string {
		return []string{p.cServer, "-proto", "udp", "-role", w.Role(), "-loop", "recv", "-rest", "wait", "-addr", serverAddr}
	},
}

// receiveServer is the kernel's side of the receive rows. Its veth needs a program in its driver, or it takes no frames of the source.
var receiveServer = Server{
	Name: "c-mmsg", About: "C, recvmmsg in a spin, a socket per group", Protos: []string{"udp"}, Roles: []string{"count"}, Veth: true,
	VethOnly: true,
	command: func(p programs, w Workload) []string {
		return []string{p.receive, "-addr", serverAddr, "-groups", strconv.Itoa(w.Groups), "-base", groupBase, "-pass", serverDevice}
	},
}

// sockperfServer is sockperf's own, which speaks to a client that writes its header.
var sockperfServer = Server{
	Name: "sockperf", About: "sockperf server --nonblocked", Protos: []string{"udp"}, Roles: []string{"echo"}, Veth: true, VethOnly: true,
	Foreign: sockperfPort, ClientFlags: []string{"-sockperf"}, Program: "sockperf",
	command: func(programs, Workload) []string {
		return []string{"sockperf", "server", "--nonblocked", "-i", serverAddr, "-p", strconv.Itoa(sockperfPort)}
	},
}

const sockperfPort = 11111

// clientCommand is the load generator's command line but for the server's port and process.
func (s Server) clientCommand(p programs, w Workload, pace pace) []string {
	switch {
	case !w.Veth:
		return append([]string{p.clientFor(w)}, w.clientArgs(pace)...)
	case w.Mode == Flood:
		argv := []string{p.source, "-iface", clientDevice, "-addr", clientAddr, "-peer", serverAddr, "-peer-mac", serverMAC.String(),
			"-groups", strconv.Itoa(w.Groups), "-base", groupBase, "-size", strconv.Itoa(w.Size), "-windows", strconv.Itoa(floodWindows),
			"-spoiled", strconv.Itoa(w.spoiled()), "-lost", strconv.FormatFloat(mostLost, 'g', -1, 64)}
		window := pace.seconds / floodWindows
		return append(argv, "-window-s", seconds(window), "-probe-s", seconds(max(window/5, min(window, 0.02))))
	case w.Both && s.client != nil:
		return s.client(p, w, pace)
	}
	argv := append([]string{p.client, "-addr", serverAddr}, w.clientArgs(pace)...)
	argv = append(append(argv, windowFlag(w)...), s.ClientFlags...)
	return argv
}

func span(p pace) []string {
	return []string{"-seconds", seconds(p.seconds), "-warmup", seconds(p.warmup)}
}

func seconds(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func nativeFlag(w Workload) []string {
	if w.Native {
		return []string{"-native"}
	}
	return nil
}

func windowFlag(w Workload) []string {
	if w.Window > 1 {
		return []string{"-window", strconv.Itoa(w.Window)}
	}
	return nil
}

const (
	// floodWindows is how many windows the highest rate is measured in, and mostLost the part of its messages that a window may lose.
	floodWindows = 10
	mostLost     = 0.001
	// floodSearch is how much longer than the windows a flood takes, to find the rate and to try again, as a rule.
	floodSearch = 0.6
)

// spoiled is how many windows of a flood may lose more.
func (w Workload) spoiled() int { return floodWindows / 5 }
