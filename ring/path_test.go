package ring_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/stretchr/testify/require"
)

func TestPathIsOneShortLineAndALongForm(t *testing.T) {
	require.Equal(t, "no path", ring.Path{}.String())
	require.Equal(t, "kernel uring", ring.Path{Tier: ring.TierKernel, Kind: "uring"}.String())
	require.Equal(t, "bypass memory", ring.Path{Tier: ring.TierBypass, Kind: "memory"}.String())

	rule := ring.Reason{Code: "rule.os", Text: "line 3 leaves the socket to the kernel"}
	p := ring.Path{Tier: ring.TierKernel, Kind: "uring", Lost: "rule.os", Reasons: []ring.Reason{rule}}
	require.Equal(t, "kernel uring (bypass lost: rule.os)", p.String())
	require.Equal(t, "kernel uring (bypass lost: rule.os)\n  line 3 leaves the socket to the kernel [rule.os]", p.Explain())
	p.Kind, p.Reasons = "epoll", append(p.Reasons, ring.Reason{Code: "uring.disabled", Text: "off"})
	require.Equal(t, "kernel epoll (bypass lost: rule.os; uring lost: uring.disabled)", p.String())
	p.Lost, p.Reasons = "", []ring.Reason{{Code: "offload.not_asked"}, {Code: "uring.not_asked"}}
	require.Equal(t, "kernel epoll", p.String())

	p = ring.Path{Tier: ring.TierBypass, Kind: "offload", Links: []string{"xdp eth1/0 (generic, copy)"},
		Reasons: []ring.Reason{{Code: "xdp.no_native", Text: "the driver has none"}}}
	require.Equal(t, "bypass xdp eth1/0 (generic, copy)", p.String())
	require.Equal(t, "bypass xdp eth1/0 (generic, copy)\n  the driver has none [xdp.no_native]", p.Explain())
	p.Links = append(p.Links, "xdp eth1/1 (generic, copy)", "xdp eth2/0 (native, zero-copy)")
	require.Equal(t, "bypass xdp eth1/0 (generic, copy) and 2 more", p.String())
	require.Equal(t, "bypass xdp eth1/0 (generic, copy) and 2 more\n  xdp eth1/1 (generic, copy)\n  xdp eth2/0 (native, zero-copy)\n"+
		"  the driver has none [xdp.no_native]", p.Explain())
	p = ring.Path{Tier: ring.TierKernel, Kind: "offload", Lost: "link.down", Shadow: true}
	require.Equal(t, "kernel (bypass lost: link.down)", p.String())
}
