package why

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Each counter of a loss is in the sum once, also one that a link has and a sample has twice, whatever the kernel has counted before the process
// began.
func TestEachLossIsInTheSumOnce(t *testing.T) {
	links := map[string]bool{} // counters that the host's block has too
	for _, row := range stats.SectionOf(stats.Host).Counters {
		links[row.Name] = true
	}
	n := 0
	for _, section := range stats.Sections() {
		for _, row := range section.Counters {
			if !row.Loss {
				continue
			}
			n++
			first := map[string]uint64{section.Name + "." + row.Name: 5, "host.ip.InReceives": 1000}
			second := map[string]uint64{section.Name + "." + row.Name: 12, "host.ip.InReceives": 1000}
			if section.Name == stats.Drivers && links[row.Name] {
				first["host.v0/0."+row.Name], second["host.v0/0."+row.Name] = 5, 12
			}
			got := Lost([]stats.Sample{{Time: noon, Interval: time.Second, Values: first}, {Time: noon.Add(time.Second), Interval: time.Second, Values: second}})
			require.Equal(t, []uint64{5, 7}, got, "%s.%s", section.Name, row.Name)
		}
	}
	require.Greater(t, n, 30)
}

// Packets that took the way through the kernel are no losses, nor are datagrams for a port that no socket has.
func TestWhatIsNotInTheSum(t *testing.T) {
	require.Equal(t, []uint64{0, 0}, Lost(samples(map[string]uint64{"host.v0.steer.no_queue": 12, "driver.offload.os_packets": 12, "host.udp.NoPorts": 3})))
}
