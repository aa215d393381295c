package harness

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Options are what the command line says of a run.
type Options struct {
	Quick     bool // tiny rounds, no verdicts
	Strict    bool // a goal that is missed and a row that was not run are problems
	Ours      []string
	Seconds   float64 // of a measured span; 0: the workload's own
	Rounds    int     // 0: the workload's own
	Retries   int
	Procs     int // GOMAXPROCS of peers written in Go
	ServerCPU int // -1: chosen from the CPUs this process may use
	ClientCPU int
}

// Run compiles the C programs, measures case after case and prints each row as soon as it is known. A run that is
// interrupted still reports the rows it finished.
func (r *Registry) Run(ctx context.Context, o Options, rows []Row, stdout io.Writer) (*Report, error) {
	h, err := newRunner(r, o)
	if err != nil {
		return nil, err
	}
	defer h.close()
	report := &Report{Settings: h.settings(), Rows: []Result{}}
	report.Settings.print(stdout)
	cases := GroupRows(rows)
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
			result := judge(row, outcomeOf(row, records), o.Quick)
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
