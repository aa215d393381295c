package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// needVeth makes the two namespaces, or skips.
func needVeth(t *testing.T) *harness.Network {
	t.Helper()
	n, err := harness.NewNetwork()
	if errors.Is(err, unix.EOPNOTSUPP) {
		testnet.Missing(t, "namespaces", "veth interfaces in this kernel")
	}
	if errors.Is(err, harness.ErrNoNetwork) {
		testnet.Missing(t, "namespaces", err)
	}
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

// onlyNoRate reports whether a run failed for nothing else than that a search found no rate.
func onlyNoRate(stderr string) bool {
	for line := range strings.Lines(strings.TrimSpace(stderr)) {
		if !strings.Contains(line, "no rate was found") {
			return false
		}
	}
	return true
}

// One workload of each kind over the veth: every client, every server; nothing lost where nothing may be.
func TestQuickRunOverVeth(t *testing.T) {
	needGCC(t)
	needVeth(t)
	file := filepath.Join(t.TempDir(), "out.json")
	args := []string{"-quick", "-ours", "ours-offload", "-json", file, "-run",
		"^stack-32|veth-pingpong/p50|veth-server-block/.*/(c-recv-block|c-xdp)|window-32|veth-receive|multicast-150.*mmsg|first-prepared"}
	code, stdout, stderr := run(t, args...)
	// On a machine that is busy for long there may be no rate at which nothing is lost: that is no fault, and asked again.
	for try := 1; try < 3 && code != 0 && onlyNoRate(stderr); try++ {
		code, stdout, stderr = run(t, args...)
	}
	require.Zero(t, code, "%s\n%s", stdout, stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var report harness.Report
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Rows, 3+7+2+4+2+1+1)
	for _, row := range report.Rows {
		if row.Status == harness.NotRun { // kinds of ring and programs that a machine may not have
			require.Regexp(t, "uring|sockperf", row.Name, row.Reason)
			continue
		}
		require.Equal(t, harness.Measured, row.Status, row.Name)
		if !strings.HasPrefix(row.Name, "udp-veth") {
			continue
		}
		require.Contains(t, row.Ours.Path, "bypass xdp v0/", row.Name)
		mode := "generic"
		if row.Ours.Offered > 0 {
			mode = "native"
			require.LessOrEqual(t, row.Ours.SpoiledWindows, 2, row.Name)
		} else {
			require.Zero(t, row.Ours.Lost+row.Peer.Lost, row.Name)
		}
		require.Contains(t, row.Ours.Path, mode, row.Name)
	}
}

// The clients notice what a server does to the messages of a window.
func TestMisbehavingServersAreNoticedInAWindow(t *testing.T) {
	p := needGCC(t)
	w := harness.Workload{Proto: "udp", Mode: harness.PingPong, Conns: 1, Rest: harness.Spin, Window: 8}
	for name, want := range map[string]string{"dropping": "lost", "duplicating": "duplicated", "corrupting": "changed", "net": ""} {
		t.Run(name, func(t *testing.T) {
			s, err := registry.Find(name)
			require.NoError(t, err)
			server, err := harness.StartServer(s, s.ServerCommand(p, w), harness.Place{CPU: -1}, 1)
			require.NoError(t, err)
			argv := append(s.ClientCommand(p, w, harness.Pace{Seconds: 0.3, Warmup: 0.01}), "-port", strconv.Itoa(server.Port))
			line, _, err := harness.RunProgram(t.Context(), "client", append(argv, w.WindowFlag()...), os.Environ(), harness.Place{CPU: -1}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, server.Stop())
			r, err := harness.ParseReading(line)
			require.NoError(t, err)
			require.Greater(t, r.Sent, uint64(spoilt))
			if want == "" {
				require.Empty(t, r.Broken(w))
				return
			}
			require.Contains(t, strings.Join(r.Broken(w), "; "), want)
		})
	}
}

// sockperf's server speaks to the client that writes its header.
func TestSockperf(t *testing.T) {
	p := needGCC(t)
	testnet.NeedProgram(t, "sockperf")
	n := needVeth(t)
	w := workload(t, "udp-veth-pingpong")
	w.Both = false
	sockperf, err := registry.Find("sockperf")
	require.NoError(t, err)
	server, err := harness.StartServer(sockperf, sockperf.ServerCommand(p, w), harness.Place{CPU: -1, Net: n, NetNS: n.Server}, 1)
	require.NoError(t, err)
	argv := append(sockperf.ClientCommand(p, w, harness.Pace{Seconds: 0.2, Warmup: 0.01}), "-port", strconv.Itoa(server.Port))
	line, _, err := harness.RunProgram(t.Context(), "client", argv, os.Environ(), harness.Place{CPU: -1, Net: n, NetNS: n.Client}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	r, err := harness.ParseReading(line)
	require.NoError(t, err)
	require.Empty(t, r.Faults(w), "%s", line)
}

// The C programs name what is wrong with their arguments.
func TestArgumentsOfCPrograms(t *testing.T) {
	p := needGCC(t)
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{p.C("xdp"), "-mode", "dance"}, "-mode dance"},
		{[]string{p.C("xdp"), "-iface", "v0"}, "-addr are needed"},
		{[]string{p.C("xdp"), "-iface", "v0", "-addr", "here"}, "-addr here"},
		{[]string{p.C("xdp"), "-mode", "pingpong", "-iface", "v0", "-addr", "10.0.0.1"}, "needs -peer and -port"},
		{[]string{p.C("xdp"), "-fill", "7"}, "-fill 7"},
		{[]string{p.C("xdp"), "-window", "513"}, "-window 513"},
		{[]string{p.C("xdp"), "-peer-mac", "1:2:3"}, "-peer-mac 1:2:3"},
		{[]string{p.C("source"), "-size", "1473"}, "-size 1473"},
		{[]string{p.C("source"), "-iface", "v1"}, "-port are needed"},
		{[]string{p.C("source"), "-lost", "2"}, "-lost 2"},
		{[]string{p.C("receive"), "-addr", "nowhere"}, "-addr nowhere"},
		{[]string{p.C("receive"), "-addr", "127.0.0.1", "-base", "x"}, "-base x"},
		{[]string{p.C("receive"), "-groups", "255"}, "-groups 255"},
		{[]string{p.C("client"), "-proto", "tcp", "-port", "1", "-window", "2"}, "only with -proto udp"},
		{[]string{p.C("client"), "-proto", "udp", "-port", "1", "-window", "2", "-block"}, "-window 2"},
	} {
		out, err := exec.Command(c.argv[0], c.argv[1:]...).CombinedOutput()
		require.Error(t, err, "%v", c.argv)
		require.Contains(t, string(out), c.want, "%v", c.argv)
	}
}
