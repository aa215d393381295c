package harness

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Peer is a program that takes part in comparisons: what it can do, and how it is started. A peer that serves is a process of its own that
// prints "ready PORT" on its standard output, serves until SIGTERM and then exits with 0; README.md has the whole protocol.
type Peer struct {
	Name  string
	About string // for the header of the result
	Ours  bool   // it stands on our side, unless the command line names others

	// What it can do.
	Protos    []string // what it can serve
	Roles     []string // what it can do with the messages: echo, count, resp
	Deadlines bool     // it can set a read deadline on every connection
	Veth      bool     // it can serve on the veth pair
	VethOnly  bool     // and nowhere else
	Rests     bool     // it knows the flag -rest: what it does when there is nothing to do

	// How it is started. A peer that is inside this binary has subcommands, of which the first is the one that is measured, with Flags;
	// peers that differ in flags share it. Any other has Command, the command line that serves w.
	Subcommands []Subcommand
	Flags       []string
	Command     func(p Programs, w Workload) []string
	Go          bool   // GOMAXPROCS is set for it
	Program     string // that must be installed
	FixedPort   int    // the UDP port of a program that does not know the protocol; 0: it does

	// Client is the load generator of the peer's own kind, for workloads with Both; nil: the kernel's client.
	Client      func(p Programs, w Workload, pace Pace) []string
	ClientFlags []string // flags of the kernel's client that this peer needs
}

// Subcommand is a program inside this binary: bench peer NAME FLAGS. One that serves runs until SIGTERM, having printed "ready PORT" to out.
type Subcommand struct {
	Name string
	Run  func(args []string, out, errs io.Writer) error
}

// Check says why p cannot serve w.
func (p *Peer) Check(w Workload) error {
	if !slices.Contains(p.Protos, w.Proto) {
		return fmt.Errorf("%s serves only %s", p.Name, strings.Join(p.Protos, " and "))
	}
	if w.Mode != Loop && !slices.Contains(p.Roles, w.Role()) {
		return fmt.Errorf("%s has only the roles %s", p.Name, strings.Join(p.Roles, " and "))
	}
	if w.Veth && !p.Veth {
		return fmt.Errorf("%s does not serve on a veth pair", p.Name)
	}
	if !w.Veth && p.VethOnly {
		return fmt.Errorf("%s serves on a veth pair only", p.Name)
	}
	if p.Program != "" {
		if _, err := exec.LookPath(p.Program); err != nil {
			return fmt.Errorf("missing: %w", err)
		}
	}
	if w.Deadline > 0 && !p.Deadlines {
		return fmt.Errorf("%s has no read deadlines", p.Name)
	}
	return nil
}

// ServerCommand is the command line that serves w.
func (p *Peer) ServerCommand(programs Programs, w Workload) []string {
	if p.Command != nil {
		return p.Command(programs, w)
	}
	argv := append([]string{programs.Self, "peer", p.Subcommands[0].Name}, p.Flags...)
	if w.Mode == Loop {
		return append(argv, "-batch", strconv.Itoa(w.Batch))
	}
	argv = append(argv, "-proto", w.Proto, "-role", w.Role())
	if w.Veth {
		argv = append(argv, "-addr", ServerAddr+":0")
	}
	if p.Rests {
		argv = append(argv, restFlag(w.Rest)...)
	}
	return append(argv, deadlineFlag(w)...)
}

func restFlag(r Rest) []string { return []string{"-rest", string(r)} }

// deadlineFlag returns the flag by which a server sets a deadline on each connection; none without one.
func deadlineFlag(w Workload) []string {
	if w.Deadline == 0 {
		return nil
	}
	return []string{"-deadline", w.Deadline.String()}
}

// executed is a program that follows the protocol, started as given.
func executed(name, command string) (Peer, error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return Peer{}, fmt.Errorf("%q names no program", name)
	}
	return Peer{
		Name: name, About: filepath.Base(words[0]) + ", started as given", Go: true, Protos: []string{"tcp", "udp"},
		Roles: []string{"echo", "count", "resp"}, Deadlines: true,
		Command: func(_ Programs, w Workload) []string {
			argv := append(slices.Clone(words), "-proto", w.Proto, "-role", w.Role())
			return append(append(argv, restFlag(w.Rest)...), deadlineFlag(w)...)
		},
	}, nil
}
