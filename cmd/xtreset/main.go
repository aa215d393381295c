// Command xtreset resets the peers of processes that have crashed, from the records that their rings have left: see package
// ring/offload/flowrecord.
//
//	xtreset [-dir DIR]          once: what crashed processes have left; exit status 1 where a peer did not answer or a record was left
//	xtreset [-dir DIR] -watch   until it is stopped: each process as it ends
//
// It needs CAP_NET_RAW, and runs in the network namespace of the processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const help = `xtreset resets the peers of processes that have crashed: connections of the library's own TCP end with their process, and an idle peer would
wait for ever. Each ring writes its connections into a record; xtreset reads the records of processes that have ended, sends each peer a reset, and
removes the record.

usage:
  xtreset [-dir DIR]          once: what crashed processes have left; exit status 1 where a peer did not answer or a record was left
  xtreset [-dir DIR] -watch   until it is stopped: each process as it ends

It needs CAP_NET_RAW, and runs in the network namespace of the processes, as their user or as root. A program that starts
again does the same by itself, before it listens.

`

// run is the command; it returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("xtreset", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), help)
		flags.PrintDefaults()
	}
	dir := flags.String("dir", "", "where the records are (default /run/socketxtreme/flows)")
	watch := flags.Bool("watch", false, "go on until stopped")
	for _, a := range args {
		if a == "-h" || a == "-help" || a == "--help" {
			flags.SetOutput(out) // what was asked for is no error
		}
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(errs, "xtreset: %s: no arguments but flags\n", flags.Arg(0))
		return 2
	}
	code := 0
	report := func(r flowrecord.Result, err error) {
		switch {
		case err != nil:
			fmt.Fprintln(errs, "xtreset:", err)
			code = 1
		case r.Skipped != "":
			fmt.Fprintf(errs, "xtreset: %s: left as it is: %s\n", r.File, r.Skipped)
			code = 1
		case r.Gone:
			fmt.Fprintf(out, "process %d: %d connections, which ended with their network namespace\n", r.Process, r.Flows)
		default:
			fmt.Fprintf(out, "process %d: %d connections, %d reset, %d unanswered\n", r.Process, r.Flows, r.Reset, r.Unanswered)
			if r.Unanswered > 0 {
				code = 1
			}
		}
	}
	config := flowrecord.Config{Dir: *dir}
	if *watch {
		if err := flowrecord.Watch(ctx, config, report); !errors.Is(err, context.Canceled) {
			report(flowrecord.Result{}, err)
		}
		return code
	}
	results, err := flowrecord.ResetDead(ctx, config)
	for _, r := range results {
		report(r, nil)
	}
	if err != nil {
		report(flowrecord.Result{}, err)
	}
	return code
}
