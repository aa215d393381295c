package conf

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode"

	"github.com/socketxtreme/socketxtreme/internal/version"
)

// banner are the lines before the settings that say what runs, as VMA has them: the version, and the command line.
func banner() []string {
	v := version.OfModule()
	if v == "" {
		v = "unknown" // the build has no module information
	}
	return []string{
		"SX_VERSION: " + v + ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		"Cmd Line: " + commandLine(os.Args),
	}
}

// commandLine joins arguments with blanks. One that a shell would need quoted, or that would break the line, is written as in Go.
func commandLine(args []string) string {
	list := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsFunc(a, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) || c == '"' }) {
			a = strconv.Quote(a)
		}
		list[i] = a
	}
	return strings.Join(list, " ")
}
