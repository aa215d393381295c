package tcp

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/rfc-status.md names each MUST of RFC 9293 once, and only tests that exist.
func TestRequirementMap(t *testing.T) {
	page, err := os.ReadFile("../docs/rfc-status.md")
	require.NoError(t, err)
	tests := map[string]bool{}
	for _, folder := range []string{".", "congestion", "tcptest", "../internal/wire", "../ring/offload", "../ring/offload/torture"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			source, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(source, -1) {
				tests[string(m[1])] = true
			}
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1)
	require.Greater(t, len(named), 100)
	for _, m := range named {
		require.True(t, tests[string(m[1])], "%s does not exist", m[1])
	}
	for n := 1; n <= 69; n++ {
		rows := regexp.MustCompile(fmt.Sprintf(`(?m)^\| MUST-%d \| .* \| .* \|$`, n)).FindAll(page, -1)
		require.Len(t, rows, 1, "MUST-%d", n)
	}
}
