package command

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What view 3 shows of the pollers of filesOf.
var pools = []string{"Size:                72\n", "Size:                73\n"}

// filesOf are the statistics files of two engines of this process that differ in VMA_STATS_FD_NUM, the older one first, with a poller each, of
// 72 and of 73 buffers. end closes the poller and the engine of one.
func filesOf(t *testing.T) (dir string, files []string, end func(i int)) {
	dir = filepath.Join(t.TempDir(), "stats")
	var ends []func()
	for i := range pools {
		s := conf.Default()
		s.Ring, s.StatsDirectory, s.StatsSockets = conf.RingEpoll, dir, 10+i
		e, err := xtreme.New(s)
		require.NoError(t, err)
		p, err := e.NewPoller("one", xtreme.PollerConfig{SmallBuffers: 64 + i, LargeBuffers: 8})
		require.NoError(t, err)
		open := true
		ends = append(ends, func() {
			if open {
				require.NoError(t, p.Close())
				require.NoError(t, e.Close())
				open = false
			}
		})
		t.Cleanup(ends[i])
		list, err := filepath.Glob(filepath.Join(dir, "sxstat.*[0-9]"))
		require.NoError(t, err)
		require.Len(t, list, i+1)
		files = append(files, list[i])
	}
	return dir, files, func(i int) { ends[i]() }
}

// A process with several files is told to have them, not to be several processes; -k with a file shows that one, in each view and subcommand.
func TestSeveralFilesOfAProcess(t *testing.T) {
	dir, files, end := filesOf(t)
	pid := strconv.Itoa(os.Getpid())
	out, errs, code := run("-k", dir, "-p", pid, "-c", "1")
	require.Equal(t, exitFailure, code)
	require.Empty(t, out)
	require.NotContains(t, errs, "is running in several namespaces")
	require.Contains(t, errs, "process "+pid+" has 2 statistics files")
	for _, path := range files {
		require.Contains(t, errs, "-k "+path)
	}
	_, errs, code = run("-k", dir, "-p", pid, "-z")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errs, "has 2 statistics files", "nothing is changed in a file that was not chosen")

	for i, path := range files {
		for _, choice := range [][]string{{"-k", path}, {"-k", path, "-p", pid}} {
			out, errs, code = run(append(choice, "-v", "3", "-c", "1")...)
			require.Zero(t, code, errs)
			require.Contains(t, out, pools[i])
			require.NotContains(t, out, pools[1-i])
			require.Empty(t, errs)
		}
		out, errs, code = run("-k", path, "-v", "5")
		require.Zero(t, code, errs)
		require.Contains(t, out, "Proto")
		_, errs, code = run("events", "-k", path)
		require.Zero(t, code, errs)
		_, errs, code = run("-k", path, "-z", "-c", "1")
		require.Zero(t, code, errs)
		for _, other := range [][]string{{"-p", "1"}, {"-n", "nonsense"}} {
			_, errs, code = run(append(other, "-k", path)...)
			require.Equal(t, exitFailure, code)
			require.Contains(t, errs, other[1])
		}
	}

	// Without -p the newest is shown, with a word of the other one.
	out, errs, code = run("-k", dir, "-v", "3", "-c", "1")
	require.Zero(t, code, errs)
	require.Contains(t, out, pools[1])
	require.Contains(t, errs, "-k "+files[0])

	// Of a process that has ended, too.
	end(1)
	out, errs, code = run("-k", dir, "-p", pid, "-v", "3", "-c", "1")
	require.Zero(t, code, errs)
	require.Contains(t, out, pools[0], "the live one")
	require.Empty(t, errs)
	end(0)
	_, errs, code = run("-k", dir, "-p", pid, "-v", "3", "-c", "1")
	require.Zero(t, code, errs)
	require.Contains(t, errs, "process "+pid+" has left 2 statistics files")
	require.Contains(t, errs, "-k "+files[0])
	_, errs, code = run("-k", files[0], "-v", "3", "-c", "1")
	require.Zero(t, code, errs)
	require.NotContains(t, errs, "statistics files")
}

// A file that was copied from another machine is shown like one of a process that has ended, whatever its name is.
func TestFileThatWasCopied(t *testing.T) {
	_, files, _ := filesOf(t)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "from_production")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	out, errs, code := run("-k", path, "-v", "3", "-c", "1")
	require.Zero(t, code, errs)
	require.Contains(t, out, pools[0])
	require.Contains(t, errs, "has ended")
	_, errs, code = run("-k", filepath.Dir(path)+"/nothing")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errs, "nothing")
}
