package testnet

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// RunInPeer runs a program on the peer's side and returns what it printed. The test is skipped, with the reason, where the program is not
// installed; it fails if the program fails, or does not end within 60 seconds.
func (n *Net) RunInPeer(t testing.TB, name string, args ...string) string {
	t.Helper()
	NeedProgram(t, name)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out []byte
	var err error
	n.InPeer(func() { out, err = cmd.CombinedOutput() })
	require.NoError(t, err, "%v:\n%s", cmd, out)
	return string(out)
}

// OwnTCP starts the test binary on this side, with TCP by our own stack and the given variable of the environment set, until the test's end.
// It returns once the program has printed a line with ready. The result is what it has printed, complete after the call stop, which ends it and
// fails the test unless it ends well.
func (n *Net) OwnTCP(t testing.TB, variable, ready string, args ...string) (stop func() string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), variable+"=1", "SX_RING=offload", "SX_OFFLOAD_TCP=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	ended := make(chan string, 1)
	lines := bufio.NewReader(out)
	said := ""
	for !strings.Contains(said, ready) {
		line, err := lines.ReadString('\n')
		if said += line; err != nil {
			_ = cmd.Wait()
			require.NoError(t, err, said)
		}
	}
	go func() {
		rest, _ := io.ReadAll(lines)
		ended <- said + string(rest)
	}()
	stopped := false
	stop = func() string {
		stopped = true
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		select {
		case all := <-ended:
			require.NoError(t, cmd.Wait(), all)
			return all
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			require.FailNow(t, "the program does not end", said+<-ended)
		}
		return ""
	}
	t.Cleanup(func() {
		if !stopped {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return stop
}

// NeedProgram skips the test where a program is not installed.
func NeedProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Missing(t, name, err)
	}
}
