package shadow

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// One look at procfs that fails is not the end of looking: what was known holds until it can be read again, and sockets are told once each way.
func TestALookForOtherMembersThatFails(t *testing.T) {
	f := GroupWatcher{search: &search{}}
	found := map[GroupFlow]struct{}{GroupFlow{host.GroupOn{Group: [4]byte{239, 1, 1, 1}, Interface: 2}, 7000}: {}}
	failed := errors.New("too many open files")
	for _, step := range []struct {
		found   map[GroupFlow]struct{}
		err     error
		version uint64
	}{{found, nil, 1}, {nil, failed, 2}, {nil, failed, 2}, {found, nil, 3}, {found, nil, 3}, {map[GroupFlow]struct{}{}, nil, 4}} {
		require.True(t, f.publish(f.search, &OtherSockets{Shared: step.found}, step.err), "it looks on")
		require.Equal(t, step.version, f.version.Load())
		require.ErrorIs(t, f.Why(), step.err)
		if step.err != nil {
			require.Equal(t, found, f.OtherSockets().Shared)
		} else {
			require.Equal(t, step.found, f.OtherSockets().Shared)
		}
	}
	require.False(t, f.publish(&search{}, &OtherSockets{Shared: found}, nil), "another watch looks")
}
