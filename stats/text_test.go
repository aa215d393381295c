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

// The block of a socket has vma_stats' rows of what was dropped, of its ring and of dummy sends: which part of what came was dropped, by what
// logic the socket has its ring, and that a number is a rate.
func TestRowsOfASocket(t *testing.T) {
	v := ViewOf(Sockets, 3, "protocol=udp\nring_logic=per socket\n", make([]uint64, SectionOf(Sockets).Words()))
	v.Totals["packets"], v.Totals["drops"], v.Totals["warm_sends"] = 150, 50, 5
	var totals, rates, none strings.Builder
	WriteSocket(&totals, &v, nil, "")
	require.Contains(t, totals.String(), "- Ring allocation logic = per socket\n")
	require.Contains(t, totals.String(), "/ dropped 50 (25.00%)\n")
	require.Contains(t, totals.String(), "Tx Dummy messages : 5\n")
	WriteSocket(&rates, &v, nil, "/s")
	require.Contains(t, rates.String(), "/ dropped/s 50 (25.00%)\n")
	require.Contains(t, rates.String(), "Tx Dummy messages : 5/s\n")
	v.Totals["packets"], v.Totals["drops"], v.Totals["queued_packets"] = 0, 0, 1
	WriteSocket(&none, &v, nil, "/s")
	require.Contains(t, none.String(), "/ dropped/s 0 (0.00%)\n", "nothing came in the interval")
}
