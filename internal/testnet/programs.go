package testnet

import (
	"context"
	"os/exec"
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

// NeedProgram skips the test where a program is not installed.
func NeedProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Missing(t, name, err)
	}
}
