package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// capture is "capture": the frames that a process's recorder has.
type capture struct {
	target
	file     string
	live     bool
	only     bool
	last     time.Duration
	duration time.Duration
	mib      int
	snap     int
}

// newCaptureCommand makes "capture".
func newCaptureCommand() *cobra.Command {
	x := &capture{}
	c := &cobra.Command{
		Use:   "capture -w FILE [filter]",
		Short: "Writes the last frames of offloaded rings, or those that come, as pcapng for tcpdump and Wireshark",
		Long: "capture writes what the recorder of a process has (SX_RECORD): the last frames that its offloaded rings received and sent, the\n" +
			"reasons of drops, gaps and changes of paths as comments. With --live, --for or -w - it goes on with what comes, and turns a\n" +
			"recorder on that is off. A filter is one of tcpdump's, which compiles it.\n\n" +
			"  xtstat capture -w before.pcapng --last 10s\n" +
			"  xtstat capture -w - udp port 5000 | tcpdump -r - -n",
		RunE: x.run,
	}
	f := c.Flags()
	x.flags(f)
	_ = f.MarkHidden("json")
	f.StringVarP(&x.file, "write", "w", "", "the file to write, - for the standard output")
	f.BoolVar(&x.live, "live", false, "go on with what comes, until interrupted")
	f.BoolVar(&x.only, "new", false, "of a live capture: nothing of what came before")
	f.DurationVar(&x.last, "last", 0, "how far back; 0: all there is")
	f.DurationVar(&x.duration, "for", 0, "go on with what comes for so long")
	f.IntVar(&x.mib, "mib", 8, "MiB of memory for a recorder that the capture turns on")
	f.IntVar(&x.snap, "snap", 0, "bytes of a frame that such a recorder keeps; 0: all")
	return c
}

// check validates the options' values.
func (x *capture) check() error {
	switch {
	case x.file == "":
		return errors.New("-w FILE is missing: the file to write, - for the standard output")
	case x.last < 0:
		return fmt.Errorf("last %v: want 0 or more", x.last)
	case x.duration < 0:
		return fmt.Errorf("for %v: want 0 or more", x.duration)
	case x.mib < 1 || x.mib > 1024:
		return fmt.Errorf("mib %d: want 1 to 1024", x.mib)
	case x.snap < 0 || x.snap > 65535:
		return fmt.Errorf("snap %d: want 0 to 65535", x.snap)
	case x.json:
		return errors.New("json: a capture has no JSON; tshark -T json makes it")
	}
	return nil
}

// run is the command.
func (x *capture) run(c *cobra.Command, args []string) error {
	if err := x.check(); err != nil {
		return usageError{err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	filter, err := compileFilter(ctx, strings.Join(args, " "))
	if err != nil {
		return usageError{err}
	}
	r, err := x.open(c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.Close()
	live := x.live || x.duration > 0 || x.file == "-"
	in, err := r.Ask("capture", map[string]any{"live": live, "only": x.only, "last": x.last, "for": x.duration, "filter": filter, "mib": x.mib,
		"snap": x.snap})
	if err != nil {
		return err
	}
	defer in.Close()
	defer context.AfterFunc(ctx, func() { _ = in.Close() })()
	out := c.OutOrStdout()
	if x.file != "-" {
		file, err := os.OpenFile(x.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		n, err := io.Copy(file, in)
		if ctx.Err() != nil {
			err = nil // interrupted: what came is in the file
		}
		if err = errors.Join(err, file.Close()); err == nil {
			fmt.Fprintf(c.ErrOrStderr(), "xtstat: %d bytes in %s\n", n, x.file)
		}
		return err
	}
	_, err = io.Copy(out, in)
	if ctx.Err() != nil || errors.Is(err, syscall.EPIPE) { // the reader has enough
		err = nil
	}
	return err
}

// compileFilter has tcpdump make a program of a filter expression. Numbers are taken as such a program.
func compileFilter(ctx context.Context, text string) (string, error) {
	if text == "" || strings.Trim(text, "0123456789, \n") == "" {
		return text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var errs strings.Builder
	cmd := exec.CommandContext(ctx, "tcpdump", "-y", "EN10MB", "-ddd", text)
	cmd.Stderr = &errs
	program, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("filter %q: tcpdump compiles filters, and is not installed; what tcpdump -ddd prints elsewhere is taken, too", text)
	case err != nil:
		return "", fmt.Errorf("filter %q: tcpdump: %s", text, strings.TrimSpace(errs.String()))
	}
	return string(program), nil
}
