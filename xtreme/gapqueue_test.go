package xtreme

import (
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/stats"
)

// The journal says how many gaps it does not have: also those for which the queue to the statistics' goroutine had no room.
func TestGapsWithoutRoomInTheQueueAreLeftOut(t *testing.T) {
	s := conf.Default()
	s.Ring, s.StatsDirectory, s.SmallBuffers, s.LargeBuffers = conf.RingEpoll, filepath.Join(t.TempDir(), "stats"), 512, 16
	e, err := New(s)
	require.NoError(t, err)
	p, err := e.NewPoller("gaps", PollerConfig{})
	require.NoError(t, err)
	list, err := stats.List(s.StatsDirectory)
	require.NoError(t, err)
	require.Len(t, list, 1)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)

	more := regexp.MustCompile(`; (\d+) more like it were left out$`)
	// inJournal counts gaps of a length: those that the journal has, and those of which it says that they were left out.
	inJournal := func(length time.Duration) (n int) {
		for _, e := range r.Events() {
			if e.Kind != "poll_gap" || e.Count != uint64(length) {
				continue
			}
			n++
			if m := more.FindStringSubmatch(e.Text); m != nil {
				leftOut, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				n += leftOut
			}
		}
		return n
	}
	const short, long = 200 * time.Microsecond, 20 * time.Millisecond
	m, most := p.monitor, len(gapQueue{}.records)+36
	put := func(length time.Duration, n int) {
		for range n {
			m.gaps.put(gapRecord{Gap: ring.Gap{Length: length}, end: time.Now()})
		}
	}
	m.of.mu.Lock() // the statistics' goroutine takes none meanwhile
	put(short, most)
	put(long, 2)
	m.of.mu.Unlock()
	require.Eventually(t, func() bool { return m.gaps.head.Load() == m.gaps.tail.Load() }, testnet.Slow(20*time.Second), time.Millisecond)
	put(short, 1)
	put(long, 1)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Equal(c, most+1, inJournal(short))
		require.Equal(c, 2+1, inJournal(long))
	}, testnet.Slow(5*time.Second), 10*time.Millisecond)
	require.NoError(t, r.Close())
	require.NoError(t, p.Close())
	require.NoError(t, e.Close())
}
