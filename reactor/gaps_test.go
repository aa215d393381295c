package reactor

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A timer's function and a posted one that take long are named in the journal. Other programs cause gaps too: each is tried until it is named.
func TestLongWorkIsNamedInTheJournal(t *testing.T) {
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers, s.StatsDirectory = conf.RingEpoll, 1024, 64, filepath.Join(t.TempDir(), "stats")
	p, err := mustEngine(t, s).NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	l, err := New(p, nothing, Config{Rest: Spin, Logger: quietLog()})
	require.NoError(t, err)
	r := &running{Loop: l, poller: p, result: make(chan error, 1)}
	go func() { r.result <- l.Run(context.Background()) }()
	t.Cleanup(func() { require.NoError(t, r.stop(t)) })
	list, err := stats.List(s.StatsDirectory)
	require.NoError(t, err)
	file, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer file.Close()
	long := func() {
		for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
		}
	}
	for name, do := range map[string]func(){
		stats.CodeTimers:     func() { r.do(t, func() { r.After(time.Millisecond, long) }) },
		stats.CodePostedWork: func() { r.do(t, long) },
	} {
		named := func() bool {
			for _, e := range file.Events() {
				if e.Kind == stats.EventPollGap.String() && e.Name == "test" && e.Code == name {
					return true
				}
			}
			return false
		}
		for end := time.Now().Add(patience); !named(); {
			require.True(t, time.Now().Before(end), name)
			do()
			time.Sleep(30 * time.Millisecond)
		}
	}
}
