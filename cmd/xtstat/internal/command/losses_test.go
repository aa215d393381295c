package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Every counter of a loss is seen: in view 3 where it is not 0, by its name and with its value, and in JSON.
func TestEveryLossIsShown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 4})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	poller := f.Open(stats.Pollers, nil, 0)
	ring := f.Open(stats.Rings, poller, 9)
	ring.SetInfo("kind=offload\npoller=feed\n")
	drops, driver := f.Open(stats.Drops, poller, 0), f.Open(stats.Drivers, poller, 9)
	drops.SetInfo("")
	value := uint64(70_000)
	want := map[string]map[string]uint64{stats.Drops: {}, stats.Drivers: {}}
	for i, row := range stats.SectionOf(stats.Drops).Counters { // no peaks
		if row.Name != "" {
			value++
			drops.Counters()[i], want[stats.Drops][row.Name] = value, value
		}
	}
	n := 0
	for _, row := range stats.SectionOf(stats.Drivers).Counters {
		if row.Loss {
			value++
			driver.SetNamed(n, "eth0/1."+row.Name, value)
			want[stats.Drivers]["eth0/1."+row.Name] = value
			n++
		}
	}
	driver.SetCount(n)
	run := func(more ...string) string {
		var out, errs bytes.Buffer
		require.Zero(t, Run(append([]string{"-k", dir, "-v", "3", "-c", "1"}, more...), &out, &errs), errs.String())
		return out.String()
	}
	text := run()
	for section, counters := range want {
		require.NotEmpty(t, counters)
		for name, v := range counters {
			require.Regexp(t, fmt.Sprintf(`%s\D+%d\b`, name, v), text, section)
		}
	}
	var view struct {
		Blocks map[string][]struct {
			Values map[string]uint64 `json:"values"`
		} `json:"blocks"`
	}
	require.NoError(t, json.Unmarshal([]byte(run("--json")), &view))
	for section, counters := range want {
		require.Len(t, view.Blocks[section], 1)
		require.Equal(t, counters, view.Blocks[section][0].Values)
	}
}
