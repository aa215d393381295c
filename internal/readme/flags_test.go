package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// Each example exits with 2 when its arguments are wrong and with 0 when it is asked for its flags, as programs with package flag do.
func TestExamplesRefuseWrongArguments(t *testing.T) {
	programs := map[string][]string{ // a value that a flag does not take
		"echo": {"-ring", "dpdk"}, "feedhandler": {"-ring", "dpdk"}, "framed": {"-multicore=dpdk"}, "https": {"-ring", "dpdk"}, "mdreplay": {"-loss", "x"},
		"proxy": {"-ring", "dpdk"}, "receive-callback": {"-ring", "dpdk"}, "resp": {"-ring", "dpdk"}, "rules": {"-ask", "server=1.1.1.1:1"},
		"warm-send": {"-ring", "dpdk"}, "zero-copy-receive": {"-ring", "dpdk"},
	}
	dir := t.TempDir()
	testnet.NeedProgram(t, "go")
	build := exec.Command("go", "build", "-o", dir+"/", "./examples/...")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	built, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, built, len(programs))
	code := func(name string, args ...string) int {
		cmd := exec.Command(filepath.Join(dir, name), args...)
		cmd.Env = []string{}
		out, _ := cmd.CombinedOutput()
		require.NotEmpty(t, out, "%s says nothing", name)
		return cmd.ProcessState.ExitCode()
	}
	for name, bad := range programs {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, code(name, "-help"))
			require.Equal(t, 2, code(name, "-no-such-flag"), "-no-such-flag")
			require.Equal(t, 2, code(name, "argument"), "an argument that is no flag")
			require.Equal(t, 2, code(name, bad...), "%v", bad)
		})
	}
}
