package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOlderThan(t *testing.T) {
	for release, older := range map[string]bool{
		"6.8.0-45-generic": true, "6.9.0": false, "6.18.44": false, "5.15.0": true, "7.0.0-rc1": false, "6.9-rc1": false, "": true, "linux": true,
	} {
		require.Equal(t, older, olderThan(release, 6, 9), release)
	}
}
