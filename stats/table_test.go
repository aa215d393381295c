package stats

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each counter has a help text that an operator understands without the source: a sentence of its own, and no file of this repository.
func TestHelpNeedsNoSource(t *testing.T) {
	seen := 0
	for _, s := range sections {
		for _, row := range s.Counters {
			if row.Name == "" {
				continue
			}
			seen++
			require.NotContains(t, row.Help, "see internal/", "%s.%s", s.Name, row.Name)
			require.NotContains(t, row.Help, ".go", "%s.%s", s.Name, row.Name)
			require.Greater(t, len(strings.Fields(row.Help)), 1, "%s.%s: %q", s.Name, row.Name, row.Help)
		}
	}
	require.Greater(t, seen, 200)
}
