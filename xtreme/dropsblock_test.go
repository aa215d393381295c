package xtreme_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The block for the drops of an offloaded ring that could not be made is given back with its poller.
func TestDropsOfARingThatWasNotMadeAreClosed(t *testing.T) {
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers, s.StatsDirectory = conf.RingEpoll, 64, 8, filepath.Join(t.TempDir(), "stats")
	e, err := xtreme.New(s)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	list, err := stats.List(s.StatsDirectory)
	require.NoError(t, err)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	p, err := e.NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	p.OpenDrops()
	require.Len(t, r.Blocks(stats.Drops), 1)
	require.NoError(t, p.Close())
	require.Empty(t, r.Blocks(stats.Drops))
}
