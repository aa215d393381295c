package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// needVeth makes the two namespaces, or skips.
func needVeth(t *testing.T) *network {
	t.Helper()
	n, err := newNetwork()
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("missing: veth interfaces in this kernel")
	}
	if errors.Is(err, errNoNetwork) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(n.close)
	return n
}

// output is what a command prints that is started at the place.
func output(t *testing.T, at place, argv ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, at.start(cmd))
	require.NoError(t, cmd.Wait(), out.String())
	return out.String()
}

// Each side sees its own end of the pair; this process stays where it was, and nothing is left of the pair.
func TestNamespaces(t *testing.T) {
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	n := needVeth(t)
	for _, c := range []struct {
		space         int
		device, other string
	}{{n.server, serverDevice, clientDevice}, {n.client, clientDevice, serverDevice}} {
		devices := output(t, place{cpu: -1, net: n, space: c.space}, "cat", "/proc/net/dev")
		require.Contains(t, devices, c.device+":")
		require.NotContains(t, devices, c.other+":")
	}
	for range 8 { // whatever thread runs it
		now, err := os.Readlink("/proc/thread-self/ns/net")
		require.NoError(t, err)
		require.Equal(t, own, now)
	}
	here, err := os.ReadFile("/proc/net/dev")
	require.NoError(t, err)
	require.NotRegexp(t, `(?m)^\s*`+clientDevice+`:.*`, string(here))

	// The namespaces are gone with their last descriptor: a second pair of the same name and addresses is no conflict.
	n.close()
	again, err := newNetwork()
	require.NoError(t, err)
	again.close()
}

// A program that does not exist fails in the namespace as anywhere, and the thread comes back.
func TestStartInNamespaceFails(t *testing.T) {
	n := needVeth(t)
	own, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	at := place{cpu: -1, net: n, space: n.server}
	require.ErrorIs(t, at.start(exec.Command("/nonesuch")), os.ErrNotExist)
	now, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	require.Equal(t, own, now)
}

// Rows over a veth say why they were not run where it cannot be had.
func TestNoNetworkIsNotRun(t *testing.T) {
	h := &harness{netErr: errNoNetwork}
	c := groupRows(selectRows(vethRows("ours-offload"), regexp.MustCompile("pingpong/p50/ours-offload/c-recv")))[0]
	records := h.measure(t.Context(), c)
	require.Len(t, records, 2)
	for _, r := range records {
		require.Equal(t, errNoNetwork.Error(), r.NotRun)
	}
	result := judge(c.Rows[0], outcomeOf(c.Rows[0], records), false)
	require.Equal(t, NotRun, result.Status)
	require.Contains(t, result.Reason, "CAP_NET_ADMIN")
}

// onlyNoRate tells whether a run failed for nothing else than that a search found no rate.
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
	var report Report
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Rows, 2+7+2+4+2+1+1)
	for _, row := range report.Rows {
		if row.Status == NotRun { // kinds of ring and programs that a machine may not have
			require.Regexp(t, "uring|sockperf", row.Name, row.Reason)
			continue
		}
		require.Equal(t, Measured, row.Status, row.Name)
		if !strings.HasPrefix(row.Name, "udp-veth") {
			continue
		}
		require.Contains(t, row.Ours.Path, "offload (xdp v0", row.Name)
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
	needGCC(t)
	var p programs
	_, err := p.compileC(t.TempDir())
	require.NoError(t, err)
	p.self, err = os.Executable()
	require.NoError(t, err)
	w := Workload{Proto: "udp", Mode: PingPong, Conns: 1, Rest: Spin, Window: 8}
	for name, want := range map[string]string{"dropping": "lost", "duplicating": "duplicated", "corrupting": "changed", "net": ""} {
		t.Run(name, func(t *testing.T) {
			s, err := findServer(name)
			require.NoError(t, err)
			server, err := startServer(s, s.command(p, w), place{cpu: -1}, 1)
			require.NoError(t, err)
			argv := append([]string{p.client, "-port", strconv.Itoa(server.port)}, w.clientArgs(pace{seconds: 0.3, warmup: 0.01})...)
			line, _, err := runProgram(t.Context(), "client", append(argv, windowFlag(w)...), os.Environ(), place{cpu: -1}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, server.stop())
			r, err := parseReading(line)
			require.NoError(t, err)
			require.Greater(t, r.Sent, uint64(spoilt))
			if want == "" {
				require.Empty(t, r.broken(w))
				return
			}
			require.Contains(t, strings.Join(r.broken(w), "; "), want)
		})
	}
}

