// Package command is the command line of xtstat: its options, its subcommands, and what they print. Command xtstat runs it.
//
// A subcommand lives in a file named after it, and stands in the list of register.go. It writes to the command's output, never to os.Stdout, so
// that a test can call Run.
package command
