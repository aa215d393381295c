package stats

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/counters.md anew")

// The page of counters is made from the table.
func TestCountersPage(t *testing.T) {
	const path = "../docs/counters.md"
	var b strings.Builder
	b.WriteString("# Counters\n\nWhat [xtstat](monitoring.md) shows, from the table in package `stats`. A total only grows, a gauge is what is now, and a peak is the\n" +
		"most there was at a time, in each second. What counts something lost is marked: the journal tells when it moves.\n\n" +
		"<!-- go test ./stats -run TestCountersPage -update -->\n")
	for _, s := range Sections() {
		fmt.Fprintf(&b, "\n## %s\n\nEach block is %s.\n\n| counter | type, unit | what it counts | the kernel's name | lost |\n|---|---|---|---|---|\n", s.Name, s.Of)
		for _, c := range s.Counters {
			if c.Name == "" {
				continue
			}
			lost := ""
			if c.Loss {
				lost = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s, %s | %s | %s | %s |\n", c.Name, c.Type, c.Unit, c.Help, c.Kernel, lost)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(text), "go test ./stats -run TestCountersPage -update")
}
