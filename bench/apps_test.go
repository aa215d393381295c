package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every point of the two applications is compared with gnet, net and netpoll, on both rings.
func TestAppRowsCoverEveryPoint(t *testing.T) {
	goals := map[string]float64{}
	for _, r := range table([]string{"ours-uring", "ours-epoll"}) {
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
						"server-cpu/%s/gnet": 0, "rss/%s/gnet": 0, "rate/%s/net": 0, "rate/%s/netpoll": 0} {
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
	cases := groupRows(selectRows(table([]string{"ours-uring", "ours-epoll"}), regexp.MustCompile("^resp-100-64B-x16/")))
	require.Len(t, cases, 1)
	require.Len(t, cases[0].Entrants, 5)
	require.Len(t, cases[0].Rows, 14)
}

func TestOthersStandInOurPlace(t *testing.T) {
	require.Equal(t, "swap-epoll", swapped("ours-epoll"))
	require.Equal(t, "net", swapped("net"))
	require.Equal(t, "exec:./server", swapped("exec:./server"))
}

func TestPipelineCommands(t *testing.T) {
	w := pipeline(RESP, 100, 1024, 16)
	require.Equal(t, "resp-100-1024B-x16", w.Name)
	require.Equal(t, "resp", w.Role())
	require.Equal(t, []string{"-app", "resp", "-conns", "100", "-size", "1024", "-depth", "16", "-seconds", "1.000", "-warmup", "0.300"},
		w.clientArgs(pace{seconds: 1, warmup: 0.3, settle: 0.5}))
	require.Equal(t, "echo", pipeline(Echo, 1, 64, 1).Role())
	require.Equal(t, "echo-1-64B", pipeline(Echo, 1, 64, 1).Name)
	require.Equal(t, "/p", programs{client: "/c", pipeline: "/p"}.clientFor(w))
	require.Equal(t, "/c", programs{client: "/c", pipeline: "/p"}.clientFor(udpEcho(100)))
	swap, err := findServer("swap-epoll")
	require.NoError(t, err)
	require.Equal(t, []string{"/self", "peer", "swap", "-ring", "epoll", "-proto", "tcp", "-role", "resp", "-rest", "spin"},
		swap.command(programs{self: "/self"}, w))
}

func TestServersSayWhatTheyCannotDo(t *testing.T) {
	for name, want := range map[string]string{"c-epoll": "c-epoll has only the roles echo and count", "ours-uring": "ours-uring has only the roles echo and count"} {
		s, err := findServer(name)
		require.NoError(t, err)
		require.ErrorContains(t, s.check(pipeline(RESP, 1, 64, 1)), want)
		require.NoError(t, s.check(pipeline(Echo, 1, 64, 1)))
	}
	s, err := findServer("netpoll")
	require.NoError(t, err)
	require.ErrorContains(t, s.check(udpEcho(100)), "netpoll serves only tcp")
	require.ErrorContains(t, s.check(oneWay("tcp")), "netpoll has only the roles echo and resp")
}

func TestMallocsPerMessage(t *testing.T) {
	require.InDelta(t, 2.5, Reading{Sent: 1000, Mallocs: 2500, HasMallocs: true}.mallocsPerMessage(), 1e-12)
	require.InDelta(t, leastMallocs, Reading{Sent: 1000, HasMallocs: true}.mallocsPerMessage(), 0)
	require.False(t, usable(Reading{Sent: 1000}.mallocsPerMessage()), "a server that says nothing has not allocated nothing")
	require.False(t, usable(Reading{HasMallocs: true}.mallocsPerMessage()))
}

// One point of each application and the datagrams, on every server there is for them.
func TestQuickRunOfTheApps(t *testing.T) {
	needGCC(t)
	file := filepath.Join(t.TempDir(), "out.json")
	code, stdout, stderr := run(t, "-quick", "-json", file, "-run", "^echo-1-64B/|^echo-100-1024B-x16/|^resp-1-1024B-x16/|^resp-100-64B/|^udp-echo-100/")
	require.Zero(t, code, "%s\n%s", stdout, stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var report Report
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Rows, 4*14+8)
	for _, row := range report.Rows {
		if row.Status == NotRun {
			require.Contains(t, row.Name, "uring", row.Reason) // the one kind of ring that a machine may refuse
			continue
		}
		require.Equal(t, Measured, row.Status, row.Name)
		require.Positive(t, row.Ours.P99, row.Name)
		require.Positive(t, row.Ours.MedianWindowRate, row.Name)
		require.Positive(t, row.Ours.PeakRSSBytes, row.Name)
		if row.Name == "udp-echo-100/mallocs/swap-epoll/gnet" {
			require.Greater(t, row.Peer.Value, 1.0, "gnet makes a connection of each datagram")
		}
	}
}

// A stream in which one byte is wrong, missing or too many fails the row, as do commands that are answered wrongly.
func TestSpoiledStreamsAreNoticed(t *testing.T) {
	needGCC(t)
	for name, want := range map[string]string{
		"tcp-corrupting": "a wrong answer",
		"tcp-swallowing": "no answer within",
		"tcp-adding":     "bytes", // too many, or that nobody asked for
		"tcp-closing":    "the server closed connection",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // one of them waits for seconds
			code, stdout, stderr := run(t, "-quick", "-ours", name, "-run", "^echo-1-1024B-x16/rate/.*/net$")
			require.Equal(t, 1, code, "%s\n%s", stdout, stderr)
			require.Contains(t, stderr, want)
		})
	}
	code, stdout, stderr := run(t, "-quick", "-ours", "tcp-answering", "-run", "^resp-1-64B/rate/.*/net$")
	require.Equal(t, 1, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stderr, "a wrong answer")
}

// A command that comes in pieces is answered once, by every server that speaks the protocol.
func TestRESPInPieces(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"swap-epoll", "gnet", "net", "netpoll"} {
		s, err := findServer(name)
		require.NoError(t, err)
		p, err := startServer(s, s.command(programs{self: self}, pipeline(RESP, 1, 64, 1)), place{cpu: -1}, 1)
		require.NoError(t, err, name)
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		large := strings.Repeat("v", 100_000)
		for _, piece := range []string{"*3\r\n$3\r\nSE", "T\r\n$1\r\nk\r\n$100000\r\n", large[:50_000], large[50_000:] + "\r\n*2\r\n$3\r\nGET\r\n$1\r", "\nk\r\n"} {
			_, err := c.Write([]byte(piece))
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		want := "+OK\r\n$100000\r\n" + large + "\r\n"
		got := make([]byte, len(want))
		_, err = io.ReadFull(c, got)
		require.NoError(t, err, name)
		require.True(t, want == string(got), "%s answers %.60q", name, got)
		_, err = c.Write([]byte("QUIT\r\n"))
		require.NoError(t, err)
		rest, err := io.ReadAll(c)
		require.NoError(t, err, name)
		require.Equal(t, "+OK\r\n", string(rest), name)
		require.NoError(t, c.Close())
		require.NoError(t, p.stop(), name)
		require.True(t, p.hasMallocs, name)
	}
}
