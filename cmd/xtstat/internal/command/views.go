package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/view"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
)

// views is xtstat without a subcommand: vma_stats' views and what it changes in a process.
type views struct {
	target
	interval float64
	cycles   int
	view     int
	details  int
	zero     bool
	level    string
	lasting  time.Duration
	header   int
	dump     int
	sockets  string
	version  bool

	pick view.Sockets
}

// flags adds the options of xtstat without a subcommand.
func (v *views) flags(c *cobra.Command) {
	f := c.Flags()
	v.target.flags(f)
	f.Float64VarP(&v.interval, "interval", "i", 1, "seconds between two reports")
	f.IntVarP(&v.cycles, "cycles", "c", 0, "so many reports; 0: until interrupted")
	f.IntVarP(&v.view, "view", "v", 1, "1 basic, 2 with queues, 3 full, 4 multicast groups, 5 as netstat, of all processes")
	f.IntVarP(&v.details, "details", "d", 1, "1 totals, 2 deltas, per second")
	f.BoolVarP(&v.zero, "zero", "z", false, "store a baseline that every view subtracts; the counters go on")
	f.StringVarP(&v.level, "log_level", "l", "", "set the log level of the process: none, panic, error, warn, info, details, debug, fine, finer, all")
	f.DurationVar(&v.lasting, "for", 0, "take back what -l and -D change after this time, up to 24h: -l debug --for 60s; 0: they stay")
	f.IntVarP(&v.header, "details_level", "D", -1, "set what lines of its log begin with, 0 to 3")
	f.IntVarP(&v.dump, "fd_dump", "S", -1, "dump a socket by its fd, 0 for all, to the log of the process and here; a level may follow")
	f.StringVarP(&v.sockets, "sockets", "s", "", "only these sockets: fds and ranges, 4-16,1,9")
	f.BoolVarP(&v.version, "version", "V", false, "print the version")
}

// args allows one argument, the log level, with -S, and none otherwise.
func (v *views) args(c *cobra.Command, args []string) error {
	if v.dump < 0 || len(args) > 1 {
		return usageArgs(cobra.NoArgs)(c, args)
	}
	return nil
}

// check validates the options' values and reads the list of sockets. args is the log level behind -S, if there is one.
func (v *views) check(args []string) (err error) {
	switch {
	case v.interval < 0 || v.interval > 1e6:
		return fmt.Errorf("interval %v: want 0 or more seconds", v.interval)
	case v.cycles < 0:
		return fmt.Errorf("cycles %d: want 0 or more", v.cycles)
	case v.view < 1 || v.view > 5:
		return fmt.Errorf("view %d: want 1 to 5", v.view)
	case v.view == 5 && (v.zero || v.level != "" || v.header >= 0 || v.dump >= 0):
		return errors.New("view 5 is of all processes: -z, -l, -D and -S are of one")
	case v.details != 1 && v.details != 2:
		return fmt.Errorf("details %d: want 1 or 2", v.details)
	case v.lasting < 0 || v.lasting > 24*time.Hour:
		return fmt.Errorf("for %v: want up to 24h", v.lasting)
	case v.lasting > 0 && v.level == "" && v.header < 0: // neither is given
		return fmt.Errorf("for %v: it is for -l and -D", v.lasting)
	case v.header < -1 || v.header > 3: // -1: -D was not given
		return fmt.Errorf("details level %d: want 0 to 3", v.header)
	}
	for _, level := range append(args, v.level) {
		if _, err := conf.ParseLogLevel(level); level != "" && err != nil {
			return fmt.Errorf("log level %q: %w", level, err)
		}
	}
	if v.sockets != "" {
		v.pick, err = view.ParseSockets(v.sockets)
	}
	return err
}

