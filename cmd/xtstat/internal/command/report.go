package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/doctor"
	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/view"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// report is "report": an archive for a colleague.
type report struct {
	target
	file    string
	seconds float64
	frames  bool

	reader  *stats.Reader
	process stats.Process
	engines []xtreme.EngineSettings
	archive
}

// newReportCommand makes "report".
func newReportCommand() *cobra.Command {
	x := &report{}
	c := &cobra.Command{
		Use:   "report",
		Short: "Collects all there is to know of a process and its machine in one archive, for a colleague",
		Long: "report writes a .tar.gz: what doctor says, all views twice, 10 seconds apart, what they have grown by, history and events of the last\n" +
			"quarter of an hour and what why makes of them, interrupts, and, of a process that runs, its settings with their origin, where its\n" +
			"goroutines are, and the recorder's frames if it is on. A README in it says what each file is.\n\n" +
			"The archive has addresses, names of interfaces and programs, and with the recorder frames; it has no environment, no arguments of\n" +
			"the command line, no log, and nothing else that the process has in memory. --frames=false leaves the frames out.",
		Args: usageArgs(cobra.NoArgs),
		RunE: x.run,
	}
	f := c.Flags()
	x.flags(f)
	_ = f.MarkHidden("json")
	f.StringVarP(&x.file, "write", "w", "", "the file to write, - for the standard output; one that is there is refused")
	f.Float64VarP(&x.seconds, "interval", "i", 10, "seconds between the two sets of views")
	f.BoolVar(&x.frames, "frames", true, "with what the recorder has")
	return c
}

