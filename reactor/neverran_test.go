package reactor

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// descriptors is how many this process has open, but for files of /proc: the goroutine of the statistics opens some now and then.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); !strings.HasPrefix(to, "/proc/") {
			n++
		}
	}
	return n
}

// watching opens what a set-up may open before it fails: a watched descriptor, a listener, a socket without a ring.
func watching(t *testing.T, l *Loop, fd int) {
	require.NoError(t, l.Watch(fd, xtreme.EventIn, func(xtreme.Event) {}))
	_, err := l.Poller().ListenTCP(loopback, xtreme.ListenConfig{})
	require.NoError(t, err)
	_, err = l.Poller().NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
	require.NoError(t, err)
}

// A group whose set-up fails leaves no descriptor open, however it fails.
func TestAFailedSetupLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		defer w.Close()
		ends := map[string]func() (Handler, error){
			"error":       func() (Handler, error) { return nil, errors.New("no") },
			"no handler":  func() (Handler, error) { return nil, nil },
			"panic":       func() (Handler, error) { panic("no") },
			"end of it":   func() (Handler, error) { runtime.Goexit(); return nil, nil },
			"error again": func() (Handler, error) { return nil, errors.New("no") },
		}
		fail := func(end func() (Handler, error)) {
			require.Error(t, RunGroup(context.Background(), e, 1, func(l *Loop) (Handler, error) {
				watching(t, l, int(r.Fd()))
				return end()
			}, Config{Rest: Wait}))
		}
		fail(ends["error"]) // what is opened once, by the runtime for one
		before := descriptors(t)
		for name, end := range ends {
			fail(end)
			require.Equal(t, before, descriptors(t), name)
			require.Empty(t, e.Pollers(), name)
		}
	})
}

// A loop that never ran is closed, and its poller with it.
func TestALoopThatNeverRanIsClosed(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		defer w.Close()
		make := func() *Loop {
			p, err := e.NewPoller("never", xtreme.PollerConfig{})
			require.NoError(t, err)
			l, err := New(p, newEcho(), Config{Rest: Wait})
			require.NoError(t, err)
			watching(t, l, int(r.Fd()))
			return l
		}
		closeLoop := func(l *Loop) error {
			c, ok := any(l).(interface{ Close() error })
			if !ok {
				require.NoError(t, l.Poller().Close())
				require.Fail(t, "a loop cannot be closed")
			}
			return c.Close()
		}
		require.NoError(t, closeLoop(make()))
		before := descriptors(t)
		l := make()
		require.NoError(t, l.Post(func() { t.Error("posted work ran") }))
		require.NoError(t, closeLoop(l))
		require.Equal(t, before, descriptors(t))
		require.ErrorIs(t, closeLoop(l), ring.ErrClosed)
		require.ErrorIs(t, l.Run(context.Background()), ring.ErrClosed)
		require.Error(t, l.Post(func() {}))
		require.Empty(t, e.Pollers())
	})
}
