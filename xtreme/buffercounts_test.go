package xtreme_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A number of buffers that no poller can have is refused where it is set, by the name of the setting; the largest one that is taken is one
// that a poller can have beside the fewest buffers of the other size.
func TestMostBuffersOfASetting(t *testing.T) {
	fewest := buffers.DefaultLayout()
	fewest.SmallCount, fewest.LargeCount = 64, 8
	for name, set := range map[string]func(l *buffers.Layout, n int){
		"VMA_RX_BUFS":   func(l *buffers.Layout, n int) { l.SmallCount = n },
		"VMA_TX_BUFS":   func(l *buffers.Layout, n int) { l.SmallCount += n },
		"SX_LARGE_BUFS": func(l *buffers.Layout, n int) { l.LargeCount = n },
	} {
		t.Run(name, func(t *testing.T) {
			fits := func(n int) bool { l := fewest; set(&l, n); return l.Validate() == nil }
			low, high := 8, 1<<28 // fits, does not
			for high-low > 1 {
				if middle := (low + high) / 2; fits(middle) {
					low = middle
				} else {
					high = middle
				}
			}
			for n, taken := range map[int]bool{low: true, high: false} {
				path := filepath.Join(t.TempDir(), "log")
				t.Setenv("VMA_LOG_FILE", path)
				t.Setenv(name, fmt.Sprint(n))
				e, err := xtreme.New(conf.FromEnvironment())
				require.NoError(t, err)
				require.NoError(t, e.Close())
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				refused := fmt.Sprintf("%s=\"%d\": want a number from ", name, n)
				if taken {
					require.NotContains(t, string(text), refused)
				} else {
					require.Contains(t, string(text), refused)
				}
			}
		})
	}
}

// Numbers that do not fit together are the error of NewPoller, which says where each comes from.
func TestBuffersThatDoNotFitTogether(t *testing.T) {
	s := conf.Default()
	s.Ring, s.LargeBuffers, s.SendBuffers = conf.RingEpoll, 65_300, 100
	e, err := xtreme.New(s)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	for want, c := range map[string]xtreme.PollerConfig{
		"VMA_RX_BUFS=4096, VMA_TX_BUFS=100 and SX_LARGE_BUFS=65300":           {},
		"PollerConfig.SmallBuffers=5000 and SX_LARGE_BUFS=65300":              {SmallBuffers: 5000},
		"PollerConfig.SmallBuffers=500 and PollerConfig.LargeBuffers=1000000": {SmallBuffers: 500, LargeBuffers: 1_000_000},
	} {
		_, err := e.NewPoller("large", c)
		require.ErrorIs(t, err, buffers.ErrSize)
		require.ErrorContains(t, err, want)
	}
}
