package reactor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Shutdown waits for the end of the loop; on the loop itself it only begins it, and before Run as well.
func TestShutdownWaitsForTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		r := launch(t, kind, newEcho(), Config{}, func(l *Loop) { listen(t, l) })
		r.snapshot(t) // it runs
		require.NoError(t, r.Shutdown(context.Background()))
		require.Empty(t, r.poller.Engine().Pollers(), "its poller is closed")
		require.NoError(t, r.wait(t))
		require.NoError(t, r.Shutdown(context.Background()), "after the end")

		r = launch(t, kind, newEcho(), Config{}, func(l *Loop) { listen(t, l) })
		inside := make(chan error, 1)
		require.NoError(t, r.Post(func() { inside <- r.Shutdown(context.Background()) }))
		require.NoError(t, wait(t, inside))
		require.NoError(t, r.wait(t))

		p, err := newEngine(t, kind).NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		l, err := New(p, nothing, Config{})
		require.NoError(t, err)
		require.NoError(t, l.Shutdown(context.Background()), "before Run")
		require.NoError(t, l.Run(context.Background()))
		var none context.Context
		require.ErrorContains(t, l.Shutdown(none), "context nil")
	})
}

// Work that posts itself again keeps a shutdown from its end for the whole of Grace. With the context of Shutdown the waiting ends.
func TestShutdownAbortsWhenItsContextEnds(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		r := launch(t, kind, newEcho(), Config{Grace: time.Hour}, func(l *Loop) { listen(t, l) })
		var again func()
		again = func() { _ = r.Post(again) } // refused in the end
		require.NoError(t, r.Post(again))
		r.snapshot(t) // it runs
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(50*time.Millisecond, cancel)
		err := r.Shutdown(ctx)
		require.ErrorIs(t, err, context.Canceled, "an hour is not over")
		require.ErrorContains(t, err, `loop "test": shutdown`)
		require.NoError(t, r.wait(t))
	})
}

// A context that is nil is an error of Snapshot, as it is of Shutdown.
func TestSnapshotWithoutAContext(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		r := launch(t, kind, newEcho(), Config{}, func(l *Loop) { listen(t, l) })
		var none context.Context
		_, err := r.Snapshot(none)
		require.ErrorContains(t, err, "context nil")
		r.snapshot(t)
	})
}
