package command

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// tmux is a terminal of its own server.
type tmux struct {
	t      *testing.T
	socket string
}

func (x *tmux) run(args ...string) string {
	x.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-L", x.socket, "-f", "/dev/null"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(x.t, err, "tmux %v: %s", args, errs.String())
	return string(out)
}

// shows waits until the screen has all the texts.
func (x *tmux) shows(texts ...string) (screen string) {
	x.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		screen = x.run("capture-pane", "-p")
		missing := ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" {
			return screen
		}
		if time.Now().After(end) {
			require.Fail(x.t, "not shown", "%q:\n%s", missing, screen)
		}
	}
}

// The screen in a real terminal: rates of what a sender sends, keys, another size, the end of the process, and the way out.
func TestTopInATerminal(t *testing.T) {
	testnet.NeedProgram(t, "tmux")
	p := startEcho(t, "epoll")
	x := &tmux{t, "xtstat-test-" + strconv.Itoa(os.Getpid())}
	x.run("new-session", "-d", "-x", "130", "-y", "45", "-e", "XTSTAT_TEST_RUN=top -k "+p.dir+" -i 0.2", os.Args[0])
	t.Cleanup(func() { _ = exec.Command("tmux", "-L", x.socket, "kill-server").Run() })
	x.shows("running", "rx packets", "gaps between polls", "lost, by reason", "buffers in use", "free ", "journal", "127.0.0.1:"+strconv.Itoa(p.port))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				p.send(20)
			}
		}
	}()
	screen := x.shows("█", "join") // bars of what is sent, and the membership in the journal
	close(stop)
	<-stopped
	require.NotContains(t, screen, "echo 0 ")
	x.run("send-keys", "?")
	x.shows("sort sockets by packets")
	x.run("send-keys", "Escape")
	x.shows("rx packets")
	x.run("send-keys", "i")
	x.run("send-keys", "Enter")
	x.shows("Fd=[", "Local Address")
	x.run("send-keys", "Enter")
	x.shows("rx packets")
	x.run("send-keys", " ")
	x.shows("paused")
	x.run("send-keys", " ")
	x.shows("running")
	x.run("resize-window", "-x", "70", "-y", "20")
	x.shows("rx packets")
	x.run("resize-window", "-x", "130", "-y", "45")
	x.shows("journal")
	p.kill()
	x.shows("ended")
	x.run("send-keys", "q")
	require.Eventually(t, func() bool {
		return exec.Command("tmux", "-L", x.socket, "has-session").Run() != nil
	}, 20*time.Second, 50*time.Millisecond, "q quits, and the session ends with it")
}

// On a pipe there are no escape codes.
func TestTopOnAPipe(t *testing.T) {
	p := startEcho(t, "epoll")
	p.send(10)
	out := p.run("top", "-i", "0.1", "-c", "2")
	require.NotContains(t, out, "\x1b")
	require.Equal(t, 2, strings.Count(out, "running"))
	require.Contains(t, out, "127.0.0.1:"+strconv.Itoa(p.port))
	_, errs, code := run("top", "-i", "0")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "interval 0")
}
