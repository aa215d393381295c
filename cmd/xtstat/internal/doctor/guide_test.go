package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tableOf are the cells of a table of docs/monitoring.md, by the first cell of its header.
func tableOf(t *testing.T, header string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/monitoring.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n| "+header+" |")
	require.True(t, found, header)
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		if row, ok := strings.CutPrefix(line, "| "); ok && !strings.HasPrefix(line, "|---") {
			rows = append(rows, strings.Split(strings.TrimSuffix(row, "|"), " | "))
		}
	}
	require.NotEmpty(t, rows)
	return rows
}

// namesIn are the names of checks in a cell.
func namesIn(cell string) (list []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		list = append(list, m[1])
	}
	return list
}

// docs/monitoring.md lists all checks, each once.
func TestTheGuideListsTheChecks(t *testing.T) {
	var listed []string
	for _, row := range tableOf(t, "check") {
		listed = append(listed, namesIn(row[0])...)
	}
	names := slices.Clone(Names())
	slices.Sort(listed)
	slices.Sort(names)
	require.Equal(t, names, listed)
}

// Each item of VMA's manual that docs/monitoring.md lists has checks that exist, or a reason for which there is none.
func TestItemsOfVMAsManual(t *testing.T) {
	used := map[string]bool{}
	for _, row := range tableOf(t, "VMA's warning") {
		require.Len(t, row, 3, row)
		names, reason := namesIn(row[1]), strings.TrimSpace(row[2])
		if strings.TrimSpace(row[1]) == "none" {
			require.NotEmpty(t, reason, row)
			continue
		}
		require.NotEmpty(t, names, row)
		for _, name := range names {
			require.Contains(t, Names(), name)
			used[name] = true
		}
	}
	for _, name := range []string{"log-level", "capabilities", "huge-pages", "locked-memory", "bonding", "arp-flux", "igmp-limits", "mtu"} {
		require.True(t, used[name], name)
	}
}
