package xtreme_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// An interface that another poller has opened may not be offloadable any more when this poller is to open its share: it belongs to a bond by
// then, say. Here it is the loopback.
func TestShareOfAnInterfaceThatCannotBeOffloaded(t *testing.T) {
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingOffload, 512, 16
	e, err := xtreme.New(s)
	require.NoError(t, err)
	p, err := e.NewPoller("test", xtreme.PollerConfig{QueueShare: xtreme.QueueShare{Index: 1, Of: 2}})
	require.NoError(t, err)
	assert.NotPanics(t, func() { xtreme.OpenShare(p, "lo") })
	require.NoError(t, errors.Join(p.Close(), e.Close()))
}
