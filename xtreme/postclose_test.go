package xtreme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Post and Wake are for any goroutine also while the poller is being closed.
func TestPostWhileThePollerIsClosed(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	for range 2000 {
		p, err := e.NewPoller("closing", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8, MemoryOnDemand: true})
		require.NoError(t, err)
		begun, ended := make(chan struct{}), make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			close(begun)
			for p.Post(func() {}) == nil {
			}
		}()
		<-begun
		require.NoError(t, p.Close())
		require.Nil(t, <-ended, "Post panicked")
	}
}
