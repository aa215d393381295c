package offload_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every reason that an offloaded socket can have is in docs/offload.md, by its code.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/offload.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## Reasons\n")
	require.True(t, found)
	reason := regexp.MustCompile(`(?:[Cc]ode: +|Code [!=]= |\bfail\(|\bno\(|\bReason\w+ += )` +
		`"((?:link|offload|ring|route|xdp|checksum|stamp|mcast)\.\w+)"`)
	codes := 0
	for _, pattern := range []string{"*.go", "../*.go", "../link/xdp/*.go", "../link/capture/*.go", "../../xtreme/*.go", "../../internal/host/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			for _, m := range reason.FindAllStringSubmatch(string(source), -1) {
				codes++
				if !strings.Contains(table, "`"+m[1]+"`") {
					t.Errorf("%s: %s is not in docs/offload.md", name, m[1])
				}
			}
		}
	}
	require.Greater(t, codes, 60, "the sources were searched")
}
