package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableNamesAreUniqueAndPeersExist(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range table([]string{"ours-uring", "ours-epoll"}) {
		require.False(t, seen[r.Name()], "row %s twice", r.Name())
		seen[r.Name()] = true
		if r.Peer == Limit {
			require.Positive(t, r.Bound, r.Name())
			continue
		}
		peer, err := findServer(r.Peer)
		require.NoError(t, err, r.Name())
		require.NoError(t, peer.check(r.Workload), r.Name())
	}
}

func TestTableGoals(t *testing.T) {
	goals := map[string]float64{}
	for _, r := range table([]string{"ours-uring", "ours-epoll"}) {
		goals[r.Name()] = r.Goal
	}
	for name, want := range map[string]float64{
		"tcp-pingpong-1/p50/ours-uring/gnet":              2.9,
		"tcp-pingpong-1/p50/ours-epoll/net":               2.9,
		"udp-pingpong-1/p50/ours-uring/net":               2.8,
		"udp-pingpong-1/p50/ours-epoll/c-recv":            1 / 1.1,
		"tcp-pingpong-100/rate/ours-epoll/gnet":           1.0,
		"tcp-pingpong-256/rate/ours-epoll/gnet":           1.10,
		"tcp-pingpong-256/rate/ours-uring/gnet":           1.15,
		"tcp-pingpong-4096/rate/ours-epoll/gnet":          1.25,
		"tcp-pingpong-4096/server-cpu/ours-uring/gnet":    1.4,
		"tcp-wake-30ms/p50/ours-uring/net":                1 / 1.1,
		"tcp-idle-100/cpu/ours-epoll/limit":               1,
		"tcp-pingpong-256/rate/ours-uring/c-epoll":        0,
		"tcp-pingpong-4096/server-cpu/ours-epoll/gnet":    1.4,
		"udp-wake-30ms/p50/ours-epoll/net":                1 / 1.1,
		"tcp-pingpong-4096/rate/ours-uring/gnet":          1.25,
		"udp-oneway/rate/ours-uring/gnet":                 0,
		"tcp-oneway/rate/ours-epoll/net":                  0,
		"tcp-pingpong-1/p50/ours-epoll/c-epoll":           0,
		"tcp-pingpong-100/rate/ours-uring/net":            1.0,
		"tcp-pingpong-4096/server-cpu/ours-uring/c-epoll": 0,
	} {
		got, ok := goals[name]
		require.True(t, ok, "no row %s", name)
		require.InDelta(t, want, got, 1e-12, name)
	}
}

// Two rows that read the same measurement share it.
func TestGroupRowsMeasuresOnce(t *testing.T) {
	rows := selectRows(table([]string{"net"}), regexp.MustCompile("tcp-pingpong-4096"))
	require.Len(t, rows, 4)
	cases := groupRows(rows)
	require.Len(t, cases, 2)
	for _, c := range cases {
		require.Len(t, c.Rows, 2)
		require.Equal(t, "rate", c.Rows[0].Metric.Name)
		require.Equal(t, "server-cpu", c.Rows[1].Metric.Name)
	}
}

func TestFindServer(t *testing.T) {
	_, err := findServer("nonesuch")
	require.ErrorContains(t, err, `"nonesuch"`)
	require.ErrorContains(t, err, "gnet")
	_, err = findServer("exec: ")
	require.ErrorContains(t, err, "names no program")
	s, err := findServer("exec:/bin/server -x 1")
	require.NoError(t, err)
	require.Equal(t, []string{"/bin/server", "-x", "1", "-proto", "tcp", "-role", "echo", "-rest", "spin"},
		s.command(programs{}, pingPong("tcp", 1)))
}

// The C servers cannot adapt: where a server may sleep they always do.
func TestServerCommands(t *testing.T) {
	c, err := findServer("c-recv")
	require.NoError(t, err)
	require.Equal(t, []string{"/c", "-proto", "udp", "-role", "count", "-loop", "recv", "-rest", "spin"},
		c.command(programs{cServer: "/c"}, oneWay("udp")))
	require.Equal(t, []string{"/c", "-proto", "udp", "-role", "echo", "-loop", "recv", "-rest", "wait"},
		c.command(programs{cServer: "/c"}, wake("udp", 30e6)))
	require.ErrorContains(t, c.check(pingPong("tcp", 1)), "serves only udp")
	net, err := findServer("net")
	require.NoError(t, err)
	require.Equal(t, []string{"/self", "peer", "net", "-proto", "tcp", "-role", "echo"},
		net.command(programs{self: "/self"}, pingPong("tcp", 1)))
}
