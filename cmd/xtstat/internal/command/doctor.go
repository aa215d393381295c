package command

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/doctor"
)

// newDoctorCommand makes "doctor".
func newDoctorCommand() *cobra.Command {
	var asJSON, fix bool
	c := &cobra.Command{
		Use:   "doctor [interface]",
		Short: "Checks whether this machine and its interfaces are set up for offloaded rings",
		Long: "doctor prints a line for each check: good, or what is wrong with the command that cures it. Without an interface it checks all but\n" +
			"the loopback interface. It ends with 1 if something is to be cured. --fix applies cures that are safe: settings of the kernel\n" +
			"that can be written back and take no link down; each such line says how to undo it.",
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return examine(c.OutOrStdout(), doctor.This(), name, asJSON, fix)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each check")
	c.Flags().BoolVar(&fix, "fix", false, "apply the cures that are safe")
	return c
}

// examine prints the lines of the checks. exitError if something is left to be cured.
func examine(w io.Writer, s *doctor.System, name string, asJSON, fix bool) error {
	list, err := doctor.Run(s, name)
	if err != nil {
		return err
	}
	if fix {
		doctor.Fix(s, list)
	}
	cures := 0
	for i := range list {
		r := &list[i]
		if r.Status == doctor.Cure {
			cures++
		}
		if asJSON {
			err = json.NewEncoder(w).Encode(r)
		} else {
			err = line(w, r)
		}
		if err != nil {
			return err
		}
	}
	if cures > 0 {
		return exitError(exitFailure)
	}
	return nil
}

// line prints one check, with its cure on the same line.
func line(w io.Writer, r *doctor.Result) error {
	check := r.Check
	if r.On != "" {
		check = r.On + " " + check
	}
	text := r.Text
	switch {
	case r.Fixed != "":
		text += "; fixed: " + r.Fixed + "; undo: " + r.Undo
	case r.Cure != "":
		text += "; cure: " + r.Cure
	}
	_, err := fmt.Fprintf(w, "%-7s %-26s %s\n", r.Status, check, text)
	return err
}
