package buffers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Check reports what a release would meet, and changes nothing.
func TestCheck(t *testing.T) {
	p, other := newPool(t, frameLayout), newPool(t, frameLayout)
	pk := received(t, p, buffers.Small, 50, "x")
	before := p.Stats()
	require.NoError(t, p.Check(pk))
	require.ErrorIs(t, p.Check(buffers.Packet{}), buffers.ErrNone)
	require.ErrorIs(t, other.Check(pk), buffers.ErrOtherPool)
	require.NoError(t, pk.Release())
	require.ErrorIs(t, p.Check(pk), buffers.ErrStale)
	require.Equal(t, before.StaleReleases+before.StaleUses, p.Stats().StaleReleases+p.Stats().StaleUses)
}
