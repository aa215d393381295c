package conf

import (
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// The colours of lines are VMA's (libvma, vlogger.cpp): escape codes before and behind a line. Lines from info to debug have none.
const (
	colorError = "\x1b[0;31m" // red
	colorWarn  = "\x1b[2;35m" // magenta
	colorFine  = "\x1b[2m"    // faint: fine and finer
	colorEnd   = "\x1b[0m"
)

// colorOf returns the code before a line of a level; "": the line has no colour, or the log none at all.
func (l *Log) colorOf(level slog.Level) string {
	switch {
	case !l.colored:
		return ""
	case level >= slog.LevelError:
		return colorError
	case level >= slog.LevelWarn:
		return colorWarn
	case level < slog.LevelDebug:
		return colorFine
	}
	return ""
}

// isTerminal reports whether a file is a terminal, which shows colours. In a file or a pipe their codes would be read as text.
func isTerminal(f *os.File) bool {
	c, err := f.SyscallConn()
	if err != nil {
		return false
	}
	terminal := false
	err = c.Control(func(fd uintptr) {
		_, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		terminal = err == nil
	})
	return err == nil && terminal
}
