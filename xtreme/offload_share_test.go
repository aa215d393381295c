package xtreme_test

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// An interface that another poller has opened may not be offloadable any more when this poller is to open its share: it belongs to a bond by
// then, say. Here it is the loopback.
func TestShareOfAnInterfaceThatCannotBeOffloaded(t *testing.T) {
	var log bytes.Buffer
	s := conf.Default()
	s.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingOffload, 512, 16
	e, err := xtreme.New(s)
	require.NoError(t, err)
	p, err := e.NewPoller("test", xtreme.PollerConfig{QueueShare: xtreme.QueueShare{Index: 1, Of: 2}})
	require.NoError(t, err)
	leave, err := e.JoinInterfaces() // as the other poller has
	require.NoError(t, err)
	assert.NotPanics(t, func() { xtreme.OpenShare(p, "lo") })
	assert.Contains(t, log.String(), "[link.loopback]")
	require.NoError(t, errors.Join(p.Close(), leave(), e.Close()))
}

// A poller opens its share of an interface that another one has opened beside its Poll, which makes no configuration call for it.
func TestShareIsOpenedBesidePoll(t *testing.T) {
	w := newCabled(t, testnet.Pair{Queues: 2})
	w.engine = w.newEngine(ownTCP)
	w.poller = w.newPoller("first", xtreme.PollerConfig{QueueShare: xtreme.QueueShare{Index: 0, Of: 2}})
	var calls *testnet.Calls
	var serves, stop atomic.Bool // the second poller has a link; it is to end
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and never unlocked
		x, err := w.engine.NewPoller("second", xtreme.PollerConfig{QueueShare: xtreme.QueueShare{Index: 1, Of: 2}})
		if assert.NoError(t, errors.Join(w.net.Enter(), err)) {
			dst := make([]xtreme.Completion, 64)
			poll := func() {
				_, err := x.Poll(dst)
				assert.NoError(t, err)
			}
			poll()
			calls = testnet.ConfigurationCalls(t)
			close(ready)
			for !stop.Load() {
				poll()
				for _, r := range x.Rings() {
					for _, c := range r.Stats().Driver {
						if strings.HasSuffix(c.Name, ".rx_frames") {
							serves.Store(true)
						}
					}
				}
				runtime.Gosched()
			}
			assert.NoError(t, x.Close())
		} else {
			close(ready)
		}
	}()
	<-ready
	defer func() {
		stop.Store(true)
		<-ended
	}()
	require.False(t, t.Failed())
	l := w.listenTCP(w.world, w.at(0))
	w.NotEmpty(l.Path().Links)
	for end := time.Now().Add(patience); !serves.Load(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "the second poller does not serve its share; configuration calls of its Poll: %v", calls)
		w.poll()
	}
	require.Zero(t, calls.Total(), "configuration calls of Poll: %v", calls)
}
