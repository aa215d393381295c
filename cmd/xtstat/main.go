// Command xtstat shows what programs on the library count: see docs/monitoring.md.
package main

import (
	"os"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/command"
)

func main() { os.Exit(command.Run(os.Args[1:], os.Stdout, os.Stderr)) }
