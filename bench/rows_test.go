package main

import (
	"regexp"
	"testing"
	"time"

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
		for _, e := range []Entrant{r.ours(), r.peer()} {
			s, err := findServer(e.Server)
			require.NoError(t, err, r.Name())
			require.NoError(t, s.check(e.Workload), r.Name())
		}
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

		"layer-1/ns/ours/bare":                                                  1,
		"layer-16/ns/ours/bare":                                                 1,
		"layer-64/ns/ours/bare":                                                 0,
		"tcp-active-100-idle-1000/rate/ours-uring/idle-10":                      0.95,
		"tcp-active-100-idle-10000/rate/ours-epoll/idle-10":                     0.95,
		"tcp-active-100-idle-10000-deadlines/rate/ours-epoll/idle-10-deadlines": 0.95,
		"tcp-active-100-idle-10000-deadlines/rate/ours-uring/idle-10000":        0,
		"tcp-active-100-idle-10000/p50/ours-uring/idle-10":                      0,
		"tcp-active-100-idle-10000/server-cpu/ours-uring/idle-10":               0,
		"tcp-active-100-idle-10000/memory/ours-uring/gnet":                      0,
		"tcp-active-100-idle-10000/memory/ours-epoll/net":                       0,
	} {
		got, ok := goals[name]
		require.True(t, ok, "no row %s", name)
		require.InDelta(t, want, got, 1e-12, name)
	}
}

// A server that stands in several rows is measured once, beside all it is compared with.
func TestGroupRowsMeasuresOnce(t *testing.T) {
	rows := selectRows(table([]string{"ours-uring", "ours-epoll"}), regexp.MustCompile("tcp-pingpong-4096|udp-pingpong-1/"))
	cases := groupRows(rows)
	require.Len(t, cases, 2)
	names := func(c Case) []string {
		var out []string
		for _, e := range c.Entrants {
			require.Equal(t, c.Group, e.Workload.Name)
			out = append(out, e.Server)
		}
		return out
	}
	require.Equal(t, []string{"ours-uring", "net", "gnet", "c-recv", "ours-epoll"}, names(cases[0]))
	require.Equal(t, []string{"ours-uring", "gnet", "c-epoll", "ours-epoll"}, names(cases[1]))
	require.Len(t, cases[0].Rows, 6)
	require.Len(t, cases[1].Rows, 8)
}

// One server with few and with many idle connections takes turns with itself.
func TestIdleRowsShareTheirRounds(t *testing.T) {
	cases := groupRows(selectRows(table([]string{"ours-uring"}), regexp.MustCompile("^tcp-active-100-")))
	require.Len(t, cases, 1)
	var idle []string
	for _, e := range cases[0].Entrants {
		idle = append(idle, e.Server+" "+idleName(e.Workload.Beside, e.Workload.Deadline))
	}
	require.ElementsMatch(t, []string{"ours-uring idle-1000", "ours-uring idle-10", "ours-uring idle-10000",
		"ours-uring idle-10000-deadlines", "ours-uring idle-10-deadlines", "gnet idle-10000", "net idle-10000"}, idle)
}

func TestLayerRowsAreAboutThisLibrary(t *testing.T) {
	layers := func(ours ...string) int { return len(selectRows(table(ours), regexp.MustCompile("^layer-"))) }
	require.Equal(t, 3, layers("ours-uring", "ours-epoll"))
	require.Equal(t, 3, layers("ours-epoll"))
	require.Zero(t, layers("net"))
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
	require.Equal(t, []string{"/self", "peer", "net", "-proto", "tcp", "-role", "echo", "-deadline", "1m0s"},
		net.command(programs{self: "/self"}, activeBeside(10, time.Minute)))
	gnet, err := findServer("gnet")
	require.NoError(t, err)
	require.ErrorContains(t, gnet.check(activeBeside(10, time.Minute)), "gnet has no read deadlines")
	bare, err := findServer("bare")
	require.NoError(t, err)
	require.Equal(t, []string{"/self", "peer", "bare", "-batch", "16"}, bare.command(programs{self: "/self"}, layer(16)))
	require.ErrorContains(t, bare.check(pingPong("tcp", 1)), "bare serves only memory")
}
