package offload

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// One look at procfs that fails is not the end of looking: what was known holds until it can be read again, and sockets are told once each way.
func TestALookForForeignMembersThatFails(t *testing.T) {
	f := foreigners{end: make(chan struct{})}
	found := foreignGroups{groupFlow{host.GroupOn{Group: [4]byte{239, 1, 1, 1}, Interface: 2}, 7000}: {}}
	failed := errors.New("too many open files")
	for _, step := range []struct {
		found   foreignGroups
		err     error
		version uint64
	}{{found, nil, 1}, {nil, failed, 2}, {nil, failed, 2}, {found, nil, 3}, {found, nil, 3}, {foreignGroups{}, nil, 4}} {
		require.True(t, f.publish(f.end, &memberNews{shared: step.found}, step.err), "it looks on")
		require.Equal(t, step.version, f.version.Load())
		require.ErrorIs(t, f.why(), step.err)
		if step.err != nil {
			require.Equal(t, found, f.news().shared)
		} else {
			require.Equal(t, step.found, f.news().shared)
		}
	}
	require.False(t, f.publish(make(chan struct{}), &memberNews{shared: found}, nil), "another one looks")
}
