package gnetrun_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnetrun"
)

// runEcho serves until the test's end.
func runEcho(t *testing.T) (h *echo, address string) {
	h, address = newEcho(), freeAddress(t)
	result := make(chan error, 1)
	go func() { result <- gnetrun.Run(h, "tcp://"+address) }()
	select {
	case <-h.booted:
	case err := <-result:
		require.FailNow(t, "it did not start", "%v", err)
	case <-time.After(20 * time.Second):
		require.FailNow(t, "no OnBoot")
	}
	t.Cleanup(func() {
		require.NoError(t, h.engine.Stop(context.Background()))
		require.NoError(t, <-result)
	})
	return h, address
}

// Whatever TMPDIR is, the server runs, and nothing but the server is touched.
func TestCarrierNeedsNoFolder(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	require.NoError(t, os.Mkdir(long, 0o700))
	odd := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, os.MkdirAll(odd+"#part", 0o700))
	require.NoError(t, os.WriteFile(odd, []byte("mine"), 0o600))
	for name, folder := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "missing"), "longer than a socket's name": long, "with a #": odd + "#part",
	} {
		t.Run(name, func(t *testing.T) {
			here := t.TempDir()
			t.Chdir(here)
			t.Setenv("TMPDIR", folder)
			_, address := runEcho(t)
			c, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer func() { _ = c.Close() }()
			exchange(t, c)
			files, err := os.ReadDir(here)
			require.NoError(t, err)
			require.Empty(t, files)
			text, err := os.ReadFile(odd)
			require.NoError(t, err)
			require.Equal(t, "mine", string(text))
		})
	}
}

// Who connects to the carrier's own name is closed, and the handler is told nothing of it.
func TestStrangersAtTheCarrier(t *testing.T) {
	h, address := runEcho(t)
	c, err := net.Dial("unix", carrierName(t))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, _ = c.Write([]byte("shutdown"))
	_, err = io.ReadFull(c, make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Empty(t, h.opened)
	tcp, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = tcp.Close() }()
	exchange(t, tcp)
	require.Len(t, h.opened, 1)
}

// carrierName is the abstract name that this process listens on for the carrier: of the kernel's list the one that is new.
func carrierName(t *testing.T) string {
	text, err := os.ReadFile("/proc/net/unix")
	require.NoError(t, err)
	own := inodes(t)
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) == 8 && strings.HasPrefix(f[7], "@gnetrun-") && own["socket:["+f[6]+"]"] {
			return f[7]
		}
	}
	require.FailNow(t, "no carrier is listening")
	return ""
}

// inodes are this process's sockets.
func inodes(t *testing.T) map[string]bool {
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	m := map[string]bool{}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil {
			m[target] = true
		}
	}
	return m
}
