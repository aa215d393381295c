package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Server says how one server of the comparison is started. Every server is a process of its own that prints
// "ready PORT" on its standard output, serves until SIGTERM and then exits with 0; README.md has the whole protocol.
type Server struct {
	Name   string
	About  string   // for the header of the result
	Go     bool     // GOMAXPROCS is set for it
	Protos []string // what it can serve

	Roles []string // what it can do with the messages: echo, count, resp

	Deadlines bool // it can set a read deadline on every connection

	// command is the command line that serves w.
	command func(p programs, w Workload) []string
	// client is the load generator of the server's own kind, for workloads with Both; nil: the kernel's client.
	client func(p programs, w Workload, pace pace) []string

	Veth        bool     // it can serve on the veth pair
	VethOnly    bool     // and nowhere else
	Foreign     int      // the UDP port of a program that does not know the protocol; 0: it does
	Program     string   // that must be installed
	ClientFlags []string // what the kernel's client has to be told because of this server
}

// programs are the executables of a run.
type programs struct {
	self     string // this binary, which contains the Go servers
	client   string
	pipeline string // the client of Mode Pipeline
	cServer  string

	xdp     string // AF_XDP by hand
	source  string // the client of Mode Flood
	receive string // recvmmsg
}

func (p programs) clientFor(w Workload) string {
	if w.Mode == Pipeline {
		return p.pipeline
	}
	return p.client
}

// servers is the table; defaultOurs names those that stand on our side.
var servers = []Server{
	onVeth(withDeadlines(goServer("ours-uring", "SocketXtreme, one reactor, io_uring", restFlag, "ours", "-ring", "uring"))),
	onVeth(withDeadlines(goServer("ours-epoll", "SocketXtreme, one reactor, epoll", restFlag, "ours", "-ring", "epoll"))),
	offloadServer,
	withRESP(goServer("swap-uring", "SocketXtreme, reactor/gnet with the handler of gnet, one loop, io_uring", restFlag, "swap", "-ring", "uring")),
	withRESP(goServer("swap-epoll", "SocketXtreme, reactor/gnet with the handler of gnet, one loop, epoll", restFlag, "swap", "-ring", "epoll")),
	onVeth(withRESP(withDeadlines(goServer("net", "Go net, one goroutine per connection", noRest, "net")))),
	withRESP(goServer("gnet", "gnet v2.10.0, one event loop", noRest, "gnet")),
	netpollServer,
	onVeth(cServer("c-recv", "C, recvmsg and sendmsg on one socket", []string{"udp"}, "-loop", "recv")),
	onVeth(cServer("c-epoll", "C, epoll_wait over all sockets", []string{"tcp", "udp"}, "-loop", "epoll")),
	blockingServer, xdpServer, receiveServer, sockperfServer,
	loopProgram("ours", "SocketXtreme, one ring over a driver without a kernel", "layer"),
	loopProgram("bare", "Go, the loop of \"ours\" without a ring", "bare"),
	loopProgram("ours-stack", "SocketXtreme, echo over a link in memory with its own stack", "stack"),
	loopProgram("raw-link", "Go, frames turned around on the same link", "rawlink"),
}

// findServer looks a name up in the table; "exec:PROGRAM ARGS" stands for any program that follows the protocol.
func findServer(name string) (Server, error) {
	if command, ok := strings.CutPrefix(name, "exec:"); ok {
		return execServer(name, command)
	}
	for _, s := range servers {
		if s.Name == name {
			return s, nil
		}
	}
	var known []string
	for _, s := range servers {
		known = append(known, s.Name)
	}
	return Server{}, fmt.Errorf("this build has no server %q, only %s", name, strings.Join(known, ", "))
}

