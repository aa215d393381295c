package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// The name of an interface ends where the name of a counter of the table begins: VLAN interfaces have dots in their names.
func TestInterfaceOfCounter(t *testing.T) {
	for _, x := range []struct{ section, name, iface, counter string }{
		{stats.Drivers, "eth0/2.rx_frames", "eth0", "rx_frames"},
		{stats.Drivers, "eth0.5/2.rx_frames", "eth0.5", "rx_frames"},
		{stats.Drivers, "eth0/2.xdp.rx_dropped", "eth0", "xdp.rx_dropped"},
		{stats.Drivers, "stack.lost", "", "stack.lost"},
		{stats.Drivers, "tcp.not_in_the_table", "", "tcp.not_in_the_table"},
		{stats.Drivers, "eth0.not_in_the_table", "", "eth0.not_in_the_table"},
		{stats.Host, "eth0.rx_packets", "eth0", "rx_packets"},
		{stats.Host, "eth0.5.rx_packets", "eth0.5", "rx_packets"},
		{stats.Host, "eth0.5.ethtool.rx_drop.all", "eth0.5", "ethtool.rx_drop.all"},
		{stats.Host, "ip.InReceives", "", "ip.InReceives"},
	} {
		require.Equal(t, counterKey{x.iface, x.counter}, splitName(x.section, x.name), "%s", x.name)
	}
}
