package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVethServerCommands(t *testing.T) {
	p := programs{self: "/self", client: "/client", cServer: "/c", xdp: "/xdp", source: "/source", receive: "/receive"}
	both := vethPingPong("pingpong")
	both.Both = true
	command := func(name string, w Workload) string {
		s, err := findServer(name)
		require.NoError(t, err)
		require.NoError(t, s.check(w), name)
		return strings.Join(s.command(p, w), " ")
	}
	require.Equal(t, "/xdp -mode echo -iface v0 -addr 10.77.0.1", command("c-xdp", both))
	require.Equal(t, "/c -proto udp -role echo -loop recv -addr 10.77.0.1 -rest spin", command("c-recv", both))
	require.Equal(t, "/self peer net -proto udp -role echo -addr 10.77.0.1:0", command("net", both))
	flood := vethFlood("multicast", 1472, 10)
	require.Equal(t, "/receive -addr 10.77.0.1 -groups 10 -base 239.77.7.0 -pass v0", command("c-mmsg", flood))
	require.Contains(t, command("ours-offload", flood), "-role count -addr 10.77.0.1:0 -iface v0 -groups 10 -native")

	// Only what has a client of its own is measured with that; a flood has one source for all.
	quick := pace{seconds: 1, warmup: 0.3}
	first := func(name string, w Workload) string {
		s, err := findServer(name)
		require.NoError(t, err)
		return strings.Join(s.clientCommand(p, w, quick), " ")
	}
	require.Contains(t, first("ours-offload", both), "/self peer offload-client ")
	require.Contains(t, first("c-xdp", both), "/xdp -mode pingpong ")
	require.Contains(t, first("c-recv", both), "/client -addr 10.77.0.1 ")
	server := both
	server.Both = false
	require.Contains(t, first("ours-offload", server), "/client -addr 10.77.0.1 ")
	for _, name := range []string{"ours-offload", "c-mmsg", "c-xdp"} {
		require.Contains(t, first(name, flood), "/source -iface v1 ")
	}
	for name, want := range map[string]string{"gnet": "does not serve on a veth", "c-epoll": ""} {
		s, err := findServer(name)
		require.NoError(t, err)
		if err := s.check(both); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	require.ErrorContains(t, offloadServer.check(pingPong("udp", 1)), "on a veth pair only")
}

func TestVethGoals(t *testing.T) {
	goals := map[string]float64{}
	for _, r := range table([]string{"ours-uring", "ours-offload"}) {
		require.NotContains(t, goals, r.Name())
		goals[r.Name()] = r.Goal
		if r.Workload.Veth && r.Peer != Limit {
			for _, e := range []Entrant{r.ours(), r.peer()} {
				s, err := findServer(e.Server)
				require.NoError(t, err)
				if s.Program = ""; s.Name != "" {
					require.NoError(t, s.check(e.Workload), r.Name())
				}
			}
		}
	}
	for name, want := range map[string]float64{
		"udp-veth-pingpong/p50/ours-offload/c-recv":           1.6,
		"udp-veth-pingpong/p50/ours-offload/c-xdp":            1 / 1.08,
		"udp-veth-server-spin/p50/ours-offload/c-recv":        1.25,
		"udp-veth-server-block/p50/ours-offload/c-recv-block": 2.4,
		"udp-veth-window-32/rate/ours-offload/c-recv":         2.4,
		"udp-veth-window-32/calls/ours-offload/limit":         1,
		"udp-veth-receive/rate/ours-offload/c-mmsg":           4,
		"udp-veth-multicast-1-1472B/rate/ours-offload/c-mmsg": 0,
		"udp-veth-multicast-150-64B/rate/ours-offload/c-mmsg": 0,
		"udp-veth-first-prepared/p50/ours-offload/warm":       1 / 1.5,
		"stack-32/ns/ours-stack/raw-link":                     1,
		"stack-1/mallocs/ours-stack/limit":                    1,
	} {
		got, ok := goals[name]
		require.True(t, ok, "no row %s", name)
		require.InDelta(t, want, got, 1e-12, name)
	}
}

// A rate without a loss that was never found is no result.
func TestFloodWithoutARate(t *testing.T) {
	w := vethFlood("receive", 64, 0)
	r := Reading{Mode: Flood, Seconds: 10, N: 100, Sent: 200, Lost: 100, Windows: 10, MedianWindowRate: 10, BestWindowRate: 11, Offered: 20,
		SpoiledWindows: 2}
	require.Empty(t, r.faults(w))
	r.SpoiledWindows = 3
	require.Contains(t, fmt.Sprint(r.faults(w)), "no rate was found")
	r.SpoiledWindows, r.OutOfOrder = 0, 1
	require.Contains(t, fmt.Sprint(r.faults(w)), "out of order")
}