// check says why s cannot serve w.
func (s Server) check(w Workload) error {
	if !slices.Contains(s.Protos, w.Proto) {
		return fmt.Errorf("%s serves only %s", s.Name, strings.Join(s.Protos, " and "))
	}
	if w.Mode != Loop && !slices.Contains(s.Roles, w.Role()) {
		return fmt.Errorf("%s has only the roles %s", s.Name, strings.Join(s.Roles, " and "))
	}
	if w.Veth && !s.Veth {
		return fmt.Errorf("%s does not serve on a veth pair", s.Name)
	}
	if !w.Veth && s.VethOnly {
		return fmt.Errorf("%s serves on a veth pair only", s.Name)
	}
	if s.Program != "" {
		if _, err := exec.LookPath(s.Program); err != nil {
			return fmt.Errorf("missing: %w", err)
		}
	}
	if w.Deadline > 0 && !s.Deadlines {
		return fmt.Errorf("%s has no read deadlines", s.Name)
	}
	return nil
}

// restPolicy turns the workload's wish into flags.
type restPolicy func(Rest) []string

// noRest is for servers in which the runtime decides when to sleep.
func noRest(Rest) []string { return nil }

// restFlag is for servers that know all the policies.
func restFlag(r Rest) []string { return []string{"-rest", string(r)} }

// restSpinOrWait is for the C servers, which cannot adapt: they sleep whenever sleeping is allowed.
func restSpinOrWait(r Rest) []string {
	if r == Adaptive {
		r = Wait
	}
	return restFlag(r)
}

func goServer(name, about string, rest restPolicy, subcommand ...string) Server {
	return Server{
		Name: name, About: about, Go: true, Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count"},
		command: func(p programs, w Workload) []string {
			argv := append([]string{p.self, "peer"}, subcommand...)
			argv = append(argv, "-proto", w.Proto, "-role", w.Role())
			if w.Veth {
				argv = append(argv, "-addr", serverAddr+":0")
			}
			return append(append(argv, rest(w.Rest)...), deadlineFlag(w)...)
		},
	}
}

// netpollServer has no datagrams.
var netpollServer = func() Server {
	s := goServer("netpoll", "netpoll v0.7.2, its defaults", noRest, "netpoll")
	s.Protos, s.Roles = []string{"tcp"}, []string{"echo", "resp"}
	return s
}()

func withRESP(s Server) Server {
	s.Roles = append(slices.Clone(s.Roles), "resp")
	return s
}

func withDeadlines(s Server) Server {
	s.Deadlines = true
	return s
}

func deadlineFlag(w Workload) []string {
	if w.Deadline == 0 {
		return nil
	}
	return []string{"-deadline", w.Deadline.String()}
}

// loopProgram is a program that serves nobody and times its own loop.
func loopProgram(name, about, subcommand string) Server {
	return Server{
		Name: name, About: about, Go: true, Protos: []string{"memory"},
		command: func(p programs, w Workload) []string {
			return []string{p.self, "peer", subcommand, "-batch", strconv.Itoa(w.Batch)}
		},
	}
}

func cServer(name, about string, protos []string, args ...string) Server {
	return Server{
		Name: name, About: about, Protos: protos, Roles: []string{"echo", "count"},
		command: func(p programs, w Workload) []string {
			argv := append([]string{p.cServer, "-proto", w.Proto, "-role", w.Role()}, args...)
			if w.Veth {
				argv = append(argv, "-addr", serverAddr)
			}
			return append(argv, restSpinOrWait(w.Rest)...)
		},
	}
}

func execServer(name, command string) (Server, error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return Server{}, fmt.Errorf("%q names no program", name)
	}
	return Server{
		Name: name, About: filepath.Base(words[0]) + ", started as given", Go: true, Protos: []string{"tcp", "udp"},
		Roles: []string{"echo", "count", "resp"}, Deadlines: true,
		command: func(_ programs, w Workload) []string {
			argv := append(slices.Clone(words), "-proto", w.Proto, "-role", w.Role())
			return append(append(argv, restFlag(w.Rest)...), deadlineFlag(w)...)
		},
	}, nil
}