func TestForeignServer(t *testing.T) {
	const table = "   sl  local_address rem_address   st\n 2218: 0100007F:C38D 00000000:0000 07\n12420: 0100007F:2B67 0100007F:D088 07\n"
	require.True(t, hasUDPPort(table, 11111))
	require.False(t, hasUDPPort(table, 0xd088), "a peer's")
	require.False(t, hasUDPPort("", 1))

	s := Server{Name: "leaving", Foreign: 9}
	_, err := startServer(s, []string{"sh", "-c", "echo no licence >&2; exit 3"}, place{cpu: -1}, 1)
	require.ErrorContains(t, err, "ended before it was ready: exit status 3")
	require.ErrorContains(t, err, "no licence")
	missing := Server{Name: "absent", Protos: []string{"udp"}, Roles: []string{"echo"}, Program: "nonesuch-program"}
	require.ErrorContains(t, missing.check(pingPong("udp", 1)), "missing: ")
}

// sockperf's server speaks to the client that writes its header.
func TestSockperf(t *testing.T) {
	needGCC(t)
	if _, err := exec.LookPath("sockperf"); err != nil {
		t.Skip("missing: ", err)
	}
	n := needVeth(t)
	var p programs
	_, err := p.compileC(t.TempDir())
	require.NoError(t, err)
	w := vethPingPong("pingpong")
	server, err := startServer(sockperfServer, sockperfServer.command(p, w), place{cpu: -1, net: n, space: n.server}, 1)
	require.NoError(t, err)
	require.Equal(t, syscall.SIGINT, server.end)
	argv := append(sockperfServer.clientCommand(p, w, pace{seconds: 0.2, warmup: 0.01}), "-port", strconv.Itoa(server.port))
	line, _, err := runProgram(t.Context(), "client", argv, os.Environ(), place{cpu: -1, net: n, space: n.client}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, server.stop())
	r, err := parseReading(line)
	require.NoError(t, err)
	require.Empty(t, r.faults(w), "%s", line)
}

// The C programs name what is wrong with their arguments.
func TestArgumentsOfCPrograms(t *testing.T) {
	needGCC(t)
	var p programs
	_, err := p.compileC(t.TempDir())
	require.NoError(t, err)
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{p.xdp, "-mode", "dance"}, "-mode dance"},
		{[]string{p.xdp, "-iface", "v0"}, "-addr are needed"},
		{[]string{p.xdp, "-iface", "v0", "-addr", "here"}, "-addr here"},
		{[]string{p.xdp, "-mode", "pingpong", "-iface", "v0", "-addr", "10.0.0.1"}, "needs -peer and -port"},
		{[]string{p.xdp, "-fill", "7"}, "-fill 7"},
		{[]string{p.xdp, "-window", "513"}, "-window 513"},
		{[]string{p.xdp, "-peer-mac", "1:2:3"}, "-peer-mac 1:2:3"},
		{[]string{p.source, "-size", "1473"}, "-size 1473"},
		{[]string{p.source, "-iface", "v1"}, "-port are needed"},
		{[]string{p.source, "-lost", "2"}, "-lost 2"},
		{[]string{p.receive, "-addr", "nowhere"}, "-addr nowhere"},
		{[]string{p.receive, "-addr", "127.0.0.1", "-base", "x"}, "-base x"},
		{[]string{p.receive, "-groups", "255"}, "-groups 255"},
		{[]string{p.client, "-proto", "tcp", "-port", "1", "-window", "2"}, "only with -proto udp"},
		{[]string{p.client, "-proto", "udp", "-port", "1", "-window", "2", "-block"}, "-window 2"},
	} {
		out, err := exec.Command(c.argv[0], c.argv[1:]...).CombinedOutput()
		require.Error(t, err, "%v", c.argv)
		require.Contains(t, string(out), c.want, "%v", c.argv)
	}
}
