package flowrecord

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// The record of a killed process stays while its network namespace is there, and is removed once that is gone: nobody can use it any more.
func TestRecordOfANamespaceThatIsGone(t *testing.T) {
	if dir := os.Getenv("FLOWRECORD_TEST_AWAY"); dir != "" {
		away(t, dir)
	}
	if newer, _ := sys.ReleaseAtLeast(sys.KernelRelease(), 6, 18); !newer {
		testnet.Missing(t, "handles of namespaces", "Linux 6.18, this is "+sys.KernelRelease())
	}
	testnet.New(t, testnet.Pair{}) // or skip: namespaces can be made
	c := Config{Dir: t.TempDir()}
	process := exec.Command(os.Args[0], "-test.run=^TestRecordOfANamespaceThatIsGone$")
	process.Env = append(os.Environ(), "FLOWRECORD_TEST_AWAY="+c.Dir)
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	var thread int // of the process, in its namespace
	_, err = fmt.Fscanln(out, &thread)
	require.NoError(t, err)
	keep, err := os.Open(fmt.Sprintf("/proc/%d/task/%d/ns/net", process.Process.Pid, thread))
	require.NoError(t, err)
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())
	results, err := ResetDead(context.Background(), c)
	require.NoError(t, err)
	require.Len(t, results, 1)
	require.Contains(t, results[0].Skipped, "of another network namespace")
	require.NoError(t, keep.Close())
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the kernel takes it down some time later
		require.True(t, time.Now().Before(end), "%+v", results)
		results, err = ResetDead(context.Background(), c)
		require.NoError(t, err)
		entries, err := os.ReadDir(c.Dir)
		require.NoError(t, err)
		if len(entries) == 0 {
			break
		}
	}
	require.Len(t, results, 1)
	require.Equal(t, Result{File: results[0].File, Process: process.Process.Pid, Flows: 2, Gone: true}, results[0])
}

// away is a process with a record in a network namespace of its own.
func away(t *testing.T, dir string) {
	runtime.LockOSThread()
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	r, err := Create(Config{Dir: dir, Flows: 10})
	require.NoError(t, err)
	for i := range uint16(2) {
		_, err := r.Add(ap("10.0.0.1:80"), ap("10.0.0.2:5000"), uint32(i))
		require.NoError(t, err)
	}
	fmt.Println(unix.Gettid())
	time.Sleep(time.Minute)
	t.Fatal("nobody killed the process")
}
