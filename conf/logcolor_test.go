package conf

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudoterminal: the name of the side that a program writes to, and the side that shows it.
func openTerminal(t *testing.T) (name string, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	return fmt.Sprintf("/dev/pts/%d", n), screen
}

// Lines have VMA's colours on a terminal, and no codes with VMA_LOG_COLORS=0, in a file, and in a pipe.
func TestLogColors(t *testing.T) {
	write := func(s Settings) {
		s.LogLevel = LogFiner
		l, err := s.OpenLog()
		require.NoError(t, err)
		for level, line := range map[LogLevel]string{LogError: "bad", LogWarn: "odd", LogInfo: "said", LogDebug: "call", LogFine: "packet"} {
			LogAt(l.Logger, level, line)
		}
		require.NoError(t, l.Close())
	}
	colored := []string{"\x1b[0;31m SX ERROR: bad\x1b[0m", "\x1b[2;35m SX WARN: odd\x1b[0m", " SX INFO: said", " SX DEBUG: call", "\x1b[2m SX FINE: packet\x1b[0m"}
	plain := []string{" SX ERROR: bad", " SX WARN: odd", " SX INFO: said", " SX DEBUG: call", " SX FINE: packet"}

	name, screen := openTerminal(t)
	keep, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0) // the terminal is there between two logs
	require.NoError(t, err)
	defer keep.Close()
	shown := bufio.NewScanner(screen)
	lines := func() (list []string) {
		for range plain {
			require.True(t, shown.Scan())
			list = append(list, strings.TrimSuffix(shown.Text(), "\r"))
		}
		return list
	}
	for _, c := range []struct {
		setting string
		want    []string
	}{{"1", colored}, {"", colored}, {"0", plain}} {
		given := map[string]string{"VMA_LOG_FILE": name}
		if c.setting != "" {
			given["VMA_LOG_COLORS"] = c.setting
		}
		write(fromEnvironment(env(given)))
		require.ElementsMatch(t, c.want, lines(), "VMA_LOG_COLORS=%s", c.setting)
	}

	path := filepath.Join(t.TempDir(), "log")
	write(fromEnvironment(env(map[string]string{"VMA_LOG_FILE": path, "VMA_LOG_COLORS": "1"})))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.ElementsMatch(t, plain, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), "a file")

	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	stderr := os.Stderr
	os.Stderr = w
	write(fromEnvironment(env(map[string]string{"VMA_LOG_COLORS": "1"})))
	os.Stderr = stderr
	require.NoError(t, w.Close())
	piped := bufio.NewScanner(r)
	var list []string
	for piped.Scan() {
		list = append(list, piped.Text())
	}
	require.ElementsMatch(t, plain, list, "standard error that is a pipe")
}
