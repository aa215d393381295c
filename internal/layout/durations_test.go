package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// How long a full run of bench takes is the same in every document that says it.
func TestAFullRunOfBenchHasOneDuration(t *testing.T) {
	minutes := regexp.MustCompile(`\b\d+ minutes`)
	said := ""
	for name, lines := range map[string]*regexp.Regexp{
		"bench/README.md":     regexp.MustCompile(`.*minutes.*`),
		"docs/performance.md": regexp.MustCompile(`(?m)^ *go run \./bench  .*`),
		"CONTRIBUTING.md":     regexp.MustCompile(".*`make bench`.*"),
	} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		found := 0
		for _, line := range lines.FindAllString(string(text), -1) {
			for _, d := range minutes.FindAllString(line, -1) {
				found++
				if said == "" {
					said = d
				}
				require.Equal(t, said, d, "%s: %s", name, line)
			}
		}
		require.NotZero(t, found, name)
	}
}
