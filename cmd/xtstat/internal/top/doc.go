// Package top is the screen of xtstat top: it draws what package live has of a process on the terminal, or prints it as plain text on a pipe.
// Command xtstat runs it.
package top
