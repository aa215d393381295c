package xtreme_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// closingLog closes the engine at the warning of a poller that is being made.
type closingLog struct {
	slog.Handler
	engine *xtreme.Engine
	closed error
	called bool
}

func (h *closingLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *closingLog) Handle(_ context.Context, r slog.Record) error {
	if h.engine != nil && !h.called && strings.Contains(r.Message, "PollerConfig.LargeBuffers") {
		h.called = true
		h.closed = h.engine.Close()
	}
	return nil
}

// A poller that is being made counts as an open one: the engine's Close names it and changes nothing.
func TestEngineIsClosedWhileAPollerIsMade(t *testing.T) {
	h := &closingLog{}
	s := conf.Default()
	s.Ring, s.LargeBuffers, s.Logger = conf.RingEpoll, 16, slog.New(h)
	e, err := xtreme.New(s)
	require.NoError(t, err)
	h.engine = e
	type made struct {
		poller *xtreme.Poller
		err    error
	}
	result := make(chan made, 1)
	go func() {
		p, err := e.NewPoller("late", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
		result <- made{p, err}
	}()
	select {
	case m := <-result:
		require.True(t, h.called)
		require.ErrorContains(t, h.closed, `pollers still open: ["late"]`)
		require.NoError(t, m.err)
		require.NoError(t, m.poller.Close())
		require.NoError(t, e.Close())
	case <-time.After(10 * time.Second):
		t.Fatal("NewPoller does not return")
	}
}
