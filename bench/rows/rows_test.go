package rows

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

// all is the rows of every family.
func all(ours []string) []harness.Row {
	r := harness.Registry{Families: All}
	return r.Rows(ours)
}

// A family says what it measures.
func TestFamiliesAreDescribed(t *testing.T) {
	names := map[string]bool{}
	for _, f := range All {
		require.NotEmpty(t, f.Name)
		require.NotEmpty(t, f.About, f.Name)
		require.False(t, names[f.Name], f.Name)
		names[f.Name] = true
		require.NotEmpty(t, f.Rows([]string{"ours-uring", "ours-epoll", "ours-offload"}), f.Name)
		require.Empty(t, f.Rows(nil), f.Name)
	}
}

func TestTableGoals(t *testing.T) {
	goals := map[string]float64{}
	for _, r := range all([]string{"ours-uring", "ours-epoll"}) {
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
		"tcp-pingpong-256/rate/ours-uring/c-uring":        0.95,
		"tcp-pingpong-256/rate/ours-epoll/c-uring":        0,
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
		"layer-1/ns/ours-published/ours":                                        1,
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
	rows := harness.SelectRows(all([]string{"ours-uring", "ours-epoll"}), regexp.MustCompile("tcp-pingpong-4096|udp-pingpong-1/"))
	cases := harness.GroupRows(rows)
	require.Len(t, cases, 2)
	names := func(c harness.Case) []string {
		var out []string
		for _, e := range c.Entrants {
			require.Equal(t, c.Group, e.Workload.Name)
			out = append(out, e.Peer)
		}
		return out
	}
	require.Equal(t, []string{"ours-uring", "net", "gnet", "c-recv", "ours-epoll"}, names(cases[0]))
	require.Equal(t, []string{"ours-uring", "gnet", "c-epoll", "c-uring", "ours-epoll"}, names(cases[1]))
	require.Len(t, cases[0].Rows, 6)
	require.Len(t, cases[1].Rows, 10)
}

// One server with few and with many idle connections takes turns with itself.
func TestIdleRowsShareTheirRounds(t *testing.T) {
	cases := harness.GroupRows(harness.SelectRows(all([]string{"ours-uring"}), regexp.MustCompile("^tcp-active-100-")))
	require.Len(t, cases, 1)
	var idle []string
	for _, e := range cases[0].Entrants {
		idle = append(idle, e.Peer+" "+idleName(e.Workload.Beside, e.Workload.Deadline))
	}
	require.ElementsMatch(t, []string{"ours-uring idle-1000", "ours-uring idle-10", "ours-uring idle-10000",
		"ours-uring idle-10000-deadlines", "ours-uring idle-10-deadlines", "gnet idle-10000", "net idle-10000"}, idle)
}

func TestLayerRowsAreAboutThisLibrary(t *testing.T) {
	layers := func(ours ...string) int { return len(harness.SelectRows(all(ours), regexp.MustCompile("^layer-"))) }
	require.Equal(t, 2*3, layers("ours-uring", "ours-epoll"), "without published statistics, and with them")
	require.Equal(t, 2*3, layers("ours-epoll"))
	require.Zero(t, layers("net"))
}

// Every point of the two applications is compared with gnet, net and netpoll, on both rings.
func TestAppRowsCoverEveryPoint(t *testing.T) {
	goals := map[string]float64{}
	for _, r := range all([]string{"ours-uring", "ours-epoll"}) {
		goals[r.Name()] = r.Goal
	}
	for _, our := range []string{"swap-uring", "swap-epoll"} {
		for _, app := range []string{"echo", "resp"} {
			for conns, rate := range map[int]float64{1: 1.0, 100: 1.1, 1000: 1.2} {
				for _, rest := range []string{"64B", "64B-x16", "1024B", "1024B-x16"} {
					point := fmt.Sprintf("%s-%d-%s", app, conns, rest)
					p50 := 0.0
					if point == "echo-1-64B" {
						p50 = 2.5
					}
					for row, want := range map[string]float64{"rate/%s/gnet": rate, "p50/%s/gnet": p50, "p99/%s/gnet": 1,
						"server-cpu/%s/gnet": 0, "rss/%s/gnet": 0, "rss-at-rest/%s/gnet": 1 / 1.3, "rate/%s/net": 0, "rate/%s/netpoll": 0} {
						name := point + "/" + fmt.Sprintf(row, our)
						got, ok := goals[name]
						require.True(t, ok, "no row %s", name)
						require.InDelta(t, want, got, 0, name)
					}
				}
			}
		}
		for row, want := range map[string]float64{"rate/%s/gnet": 1.5, "p99/%s/gnet": 1, "mallocs/%s/gnet": 0, "mallocs/%s/limit": 1} {
			require.InDelta(t, want, goals["udp-echo-100/"+fmt.Sprintf(row, our)], 0, row)
		}
	}
}

// Those of a point share its rounds.
func TestAppRowsAreMeasuredOnce(t *testing.T) {
	cases := harness.GroupRows(harness.SelectRows(all([]string{"ours-uring", "ours-epoll"}), regexp.MustCompile("^resp-100-64B-x16/")))
	require.Len(t, cases, 1)
	require.Len(t, cases[0].Entrants, 5)
	require.Len(t, cases[0].Rows, 16)
}

func TestOthersStandInOurPlace(t *testing.T) {
	require.Equal(t, "swap-epoll", swapped("ours-epoll"))
	require.Equal(t, "net", swapped("net"))
	require.Equal(t, "exec:./server", swapped("exec:./server"))
}

func TestVethGoals(t *testing.T) {
	goals := map[string]float64{}
	for _, r := range all([]string{"ours-uring", "ours-offload"}) {
		require.NotContains(t, goals, r.Name())
		goals[r.Name()] = r.Goal
	}
	for name, want := range map[string]float64{
		"udp-veth-pingpong/p50/ours-offload/c-recv":           1.6,
		"udp-veth-pingpong/p50/ours-offload/c-xdp":            0.87,
		"udp-veth-server-spin/p50/ours-offload/c-recv":        1.25,
		"udp-veth-server-block/p50/ours-offload/c-recv-block": 2.4,
		"udp-veth-window-32/rate/ours-offload/c-recv":         2.4,
		"udp-veth-window-32/rate/ours-offload/c-xdp":          0.87,
		"udp-veth-window-32/calls/ours-offload/limit":         1,
		"udp-veth-overload/rate/ours-offload/c-xdp":           0.9,
		"udp-veth-receive/rate/ours-offload/c-mmsg":           4,
		"udp-veth-multicast-1-1472B/rate/ours-offload/c-mmsg": 0,
		"udp-veth-multicast-150-64B/rate/ours-offload/c-mmsg": 0,
		"udp-veth-first-prepared/p50/ours-offload/warm":       1 / 1.5,
		"stack-1/ns/ours-stack/raw-link":                      1,
		"stack-32/ns/ours-stack/raw-link":                     1,
		"stack-1/mallocs/ours-stack/limit":                    1,
	} {
		got, ok := goals[name]
		require.True(t, ok, "no row %s", name)
		require.InDelta(t, want, got, 1e-12, name)
	}
}