// run is the command: the version, view 5, or, after what -z, -l and -D change, a dump of sockets or the other views cycle by cycle.
func (v *views) run(c *cobra.Command, args []string) error {
	if v.version {
		_, err := fmt.Fprintln(c.OutOrStdout(), "xtstat "+version())
		return err
	}
	if err := v.check(args); err != nil {
		return usageError{err}
	}
	if v.view == 5 {
		return v.netstat(c.OutOrStdout(), c.ErrOrStderr())
	}
	r, err := v.open(c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.Close()
	if err := v.change(c, r); err != nil {
		return err
	}
	if v.dump >= 0 {
		level := string(conf.LogInfo)
		if len(args) > 0 {
			level = args[0]
		}
		return answerTo(c.OutOrStdout(), r, "dump", map[string]any{"socket": v.dump, "level": level})
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return v.show(ctx, c, r)
}

// change does what -z, -l and -D ask for.
func (v *views) change(c *cobra.Command, r *stats.Reader) error {
	if v.zero {
		q := stats.ZeroRequest{}
		if v.pick != nil {
			for _, s := range r.Blocks(stats.Sockets) {
				if v.pick.Has(s.ID) {
					q.Sockets = append(q.Sockets, s.ID)
				}
			}
			if len(q.Sockets) == 0 {
				return fmt.Errorf("zero: none of the sockets %s is there", v.sockets)
			}
		}
		if err := answerTo(io.Discard, r, "zero", q); err != nil {
			return err
		}
		fmt.Fprintln(c.ErrOrStderr(), "xtstat: a baseline is stored, which every view subtracts")
	}
	if v.level == "" && v.header < 0 {
		return nil
	}
	q := map[string]any{"level": v.level, "seconds": v.lasting.Seconds()}
	if v.header >= 0 {
		q["details"] = v.header
	}
	return answerTo(io.Discard, r, "log", q)
}

// answerTo sends a request to the process's control socket and copies the answer to w.
func answerTo(w io.Writer, r *stats.Reader, do string, with any) error {
	in, err := r.Ask(do, with)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(w, in)
	return err
}

// show prints cycles until enough, an interrupt, or the end of the process.
func (v *views) show(ctx context.Context, c *cobra.Command, r *stats.Reader) error {
	out := c.OutOrStdout()
	last, err := view.Take(r, time.Now(), v.pick)
	if err != nil {
		return err
	}
	note := c.ErrOrStderr()
	if !last.Process.Live {
		noteEnded(note, &last.Process)
		if v.details == 2 {
			return errors.New("a process that has ended has no deltas: xtstat history has its last quarter of an hour")
		}
		v.cycles = 1
	}
	lines := &view.Lines{W: out, Queues: v.view == 2}
	for n := 0; v.cycles == 0 || n < v.cycles; n++ {
		if (n > 0 || v.details == 2) && !v.sleep(ctx) {
			return nil
		}
		now, err := view.Take(r, time.Now(), v.pick)
		if err != nil {
			return err
		}
		shown := now
		if v.details == 2 {
			shown = now.Rates(last)
			last = now
		}
		if err := v.print(out, lines, shown); err != nil || v.view == 4 {
			return err
		}
		if !now.Process.Live && n+1 != v.cycles {
			fmt.Fprintf(note, "xtstat: process %d ended - exiting\n", now.Process.ID)
			return nil
		}
	}
	return nil
}

// noteEnded says of a process that has ended from when its counts are.
func noteEnded(notes io.Writer, p *stats.Process) {
	fmt.Fprintf(notes, "xtstat: %s, process %d, has ended; this is what it had counted until %s\n", p.Program, p.ID, p.Last.Format("2006-01-02 15:04:05.000"))
}

// sleep waits for the next cycle; false: interrupted.
func (v *views) sleep(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(v.interval * float64(time.Second))):
		return true
	}
}

// print prints a cycle in one write, so that a terminal does not flicker.
func (v *views) print(out io.Writer, lines *view.Lines, s *view.Snapshot) error {
	var b bytes.Buffer
	switch {
	case v.json:
		if err := view.JSON(&b, s, v.view); err != nil {
			return err
		}
	case v.view == 3:
		if isTerminal(out) {
			b.WriteString("\x1b[H\x1b[2J")
		}
		view.Full(&b, s)
	case v.view == 4:
		view.Groups(&b, s)
	default:
		lines.W = &b
		lines.Print(s)
	}
	_, err := out.Write(b.Bytes())
	return err
}

// isTerminal reports whether the output is a terminal, which view 3 clears before each cycle.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// netstat is view 5: once, of all processes that are running, or of those that an option chooses. Of these the ones that run are shown, or,
// where none does, the ones that have ended.
func (v *views) netstat(out, notes io.Writer) error {
	list, dead, err := v.chosen()
	switch {
	case err != nil:
		return err
	case len(list) == 0 && v.isChoice():
		list = dead
	}
	if len(list) == 0 && v.isChoice() {
		return v.notFound(nil)
	}
	if !v.json {
		view.NetstatHeader(out)
	}
	for _, e := range list {
		if err := v.netstatOf(out, notes, e.Path); err != nil {
			return err
		}
	}
	return nil
}

// netstatOf prints view 5 of the process of one file. A file that was removed meanwhile is no error.
func (v *views) netstatOf(out, notes io.Writer, path string) error {
	r, err := stats.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it ended meanwhile
	}
	if err != nil {
		return err
	}
	defer r.Close()
	s, err := view.Take(r, time.Now(), v.pick)
	if err != nil {
		return err
	}
	if !s.Process.Live {
		noteEnded(notes, &s.Process)
	}
	if v.json {
		return view.JSON(out, s, 5)
	}
	view.Netstat(out, s)
	return nil
}
