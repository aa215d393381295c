package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/web"
)

// newWebCommand makes "web".
func newWebCommand() *cobra.Command {
	var t target
	var seconds float64
	var listen string
	c := &cobra.Command{
		Use:   "web",
		Short: "Shows a process live in a browser: what top shows, with charts",
		Long: "web serves a page at http://127.0.0.1:9470/ that shows what top shows, with charts, until interrupted. It listens on loopback\n" +
			"addresses only, changes nothing, and the page asks no other server. From another machine: ssh -L 9470:127.0.0.1:9470.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case seconds < 0.1 || seconds > 3600:
				return usageError{fmt.Errorf("interval %v: want 0.1 to 3600 seconds", seconds)}
			case t.json:
				return usageError{errors.New("json: xtstat --json -v 3 and xtstat history --json have it")}
			}
			return serveWeb(c, &t, listen, time.Duration(seconds*float64(time.Second)))
		},
	}
	t.flags(c.Flags())
	_ = c.Flags().MarkHidden("json")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:9470", "the loopback address to listen on; port 0 takes a free one")
	c.Flags().Float64VarP(&seconds, "interval", "i", 1, "seconds between two updates")
	return c
}

// serveWeb serves until an interrupt. A process that ends stays on the page as it was.
func serveWeb(c *cobra.Command, t *target, listen string, interval time.Duration) error {
	l, err := web.Listen(listen)
	if err != nil {
		return usageError{err}
	}
	r, err := t.open(c.ErrOrStderr())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer r.Close()
	s, err := web.New(r, interval)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, stop := signalContext()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updated := make(chan error, 1)
	go func() {
		updated <- s.Run(ctx)
		cancel()
	}()
	fmt.Fprintf(c.ErrOrStderr(), "xtstat: %s, process %d, at http://%v/\n", r.Description().Program, s.Process(), l.Addr())
	err = serve(ctx, l, s.Handler(ctx))
	cancel()
	return errors.Join(err, <-updated)
}
