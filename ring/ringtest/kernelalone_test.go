package ringtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is skipped by name exists, and what it needs is asserted the other way where there is a call for it.
func TestKernelAloneNamesCases(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cases {
		require.False(t, names[c.name], "two cases named %q", c.name)
		names[c.name] = true
	}
	used := map[string]bool{descriptors: true, kernelPeer: true, otherOwner: true}
	for name, need := range kernelAlone {
		require.True(t, names[name], "no case named %q", name)
		require.True(t, used[need] || refusals[need] != nil, "%q: nothing asserts that %s is refused", name, need)
		used[need] = true
	}
	for need := range refusals {
		require.True(t, used[need], "%s is refused and no case needs it", need)
	}
}
