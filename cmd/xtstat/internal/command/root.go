package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes.
const (
	exitGood    = 0
	exitFailure = 1 // something could not be done, or was found wrong; the reason is on standard error
	exitUsage   = 2 // options or arguments that do not exist or do not fit
)

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends the command with a code, and no line on standard error: what is to be said was printed.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Run runs xtstat with the arguments behind its name and returns its exit code.
func Run(args []string, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.Execute()
	var code exitError
	var usage usageError
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		fmt.Fprintf(errs, "xtstat: %v\nxtstat -h lists the options.\n", err)
		return exitUsage
	}
	fmt.Fprintf(errs, "xtstat: %v\n", err)
	return exitFailure
}

// newRoot is the command xtstat with all that is under it.
func newRoot() *cobra.Command {
	v := &views{}
	root := &cobra.Command{
		Use:   "xtstat",
		Short: "Shows what programs on the library count",
		Long: "xtstat shows what programs on the library count, as vma_stats does, with its options by the same letters.\n" +
			"The counters are those of docs/counters.md; docs/monitoring.md tells how to find out what was lost, where and why.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          v.args,
		RunE:          v.run,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetGlobalNormalizationFunc(anyDash)
	v.flags(root)
	for _, newCommand := range subcommands {
		root.AddCommand(newCommand())
	}
	return root
}

// usageArgs makes what a check of arguments says a usageError.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// anyDash takes long options with underscores, as vma_stats spells them, and with hyphens.
func anyDash(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "-", "_"))
}
