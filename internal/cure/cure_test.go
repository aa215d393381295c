package cure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandNamesThePlace(t *testing.T) {
	at := Place{Interface: "eth7", Program: "/opt/feed"}
	require.Equal(t, "setcap cap_net_raw,cap_net_admin,cap_bpf+ep /opt/feed", Command("xdp.no_capability", at))
	require.Equal(t, "setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM", Command("xdp.no_capability", Place{}))
	require.Equal(t, "ip link set eth7 type bond mode active-backup (while it is down)", Command("link.bond_mode", at))
	require.Equal(t, "sysctl -w vm.nr_hugepages=64", Command("region.no_hugepages", at))
	require.Equal(t, "sysctl -w vm.nr_hugepages=200", Command("region.no_hugepages", Place{HugePages: 200}))
	require.Empty(t, Command("link.loopback", at), "nothing to cure")
}

func TestEachCommandIsFilledIn(t *testing.T) {
	for code := range commands {
		text := Command(code, Place{Interface: "eth7", Program: "/opt/feed"})
		for _, word := range []string{"IFACE", "PROGRAM", "PAGES"} {
			require.False(t, strings.Contains(text, word), "%s: %s", code, text)
		}
	}
}
