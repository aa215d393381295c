package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/bench/peers"
	"github.com/socketxtreme/socketxtreme/bench/rows"
)

// main runs the measurements, or, as "bench peer", one of the servers or clients that are measured.
func main() {
	if len(os.Args) > 1 && os.Args[1] == "peer" {
		os.Exit(registry.RunPeer(os.Args[2:], os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := benchMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// registry is what there is to measure. Peers and rows are declared in packages of their own, one file each.
var registry = harness.Registry{Peers: peers.All, Families: rows.All, Sources: peers.Sources, Network: rows.Network}

// options are the command line of a run.
type options struct {
	harness.Options
	list bool
	run  *regexp.Regexp
	json string
}

// mostCPU is the highest CPU number that a kernel's affinity set has room for here.
const mostCPU = 1023

// parseOptions reads the command line.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var run, ours string
	defaultOurs := strings.Join(registry.Ours(), ",")
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.Quick, "quick", false, "the whole table in tiny rounds: checks shape and losses, judges no goal")
	f.BoolVar(&o.Strict, "strict", false, "exit with 1 when a goal is missed or a row was not run")
	f.BoolVar(&o.list, "list", false, "print the descriptions, names and goals of the rows and exit")
	f.StringVar(&run, "run", "", "only rows whose name matches this regular expression")
	f.StringVar(&o.json, "json", "", "also write the result to this file")
	f.StringVar(&ours, "ours", defaultOurs,
		"servers that stand on our side, separated by commas: names from the table, or 'exec:PROGRAM ARGS'")
	f.Float64Var(&o.Seconds, "seconds", 0, "measured seconds per server and round (default: the workload's own)")
	f.IntVar(&o.Rounds, "rounds", 0, "rounds per row (default: the workload's own)")
	f.IntVar(&o.Retries, "retries", 3,
		"how often a turn that lost more than 5 % of its time to the host is repeated, while there is time to spare")
	f.IntVar(&o.Procs, "gomaxprocs", 1, "GOMAXPROCS of every server written in Go")
	f.IntVar(&o.ServerCPU, "server-cpu", -1, "CPU of the servers (default: the first allowed one)")
	f.IntVar(&o.ClientCPU, "client-cpu", -1, "CPU of the client (default: the second allowed one)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if o.run, err = regexp.Compile(run); err != nil {
		return o, fmt.Errorf("-run %q: %w", run, err)
	}
	for _, name := range strings.Split(ours, ",") {
		if name = strings.TrimSpace(name); name != "" {
			o.Ours = append(o.Ours, name)
		}
	}
	switch {
	case len(o.Ours) == 0:
		return o, fmt.Errorf("-ours %q: names no server", ours)
	case o.Seconds < 0 || o.Seconds > 600 || (o.Seconds > 0 && o.Seconds < 0.1):
		return o, fmt.Errorf("-seconds %g: want 0.1 to 600, or 0 for the workload's own", o.Seconds)
	case o.Rounds < 0 || o.Rounds > 1000:
		return o, fmt.Errorf("-rounds %d: want 1 to 1000, or 0 for the workload's own", o.Rounds)
	case o.Retries < 0 || o.Retries > 100:
		return o, fmt.Errorf("-retries %d: want 0 to 100", o.Retries)
	case o.ServerCPU < -1 || o.ServerCPU > mostCPU:
		return o, fmt.Errorf("-server-cpu %d: want 0 to %d, or -1 for the first allowed one", o.ServerCPU, mostCPU)
	case o.ClientCPU < -1 || o.ClientCPU > mostCPU:
		return o, fmt.Errorf("-client-cpu %d: want 0 to %d, or -1 for the second allowed one", o.ClientCPU, mostCPU)
	case o.Procs < 1 || o.Procs > 1024:
		return o, fmt.Errorf("-gomaxprocs %d: want 1 to 1024", o.Procs)
	}
	// A name that was asked for must exist; the default names may be missing from a build, and their rows say so.
	for _, name := range o.Ours {
		if _, err := registry.Find(name); err != nil && ours != defaultOurs {
			return o, fmt.Errorf("-ours %q: %w", ours, err)
		}
	}
	return o, nil
}

// benchMain is the program without the process around it; it returns the exit code: 0, 1 for a run that failed (or,
// with -strict, missed a goal), 2 for a wrong command line.
func benchMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	chosen := harness.SelectRows(registry.Rows(o.Ours), o.run)
	if len(chosen) == 0 {
		fmt.Fprintf(stderr, "bench: -run %q matches no row; -list shows them\n", o.run)
		return 2
	}
	if o.list {
		registry.List(stdout, o.Ours, o.run)
		return 0
	}
	report, err := registry.Run(ctx, o.Options, chosen, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if o.json != "" {
		if err := report.Write(o.json); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
	}
	problems := report.Problems(o.Options)
	for _, p := range problems {
		fmt.Fprintln(stderr, "bench:", p)
	}
	if len(problems) > 0 {
		return 1
	}
	return 0
}
