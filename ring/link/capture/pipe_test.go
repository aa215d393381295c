package capture

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newPipe makes a named pipe, as one to Wireshark is.
func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	return path
}

// A reader of a pipe that does not read holds neither the link nor Close: what it did not take is counted, of the link and of the file.
func TestAReaderThatDoesNotRead(t *testing.T) {
	path := newPipe(t)
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	f, err := Open(Config{Path: path, patience: 50 * time.Millisecond})
	require.NoError(t, err)
	w := newWorld(t, f)
	for range 400 { // more than a pipe and the buffer in front of it hold
		w.send(0, random(1000))
	}
	done := make(chan error, 1)
	go func() { done <- f.Close() }()
	select {
	case err := <-done:
		w.ErrorIs(err, os.ErrDeadlineExceeded)
	case <-time.After(20 * time.Second):
		t.Fatal("Close waits for a reader that does not read")
	}
	counts := w.counts(0)
	w.Positive(counts["capture.failed"])
	w.Equal(uint64(400), counts["capture.frames"]+counts["capture.failed"])
	w.Equal(counts["capture.written"], counts["capture.frames"])
	w.Equal(counts["capture.failed"], f.Stats().Failed)
}

// A reader that reads has the file, and one that goes away is an error of writing.
func TestAReaderOfAPipe(t *testing.T) {
	path := newPipe(t)
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	f, err := Open(Config{Path: path})
	require.NoError(t, err)
	w := newWorld(t, f)
	frame := random(100)
	w.send(0, frame)
	b := make([]byte, 4096)
	var got []byte
	w.NoError(reader.SetReadDeadline(time.Now().Add(20 * time.Second)))
	for !bytes.Contains(got, frame) {
		n, err := reader.Read(b)
		w.NoError(err)
		got = append(got, b[:n]...)
	}
	w.Eventually(func() bool { return w.counts(0)["capture.written"] == 1 }, 20*time.Second, time.Millisecond, "counted after the write")
	w.NoError(reader.Close())
	w.send(0, frame)
	w.ErrorIs(f.Close(), unix.EPIPE)
	w.Equal(uint64(1), w.counts(0)["capture.failed"])
}

// A pipe without a reader is refused at once: open(2) would wait for one.
func TestAPipeWithoutAReader(t *testing.T) {
	done := make(chan error, 1)
	path := newPipe(t)
	go func() { _, err := Open(Config{Path: path}); done <- err }()
	select {
	case err := <-done:
		require.ErrorIs(t, err, unix.ENXIO)
		require.ErrorContains(t, err, "start its reader first")
	case <-time.After(20 * time.Second):
		t.Fatal("Open waits for a reader")
	}
}
