package hoststat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What there is once comes before interfaces, of which there may be hundreds; those that count nothing have no names, and those that are gone
// leave none.
func TestInterfacesComeLast(t *testing.T) {
	r, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	list := r.Read()
	last := slices.IndexFunc(list, func(c Counter) bool { return strings.HasPrefix(c.Name, "lo.") })
	for _, name := range []string{"udp.RcvbufErrors", "ip.InReceives", "process.run_delay", "cpu.steal", "softnet.dropped"} {
		at := slices.IndexFunc(list, func(c Counter) bool { return c.Name == name })
		require.GreaterOrEqual(t, at, 0, name)
		require.True(t, last < 0 || at < last, name)
	}
	for turn := range 50 {
		r.list, r.turn = r.list[:0], r.turn+1
		r.addOf(fmt.Appendf(nil, "veth%d", turn), "rx_packets", 1)
		r.addOf(fmt.Appendf(nil, "veth%d", turn), "rx_errors", 0)
		require.Equal(t, []Counter{{fmt.Sprintf("veth%d.rx_packets", turn), 1}}, r.list)
	}
	r.list = r.list[:0]
	r.addOf([]byte("veth49"), "rx_packets", 0)
	require.Len(t, r.list, 1, "it has a name")
	r.Read()
	for name := range r.ofInterfaces {
		require.NotContains(t, name, "veth4", "the interface is gone")
	}
}
