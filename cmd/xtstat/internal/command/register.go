package command

import "github.com/spf13/cobra"

// subcommands make the commands under xtstat, in the order of the help.
var subcommands = []func() *cobra.Command{
	newHistoryCommand,
	newEventsCommand,
	newWhyCommand,
	newCaptureCommand,
	newDoctorCommand,
	newReportCommand,
	newMetricsCommand,
	newTopCommand,
	newWebCommand,
	newVersionCommand,
}
