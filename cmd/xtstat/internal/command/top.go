package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/top"
)

// newTopCommand makes "top".
func newTopCommand() *cobra.Command {
	var t target
	var seconds float64
	var cycles int
	c := &cobra.Command{
		Use:   "top",
		Short: "Shows a process live: rates, what is lost, gaps between polls, buffers, sockets",
		Long:  "top is a live screen; ? lists its keys. On a pipe it prints the same as plain text, once for each interval.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case seconds < 0.1 || seconds > 3600:
				return usageError{fmt.Errorf("interval %v: want 0.1 to 3600 seconds", seconds)}
			case cycles < 0:
				return usageError{fmt.Errorf("cycles %d: want 0 or more", cycles)}
			case t.json:
				return usageError{fmt.Errorf("json: xtstat --json -v 3 and xtstat history --json have it")}
			}
			r, err := t.open(c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer r.Close()
			ctx, stop := signalContext()
			defer stop()
			interval := time.Duration(seconds * float64(time.Second))
			if isTerminal(c.OutOrStdout()) && cycles == 0 {
				return top.Show(ctx, r, interval)
			}
			return top.Print(ctx, c.OutOrStdout(), r, interval, cycles)
		},
	}
	t.flags(c.Flags())
	_ = c.Flags().MarkHidden("json")
	c.Flags().Float64VarP(&seconds, "interval", "i", 1, "seconds between two updates")
	c.Flags().IntVarP(&cycles, "cycles", "c", 0, "print so many, as plain text; 0: until interrupted")
	return c
}
