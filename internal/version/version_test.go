package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// The version is that of this module, also in a program of another one.
func TestVersionIsThatOfTheModule(t *testing.T) {
	of := func(path, version string) debug.Module { return debug.Module{Path: path, Version: version} }
	here, other := of(module, "v1.2.3"), of("example.com/program", "v9.9.9")
	require.Equal(t, "v1.2.3", in(&debug.BuildInfo{Main: here, Deps: []*debug.Module{&other}}))
	require.Equal(t, "v1.2.3", in(&debug.BuildInfo{Main: other, Deps: []*debug.Module{{Path: "a", Version: "v0.1.0"}, &here}}))
	require.Empty(t, in(&debug.BuildInfo{Main: other}))
}
