package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A log level for a time is taken back by the process itself; one without a time, set meanwhile, stays.
func TestLogLevelForATime(t *testing.T) {
	p := startEcho(t, "epoll")
	isLogged := func() bool { // whether a dump at debug reaches the log, which is at info
		count := func() int {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(p.dir), "log"))
			p.NoError(err)
			return strings.Count(string(text), "Fd=["+p.tcp+"]")
		}
		before := count()
		p.run("-S", p.tcp, "debug")
		return count() > before
	}
	p.False(isLogged())
	p.run("-l", "debug", "--for", "1m", "-c", "1")
	p.True(isLogged())
	p.run("-l", "debug", "--for", "1s", "-c", "1") // shorter; what it goes back to is what was before the first
	p.Eventually(func() bool { return !isLogged() }, 20*time.Second, 50*time.Millisecond)

	p.run("-l", "debug", "--for", "500ms", "-c", "1")
	p.run("-l", "debug", "-c", "1")
	time.Sleep(time.Second)
	p.True(isLogged())

	for _, args := range [][]string{{"--for", "1s"}, {"-l", "debug", "--for", "25h"}, {"-l", "debug", "--for", "-1s"}} {
		_, errs, code := run(append(args, "-k", p.dir)...)
		p.Equal(exitUsage, code, errs)
		p.Contains(errs, "for ")
	}
}

// A process logs each packet from the moment at which xtstat asks for it, until it is taken back.
func TestPacketsInTheLog(t *testing.T) {
	p := startEcho(t, "epoll")
	packets := func() int {
		p.send(3)
		text, err := os.ReadFile(filepath.Join(filepath.Dir(p.dir), "log"))
		p.NoError(err)
		return strings.Count(string(text), " SX FINE: completion ")
	}
	p.Zero(packets())
	p.run("-l", "fine", "-c", "1")
	p.Eventually(func() bool { return packets() > 0 }, 20*time.Second, 20*time.Millisecond)
	p.run("-l", "info", "-c", "1")
	p.Eventually(func() bool { before := packets(); return packets() == before }, 20*time.Second, 20*time.Millisecond)
}
