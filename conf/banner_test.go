package conf

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The start-up lines begin with the version and the command line, as VMA's do. Arguments cannot break a line.
func TestBanner(t *testing.T) {
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{"/opt/feed", "-if", "eth1", "", "two words", "a\nb\x1b[0m", "größe"}
	var text strings.Builder
	s := Default()
	s.LogLevel = LogInfo
	s.Announce(slog.New(slog.NewTextHandler(&text, nil)))
	lines := regexp.MustCompile(`msg=(.*)`).FindAllStringSubmatch(text.String(), -1)
	require.Len(t, lines, 5, text.String())
	require.Regexp(t, `^"SX_VERSION: \S+, go\S+ linux/\w+"$`, lines[1][1])
	require.Equal(t, `"Cmd Line: /opt/feed -if eth1 \"\" \"two words\" \"a\\nb\\x1b[0m\" größe"`, lines[2][1])
	require.Contains(t, lines[3][1], "VMA_TRACELEVEL")
}
