package harness

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// ServerFlags is the command line that every server inside this binary understands.
type ServerFlags struct {
	Proto string // tcp or udp
	Role  string // echo, count or resp
	Addr  string

	Roles    []string      // what the server can be; nil: echo and count
	Deadline time.Duration // 0: none
	profile  string        // file for a CPU profile; "": none
}

// ErrUsage marks a wrong command line of a peer, which the flag package has already explained.
var ErrUsage = errors.New("usage")

// ParseServerFlags parses the flags common to the servers; more registers those that only one of them has.
func ParseServerFlags(name string, args []string, errs io.Writer, more func(*flag.FlagSet, *ServerFlags)) (ServerFlags, error) {
	var p ServerFlags
	f := flag.NewFlagSet("bench peer "+name, flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&p.Proto, "proto", "tcp", "tcp or udp")
	f.StringVar(&p.Role, "role", "echo", "echo: return every message; count: count them and answer queries; resp: redis's protocol")
	f.StringVar(&p.Addr, "addr", "127.0.0.1:0", "address to serve on; port 0 lets the kernel choose")
	f.StringVar(&p.profile, "cpuprofile", "", "write a CPU profile of the whole life of the server to this file")
	if more != nil {
		more(f, &p)
	}
	if p.Roles == nil {
		p.Roles = []string{"echo", "count"}
	}
	if err := f.Parse(args); err != nil {
		return p, ErrUsage
	}
	switch {
	case f.NArg() > 0:
		return p, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case p.Proto != "tcp" && p.Proto != "udp":
		return p, fmt.Errorf("-proto %q: want tcp or udp", p.Proto)
	case !slices.Contains(p.Roles, p.Role):
		return p, fmt.Errorf("-role %q: want %s", p.Role, strings.Join(p.Roles, " or "))
	case p.Proto == "udp" && p.Role == "resp":
		return p, errors.New("-role resp: only with -proto tcp")
	case p.Deadline < 0:
		return p, fmt.Errorf("-deadline %s: want 0 or more", p.Deadline)
	case p.Deadline > 0 && (p.Proto != "tcp" || p.Role != "echo"):
		return p, fmt.Errorf("-deadline %s: only with -proto tcp -role echo", p.Deadline)
	}
	return p, nil
}

// AddDeadline registers -deadline, for the servers that can.
func (p *ServerFlags) AddDeadline(f *flag.FlagSet) {
	f.DurationVar(&p.Deadline, "deadline", 0, "a read deadline on every TCP connection, moved with every message; 0: none")
}

// AllRoles is for the servers that can be all of them.
func (p *ServerFlags) AllRoles() { p.Roles = []string{"echo", "count", "resp"} }

// Measured serves, and prints at the end how many objects that has taken.
func (p *ServerFlags) Measured(out io.Writer, serve func() error) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := p.profiled(serve)
	runtime.ReadMemStats(&after)
	fmt.Fprintf(out, "mallocs %d\n", after.Mallocs-before.Mallocs)
	return err
}

// profiled serves, under the profiler when that was asked for.
func (p *ServerFlags) profiled(serve func() error) error {
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