// run is the command.
func (x *report) run(c *cobra.Command, _ []string) error {
	switch {
	case x.seconds < 0.1 || x.seconds > 600:
		return usageError{fmt.Errorf("interval %v: want 0.1 to 600 seconds", x.seconds)}
	case x.json:
		return usageError{errors.New("json: the archive has it")}
	case x.file == "-" && isTerminal(c.OutOrStdout()):
		return usageError{errors.New("-w -: an archive is nothing for a terminal")}
	}
	ctx, stop := signalContext()
	defer stop()
	r, err := x.open(c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.Close()
	if x.process, err = r.Process(); err != nil {
		return err
	}
	p := &x.process
	x.reader, x.made = r, time.Now()
	x.folder = fmt.Sprintf("xtstat-report-%s-%d-%s", filepath.Base(p.Program), p.ID, x.made.Format("20060102T150405"))
	if x.file == "" {
		x.file = x.folder + ".tar.gz"
	}
	out := c.OutOrStdout()
	if x.file != "-" {
		f, err := os.OpenFile(x.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	if err = x.collect(ctx); err == nil {
		err = x.write(out, x.introduction())
	}
	for _, f := range x.files {
		if f.from != nil {
			err = errors.Join(err, f.from.Close())
		}
	}
	if f, ok := out.(*os.File); ok && x.file != "-" {
		if err = errors.Join(err, f.Close()); err != nil {
			return errors.Join(err, os.Remove(x.file))
		}
	}
	if err != nil {
		return err
	}
	for _, text := range x.missing {
		fmt.Fprintf(c.ErrOrStderr(), "xtstat: not in the report, or not whole: %s\n", text)
	}
	if x.file != "-" {
		fmt.Fprintf(c.ErrOrStderr(), "xtstat: %d files in %s\n", len(x.files)+1, x.file)
	}
	return nil
}

// introduction is what the README begins with.
func (x *report) introduction() string {
	p, state := &x.process, "was running"
	if !p.Live {
		state = "had ended at " + p.Last.Format(time.RFC3339)
	}
	return fmt.Sprintf(`A report of xtstat on %s, process %d, which %s. Made %s.

It has addresses, names of interfaces and programs, and in *.pcapng frames. It has no environment, no arguments of the
command line, no log, and nothing else that the process had in memory. docs/monitoring.md tells how to read it.
`, p.Program, p.ID, state, x.made.Format(time.RFC3339))
}

// collect collects everything. Error: ctx has ended.
func (x *report) collect(ctx context.Context) error {
	first := x.views("first")
	x.machine("first")
	if x.process.Live {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(x.seconds * float64(time.Second))):
		}
		second := x.views("second")
		x.machine("second")
		if first != nil && second != nil {
			x.add("rates.txt", "view 3: what has changed between the two sets, a second", func(w io.Writer) error {
				view.Full(w, second.Rates(first))
				return nil
			})
		}
	}
	x.add("doctor.txt", "what xtstat doctor says of the machine", func(w io.Writer) error { return diagnose(w, false) })
	x.add("doctor.jsonl", "the same as JSON", func(w io.Writer) error { return diagnose(w, true) })
	x.past()
	if x.process.Live {
		x.add("settings.json", "the settings of each engine, with the origin of each value", x.settings)
		x.add("goroutines.txt", "where the goroutines of the process are", func(w io.Writer) error { return answerTo(w, x.reader, "goroutines", nil) })
	}
	if x.process.Live && x.frames {
		x.recorded()
	}
	return ctx.Err()
}

// diagnose is xtstat doctor; a cure is no failure here.
func diagnose(w io.Writer, asJSON bool) error {
	err := examine(w, doctor.This(), "", asJSON, false)
	var code exitError
	if errors.As(err, &code) {
		return nil
	}
	return err
}

// views adds all views of a moment, as text and as JSON, and returns what they show.
func (x *report) views(set string) *view.Snapshot {
	s, err := view.Take(x.reader, time.Now(), nil)
	if err != nil {
		x.missing = append(x.missing, fmt.Sprintf("views of the %s set: %v", set, err))
		return nil
	}
	s.Process.Command = s.Process.Command[:min(1, len(s.Process.Command))] // arguments may have secrets
	for n := 1; n <= 5; n++ {
		x.add(fmt.Sprintf("%s/view%d.txt", set, n), fmt.Sprintf("xtstat -v %d", n), func(w io.Writer) error {
			switch n {
			case 3:
				view.Full(w, s)
			case 4:
				view.Groups(w, s)
			case 5:
				view.NetstatHeader(w)
				view.Netstat(w, s)
			default:
				(&view.Lines{W: w, Queues: n == 2}).Print(s)
			}
			return nil
		})
		x.add(fmt.Sprintf("%s/view%d.json", set, n), "the same as JSON", func(w io.Writer) error { return view.JSON(w, s, n) })
	}
	return s
}

// kernelFiles are files of the kernel that show where interrupts and packets go.
var kernelFiles = []struct{ path, what string }{
	{"/proc/interrupts", "interrupts by processor"}, {"/proc/softirqs", "softirqs by processor"},
	{"/proc/net/softnet_stat", "what softirq has handled and dropped, by processor"}, {"/proc/net/dev", "counters of interfaces"},
	{"/proc/net/snmp", "counters of IP, UDP and TCP"},
}

// machine adds what the kernel counts.
func (x *report) machine(set string) {
	for _, f := range kernelFiles {
		x.add(set+"/"+filepath.Base(f.path)+".txt", f.what, func(w io.Writer) error {
			text, err := os.ReadFile(f.path)
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		})
	}
}

// past adds the last quarter of an hour.
func (x *report) past() {
	from := time.Time{}
	for _, f := range []struct {
		name   string
		asJSON bool
	}{{".txt", false}, {".jsonl", true}} {
		x.add("history"+f.name, "xtstat history: second by second", func(w io.Writer) error { return writeHistory(w, x.reader, from, endOfTime, f.asJSON) })
		x.add("events"+f.name, "xtstat events: the journal", func(w io.Writer) error {
			return writeEvents(w, x.reader, from, endOfTime, &eventChoice{all: true}, f.asJSON)
		})
	}
	x.add("why.txt", "xtstat why: what was lost in the last quarter of an hour, where and why", func(w io.Writer) error {
		samples := x.reader.Samples()
		if len(samples) == 0 {
			return errors.New("the process has no sample yet")
		}
		begin, end := samples[0].Time.Add(-samples[0].Interval), samples[len(samples)-1].Time
		list, elsewhere := findings(x.reader, samples, begin, end)
		writeFindings(w, list, elsewhere, begin, end)
		return nil
	})
}

// settings writes the settings of the process's engines.
func (x *report) settings(w io.Writer) error {
	var text, indented bytes.Buffer
	err := answerTo(&text, x.reader, "settings", nil)
	if err == nil {
		err = json.Indent(&indented, text.Bytes(), "", "  ")
	}
	if err == nil {
		err = json.Unmarshal(text.Bytes(), &x.engines)
	}
	if err == nil {
		_, err = w.Write(indented.Bytes())
	}
	return err
}

// recorded adds what the recorder has in memory, and the newest file that it has written by itself.
func (x *report) recorded() {
	x.addOpened("frames.pcapng", "the recorder's frames: the last ones of offloaded rings, with the reasons of drops", func() (*os.File, error) {
		in, err := x.reader.Ask("capture", map[string]any{"mib": 1})
		if err != nil {
			return nil, err
		}
		defer in.Close()
		f, err := os.CreateTemp("", "xtstat-frames-")
		if err != nil {
			return nil, err
		}
		_ = os.Remove(f.Name()) // it ends with the descriptor
		_, err = io.Copy(f, in)
		return f, err
	})
	pattern := fmt.Sprintf("sxrecord.%d.*.pcapng", x.process.ID)
	for _, directory := range x.recordDirectories() {
		if names, _ := filepath.Glob(filepath.Join(directory, pattern)); len(names) > 0 { // the newest one is the last one
			x.addOpened("alarm.pcapng", "the newest file that the recorder has written by itself", func() (*os.File, error) { return os.Open(names[len(names)-1]) })
			return
		}
	}
}

// recordDirectories are where the engines' recorders write files by themselves: the dir of SX_RECORD.
func (x *report) recordDirectories() (list []string) {
	for _, e := range x.engines {
		for _, s := range e.Settings {
			if s.Name != "SX_RECORD" {
				continue
			}
			for part := range strings.SplitSeq(s.Value, ",") {
				if directory, found := strings.CutPrefix(part, "dir="); found {
					list = append(list, directory)
				}
			}
		}
	}
	return list
}

// addOpened adds the bytes of a file that open opens, which stays open until the archive is written.
func (x *report) addOpened(name, what string, open func() (*os.File, error)) {
	f, err := open()
	if err == nil {
		err = x.addFile(name, what, f)
	}
	if err != nil {
		if f != nil {
			_ = f.Close() // err tells more
		}
		x.missing = append(x.missing, fmt.Sprintf("%s: %v", name, err))
	}
}
