package rows

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/bench/internal/listing"
)

var update = flag.Bool("update", false, "add what is missing to the list")

// A family that is declared in this package takes part.
func TestEveryFamilyIsListed(t *testing.T) {
	files, err := listing.Read(".")
	require.NoError(t, err)
	updated, missing, err := listing.Update(files["list.go"], "harness.Family", files)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("list.go", updated, 0o644))
		return
	}
	require.Empty(t, missing, "declared and not on the list: go generate ./bench/...")
}
