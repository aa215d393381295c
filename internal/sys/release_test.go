package sys

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseAtLeast(t *testing.T) {
	for _, c := range []struct {
		release      string
		major, minor int
		atLeast, ok  bool
	}{
		{"6.9.0", 6, 9, true, true},
		{"6.8.12-generic", 6, 9, false, true},
		{"6.10.1", 6, 9, true, true},
		{"7.0.0", 6, 9, true, true},
		{"6.1.0-13-amd64", 6, 1, true, true},
		{"5.15.0", 6, 1, false, true},
		{"6.18-rc3", 6, 18, true, true},
		{"linux", 6, 9, false, false},
		{"unknown", 5, 1, false, false},
		{"", 5, 1, false, false},
		{"6", 5, 1, false, false},
		{"99999999999999999999.1", 5, 1, false, false},
	} {
		atLeast, ok := ReleaseAtLeast(c.release, c.major, c.minor)
		require.Equal(t, [2]bool{c.atLeast, c.ok}, [2]bool{atLeast, ok}, "%q against %d.%d", c.release, c.major, c.minor)
	}
}

func TestKernelRelease(t *testing.T) {
	_, ok := ReleaseAtLeast(KernelRelease(), 5, 1)
	require.True(t, ok, KernelRelease())
}
