package flowrecord

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestRecord(t *testing.T) {
	c := Config{Dir: filepath.Join(t.TempDir(), "flows"), Flows: 2}
	r, err := Create(c)
	require.NoError(t, err)
	a, err := r.Add(ap("10.0.0.1:80"), ap("10.0.0.2:5000"), 7)
	require.NoError(t, err)
	b, err := r.Add(ap("10.0.0.1:80"), ap("[::ffff:10.0.0.2]:5001"), 8)
	require.NoError(t, err)
	_, err = r.Add(ap("10.0.0.1:80"), ap("10.0.0.2:5002"), 9)
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "2 connections")
	r.Advance(b, 1<<31)
	r.Remove(a)
	require.Equal(t, 1, r.Len())
	_, err = r.Add(ap("[::1]:80"), ap("10.0.0.2:5002"), 9)
	require.ErrorIs(t, err, ErrFlow)
	again, err := r.Add(ap("10.0.0.1:80"), ap("10.0.0.2:5002"), 9)
	require.NoError(t, err)
	require.Equal(t, a, again)
	// What another process would read.
	text, err := os.ReadFile(r.path)
	require.NoError(t, err)
	h, slots := layout(text)
	require.Equal(t, magic, string(h.magic[:]))
	require.EqualValues(t, os.Getpid(), h.pid)
	require.Equal(t, []slot{{[4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, 80<<16 | 5002, 9},
		{[4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, 80<<16 | 5001, 1 << 31}}, slots)
	info, err := os.Stat(r.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	// Its process lives.
	results, err := ResetDead(context.Background(), c)
	require.NoError(t, err)
	require.Empty(t, results)
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Close(), os.ErrClosed)
	entries, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Writing down, advancing and removing allocate nothing.
func TestRecordDoesNotAllocate(t *testing.T) {
	r, err := Create(Config{Dir: t.TempDir(), Flows: 10})
	require.NoError(t, err)
	local, remote := ap("10.0.0.1:80"), ap("10.0.0.2:5000")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s, _ := r.Add(local, remote, 1)
		r.Advance(s, 2)
		r.Remove(s)
	}))
	require.NoError(t, r.Close())
}

// What is no record, of another namespace, or not finished, is left alone, and told.
func TestStrangeFiles(t *testing.T) {
	c := Config{Dir: t.TempDir(), Flows: 1}
	write := func(name string, b []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, name), b, 0o600))
	}
	write("1-1.flows", []byte("short"))
	write("2-1.flows", make([]byte, 200))
	other := make([]byte, headerBytes+slotBytes)
	h, _ := layout(other)
	*h = header{capacity: 1, pid: 3, netns: 12345}
	copy(h.magic[:], magic)
	write("3-1.flows", other)
	write("notes.txt", nil)
	write(".new-4-1", nil)
	write(".new-5-1", nil)
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(c.Dir, ".new-5-1"), old, old))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(c.Dir, "6-1.flows")))
	results, err := ResetDead(context.Background(), c)
	require.NoError(t, err)
	require.Len(t, results, 4)
	for i, want := range []string{"5 bytes: not a record", "not a record, or of another version", "of another network namespace (net:[12345])",
		unix.ELOOP.Error()} {
		require.Contains(t, results[i].Skipped, want)
	}
	entries, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 6, "only the old unfinished one is removed")
}

func TestArguments(t *testing.T) {
	_, err := Create(Config{Dir: t.TempDir(), Flows: -1})
	require.ErrorContains(t, err, "Flows is -1, must be 1 to")
	_, err = Create(Config{Dir: "/proc/no/such"})
	require.ErrorIs(t, err, os.ErrNotExist)
	results, err := ResetDead(context.Background(), Config{Dir: "/no/such/directory"})
	require.NoError(t, err)
	require.Empty(t, results)
}

func BenchmarkAdvance(b *testing.B) {
	r, err := Create(Config{Dir: b.TempDir(), Flows: 1 << 16})
	require.NoError(b, err)
	defer func() { require.NoError(b, r.Close()) }()
	for i := range 1 << 16 {
		_, err := r.Add(ap("10.0.0.1:80"), netip.AddrPortFrom(ap("10.0.0.2:0").Addr(), uint16(i|1)), 1)
		require.NoError(b, err)
	}
	b.Run("one", func(b *testing.B) {
		for i := range b.N {
			r.Advance(5, uint32(i))
		}
	})
	b.Run("random", func(b *testing.B) {
		for i := range b.N {
			r.Advance(Slot(uint32(i)*2654435761>>16), uint32(i))
		}
	})
}
