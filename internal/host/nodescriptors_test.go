package host

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOpenWithoutDescriptors opens the kernel's tables with room for ever more descriptors, until there are enough. Each failure before is an
// error, and leaves no descriptor behind.
func TestOpenWithoutDescriptors(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(list)
	}
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	restore := func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }
	defer restore()
	before, failures := count(), 0
	for n := uint64(0); n < 256; n++ {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: limit.Max}))
		k, err := newKernel(1 << 20)
		restore()
		if err == nil {
			k.stop()
			k.close()
			require.Equal(t, before, count())
			require.Greater(t, failures, 3)
			return
		}
		failures++
		require.Nil(t, k)
		require.ErrorIs(t, err, unix.EMFILE)
		require.Equal(t, before, count(), "a limit of %d: %v", n, err)
	}
	t.Fatal("256 descriptors are not enough")
}
