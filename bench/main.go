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
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "peer" {
		os.Exit(peerMain(os.Args[2:], os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := benchMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the command line of a run.
type options struct {
	quick, strict, list bool
	run                 *regexp.Regexp
	json                string
	ours                []string
	seconds             float64 // of a measured span; 0: the workload's own
	rounds              int     // 0: the workload's own
	retries             int
	procs               int
	serverCPU           int // -1: chosen from the CPUs this process may use
	clientCPU           int
}

// defaultOurs are the names under which the library's own server stands in the table of servers.
const defaultOurs = "ours-uring,ours-epoll,ours-offload"

// mostCPU is the highest CPU number that a kernel's affinity set has room for here.
const mostCPU = 1023

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var run, ours string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.quick, "quick", false, "the whole table in tiny rounds: checks shape and losses, judges no goal")
	f.BoolVar(&o.strict, "strict", false, "exit with 1 when a goal is missed or a row was not run")
	f.BoolVar(&o.list, "list", false, "print the names and goals of the rows and exit")
	f.StringVar(&run, "run", "", "only rows whose name matches this regular expression")
	f.StringVar(&o.json, "json", "", "also write the result to this file")
	f.StringVar(&ours, "ours", defaultOurs,
		"servers that stand on our side, separated by commas: names from the table, or 'exec:PROGRAM ARGS'")
	f.Float64Var(&o.seconds, "seconds", 0, "measured seconds per server and round (default: the workload's own)")
	f.IntVar(&o.rounds, "rounds", 0, "rounds per row (default: the workload's own)")
	f.IntVar(&o.retries, "retries", 3,
		"how often a turn that lost more than 5 % of its time to the host is repeated, while there is time to spare")
	f.IntVar(&o.procs, "gomaxprocs", 1, "GOMAXPROCS of every server written in Go")
	f.IntVar(&o.serverCPU, "server-cpu", -1, "CPU of the servers (default: the first allowed one)")
	f.IntVar(&o.clientCPU, "client-cpu", -1, "CPU of the client (default: the second allowed one)")
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
			o.ours = append(o.ours, name)
		}
	}
	switch {
	case len(o.ours) == 0:
		return o, fmt.Errorf("-ours %q: names no server", ours)
	case o.seconds < 0 || o.seconds > 600 || (o.seconds > 0 && o.seconds < 0.1):
		return o, fmt.Errorf("-seconds %g: want 0.1 to 600, or 0 for the workload's own", o.seconds)
	case o.rounds < 0 || o.rounds > 1000:
		return o, fmt.Errorf("-rounds %d: want 1 to 1000, or 0 for the workload's own", o.rounds)
	case o.retries < 0 || o.retries > 100:
		return o, fmt.Errorf("-retries %d: want 0 to 100", o.retries)
	case o.serverCPU < -1 || o.serverCPU > mostCPU:
		return o, fmt.Errorf("-server-cpu %d: want 0 to %d, or -1 for the first allowed one", o.serverCPU, mostCPU)
	case o.clientCPU < -1 || o.clientCPU > mostCPU:
		return o, fmt.Errorf("-client-cpu %d: want 0 to %d, or -1 for the second allowed one", o.clientCPU, mostCPU)
	case o.procs < 1 || o.procs > 1024:
		return o, fmt.Errorf("-gomaxprocs %d: want 1 to 1024", o.procs)
	}
	// A name that was asked for must exist; the default names may be missing from a build, and their rows say so.
	for _, name := range o.ours {
		if _, err := findServer(name); err != nil && ours != defaultOurs {
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
	rows := selectRows(table(o.ours), o.run)
	if len(rows) == 0 {
		fmt.Fprintf(stderr, "bench: -run %q matches no row; -list shows them\n", o.run)
		return 2
	}
	if o.list {
		listRows(stdout, rows)
		return 0
	}
	report, err := runBench(ctx, o, rows, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if o.json != "" {
		if err := report.write(o.json); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
	}
	problems := report.problems(o)
	for _, p := range problems {
		fmt.Fprintln(stderr, "bench:", p)
	}
	if len(problems) > 0 {
		return 1
	}
	return 0
}

// runBench compiles the C programs, measures case after case and prints each row as soon as it is known. A run that is
// interrupted still reports the rows it finished.
func runBench(ctx context.Context, o options, rows []Row, stdout io.Writer) (*Report, error) {
	h, err := newHarness(o)
	if err != nil {
		return nil, err
	}
	defer h.close()
	report := &Report{Settings: h.settings(), Rows: []Result{}}
	report.Settings.print(stdout)
	cases := groupRows(rows)
	length := h.estimate(cases)
	fmt.Fprintf(stdout, "%d rows from %d measurements, about %s, and %s more when the host is not quiet\n\n", len(rows),
		len(cases), length, (length / sparePart).Round(time.Second))
	for _, c := range cases {
		if ctx.Err() != nil {
			break
		}
		records := h.measure(ctx, c)
		if ctx.Err() != nil { // its processes were interrupted too; that is not their failure
			break
		}
		for _, row := range c.Rows {
			result := judge(row, outcomeOf(row, records), o.quick)
			result.print(stdout)
			report.Rows = append(report.Rows, result)
		}
	}
	if ctx.Err() != nil {
		report.Interrupted = true
	}
	report.summary(stdout)
	return report, nil
}
