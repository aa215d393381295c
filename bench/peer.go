package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// peerFlags is the command line that every server understands.
type peerFlags struct {
	proto string // tcp or udp
	role  string // echo, count or resp
	addr  string

	roles    []string      // what the server can be; nil: echo and count
	deadline time.Duration // 0: none
	profile  string        // file for a CPU profile; "": none
}

// peerCommands are the servers inside this binary: bench peer NAME -proto … -role …. Each runs until SIGTERM, having
// printed "ready PORT" to out.
var peerCommands = map[string]func(args []string, out, errs io.Writer) error{
	"ours": ourPeer,
	"net":  netPeer,
	"gnet": gnetPeer,
	"swap": swapPeer,

	"netpoll": netpollPeer,

	"layer": layerLoop, // serve nobody: they time their own loop
	"bare":  bareLoop,
	"stack": stackEcho, "rawlink": rawEcho,

	"offload": offloadPeer, "offload-client": offloadClient,
}

// errUsage marks a wrong command line of a peer, which the flag package has already explained.
var errUsage = errors.New("usage")

func peerMain(args []string, out, errs io.Writer) int {
	names := strings.Join(slices.Sorted(maps.Keys(peerCommands)), ", ")
	if len(args) == 0 {
		fmt.Fprintln(errs, "bench peer: name one of", names)
		return 2
	}
	run, ok := peerCommands[args[0]]
	if !ok {
		fmt.Fprintf(errs, "bench peer: %q is none of %s\n", args[0], names)
		return 2
	}
	err := run(args[1:], out, errs)
	switch {
	case errors.Is(err, errUsage):
		return 2
	case err != nil:
		fmt.Fprintf(errs, "bench peer %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// parsePeerFlags parses the flags common to the servers; more registers those that only one of them has.
func parsePeerFlags(name string, args []string, errs io.Writer, more func(*flag.FlagSet, *peerFlags)) (peerFlags, error) {
	var p peerFlags
	f := flag.NewFlagSet("bench peer "+name, flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&p.proto, "proto", "tcp", "tcp or udp")
	f.StringVar(&p.role, "role", "echo", "echo: return every message; count: count them and answer queries; resp: redis's protocol")
	f.StringVar(&p.addr, "addr", "127.0.0.1:0", "address to serve on; port 0 lets the kernel choose")
	f.StringVar(&p.profile, "cpuprofile", "", "write a CPU profile of the whole life of the server to this file")
	if more != nil {
		more(f, &p)
	}
	if p.roles == nil {
		p.roles = []string{"echo", "count"}
	}
	if err := f.Parse(args); err != nil {
		return p, errUsage
	}
	switch {
	case f.NArg() > 0:
		return p, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case p.proto != "tcp" && p.proto != "udp":
		return p, fmt.Errorf("-proto %q: want tcp or udp", p.proto)
	case !slices.Contains(p.roles, p.role):
		return p, fmt.Errorf("-role %q: want %s", p.role, strings.Join(p.roles, " or "))
	case p.proto == "udp" && p.role == "resp":
		return p, errors.New("-role resp: only with -proto tcp")
	case p.deadline < 0:
		return p, fmt.Errorf("-deadline %s: want 0 or more", p.deadline)
	case p.deadline > 0 && (p.proto != "tcp" || p.role != "echo"):
		return p, fmt.Errorf("-deadline %s: only with -proto tcp -role echo", p.deadline)
	}
	return p, nil
}

// deadlineOption registers -deadline, for the servers that can.
func deadlineOption(f *flag.FlagSet, p *peerFlags) {
	f.DurationVar(&p.deadline, "deadline", 0, "a read deadline on every TCP connection, moved with every message; 0: none")
}

// serveAll registers every role, for the servers that can.
func serveAll(_ *flag.FlagSet, p *peerFlags) { p.roles = []string{"echo", "count", "resp"} }

// measured serves, and tells at the end how many objects that has taken.
func (p *peerFlags) measured(out io.Writer, serve func() error) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := p.profiled(serve)
	runtime.ReadMemStats(&after)
	fmt.Fprintf(out, "mallocs %d\n", after.Mallocs-before.Mallocs)
	return err
}

// profiled serves, under the profiler when that was asked for.
func (p *peerFlags) profiled(serve func() error) error {
	if p.profile == "" {
		return serve()
	}
	out, err := os.Create(p.profile)
	if err != nil {
		return fmt.Errorf("-cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return errors.Join(fmt.Errorf("-cpuprofile %s: %w", p.profile, err), out.Close())
	}
	err = serve()
	pprof.StopCPUProfile()
	return errors.Join(err, out.Close())
}
