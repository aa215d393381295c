package peers

import "github.com/socketxtreme/socketxtreme/bench/harness"

var cRecv = harness.Peer{
	Name: "c-recv", About: "C, recvmsg and sendmsg on one socket", Protos: []string{"udp"}, Roles: []string{"echo", "count"}, Veth: true,
	Command: cServer("recv"),
}

var cEpoll = harness.Peer{
	Name: "c-epoll", About: "C, epoll_wait over all sockets", Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count"}, Veth: true,
	Command: cServer("epoll"),
}

// cUring is the twin of oursUring.
var cUring = harness.Peer{
	Name: "c-uring", About: "C, io_uring by hand: multishot receive, provided buffers, send", Protos: []string{"tcp"}, Roles: []string{"echo"},
	Command: func(p harness.Programs, w harness.Workload) []string {
		rest := w.Rest
		if rest == harness.Adaptive {
			rest = harness.Wait
		}
		return []string{p.C("uring"), "-rest", string(rest)}
	},
}

// cRecvBlock sleeps in recvmsg, whatever the workload says.
var cRecvBlock = harness.Peer{
	Name: "c-recv-block", About: "C, blocking recvmsg and sendmsg on one socket", Protos: []string{"udp"}, Roles: []string{"echo", "count"},
	Veth: true, VethOnly: true,
	Command: func(p harness.Programs, w harness.Workload) []string {
		return []string{p.C("server"), "-proto", "udp", "-role", w.Role(), "-loop", "recv", "-rest", "wait", "-addr", harness.ServerAddr}
	},
}

// cServer is the command line of c/server.c. It cannot adapt: it sleeps whenever sleeping is allowed.
func cServer(loop string) func(harness.Programs, harness.Workload) []string {
	return func(p harness.Programs, w harness.Workload) []string {
		argv := []string{p.C("server"), "-proto", w.Proto, "-role", w.Role(), "-loop", loop}
		if w.Veth {
			argv = append(argv, "-addr", harness.ServerAddr)
		}
		rest := w.Rest
		if rest == harness.Adaptive {
			rest = harness.Wait
		}
		return append(argv, "-rest", string(rest))
	}
}
