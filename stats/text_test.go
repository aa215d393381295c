package stats

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reader may load what came through the kernel later than the sum: then all came through the kernel.
func TestSocketReadWhileItCounts(t *testing.T) {
	v := ViewOf(Sockets, 3, "protocol=udp", make([]uint64, SectionOf(Sockets).Words()))
	v.Totals["packets"], v.Totals["bytes"], v.Totals["offloaded"] = 10, 10<<10, 1
	v.Totals["kernel_packets"], v.Totals["kernel_bytes"] = 11, 11<<10
	var text strings.Builder
	WriteSocket(&text, &v, nil, "")
	require.NotContains(t, text.String(), "Rx Offload")
	require.Contains(t, text.String(), "Rx OS info: 10 / 10 / 0 / 0")
}
