//go:build race

package sys

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegionTellsThatItIsHeap(t *testing.T) {
	r, err := NewRegion(RegionConfig{Bytes: 100, HugePages: true, Interface: "lo"})
	require.NoError(t, err)
	require.Equal(t, []string{NoteRaceHeap}, codes(r))
	require.NoError(t, r.Close())
}
