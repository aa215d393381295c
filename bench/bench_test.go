package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// needDescriptors skips where client and server cannot open so many connections each.
func needDescriptors(t *testing.T, n uint64) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Max < n {
		testnet.Missing(t, "descriptors", fmt.Sprintf("the hard limit of open files is %d, and this needs %d (ulimit -Hn)", limit.Max, n))
	}
}

// run is a whole bench run in this process; its servers and clients are processes as always.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	code = benchMain(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// The whole table but its largest workload, for a moment: every mode of the client, every peer, the shape of the JSON.
func TestQuickRun(t *testing.T) {
	needGCC(t)
	file := filepath.Join(t.TempDir(), "out.json")
	code, stdout, stderr := run(t, "-quick", "-ours", "net",
		"-run", "pingpong-1|pingpong-100/|oneway|wake|^tcp-idle", "-json", file)
	require.Zero(t, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stdout, "GOMAXPROCS=1")

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var report struct {
		Settings map[string]any   `json:"settings"`
		Rows     []map[string]any `json:"rows"`
	}
	require.NoError(t, json.Unmarshal(text, &report))
	for _, key := range []string{"kernel", "go", "gcc", "pinning", "gomaxprocs", "server_cpu", "client_cpu", "servers"} {
		require.Contains(t, report.Settings, key)
	}
	require.Len(t, report.Rows, 18)
	for _, row := range report.Rows {
		name := row["name"].(string)
		for _, key := range []string{"ours", "peer", "unit", "ratio", "goal", "spread", "status", "rounds"} {
			require.Contains(t, row, key, name)
		}
		require.Equal(t, "measured", row["status"], name)
		require.Positive(t, row["ratio"], name)
		ours := row["ours"].(map[string]any)
		for _, key := range []string{"n", "lost", "duplicated", "cpu_seconds", "rss_bytes"} {
			require.Contains(t, ours, key, name)
		}
		if row["unit"] == "ns" {
			for _, key := range []string{"p10", "p50", "p99"} {
				require.Positive(t, ours[key], name)
			}
		}
		if row["unit"] == "messages/s" || row["unit"] == "transactions/s" {
			require.Positive(t, ours["rate"], name)
		}
	}
}

// The layer's loops, and one server of each kind of ring beside idle connections, with deadlines and without.
func TestQuickRunOfThisLibrary(t *testing.T) {
	needGCC(t)
	needDescriptors(t, 10_300)
	file := filepath.Join(t.TempDir(), "out.json")
	code, stdout, stderr := run(t, "-quick", "-json", file,
		"-run", "^layer-|^tcp-active-100-idle-1000/.*/ours-.*|deadlines/p50/ours-epoll")
	require.Zero(t, code, "%s\n%s", stdout, stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var report harness.Report
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Rows, 2*3+2*3+1)
	for _, row := range report.Rows {
		if row.Status == harness.NotRun {
			require.Contains(t, row.Name, "uring", row.Reason) // the one kind of ring that a machine may refuse
			continue
		}
		require.Equal(t, harness.Measured, row.Status, row.Name)
		if row.Unit == "ns/completion" {
			want := 19.0
			if strings.Contains(row.Name, "ours-published") {
				want = 2
			}
			require.InDelta(t, want, row.Allowed, 0, row.Name)
			continue
		}
		require.Equal(t, 10, row.Peer.Idle, row.Name)
		require.GreaterOrEqual(t, row.Ours.Idle, 1000, row.Name)
		require.Positive(t, row.Ours.MemoryPerIdle, row.Name)
		require.Less(t, row.Ours.MemoryPerIdle, 100e3, row.Name)
	}
}

// The memory of a server is seen to grow with its idle connections, to about what it is known to take.
func TestMemoryOfIdleConnections(t *testing.T) {
	needGCC(t)
	needDescriptors(t, 10_300)
	file := filepath.Join(t.TempDir(), "out.json")
	code, stdout, stderr := run(t, "-quick", "-ours", "net", "-run", "^tcp-active-100-idle-10000/memory/net/gnet", "-json", file)
	require.Zero(t, code, "%s\n%s", stdout, stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var report harness.Report
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Rows, 1)
	require.Greater(t, report.Rows[0].Ours.Value, 4096.0, "its read buffer alone is that large")
	require.Less(t, report.Rows[0].Ours.Value, 64e3)
}

// Thousands of connections in both processes, each with messages of its own.
func TestManyConnections(t *testing.T) {
	needGCC(t)
	code, stdout, stderr := run(t, "-quick", "-ours", "net", "-run", "tcp-pingpong-4096.*gnet")
	require.Zero(t, code, "%s\n%s", stdout, stderr)
}

func TestMisbehavingServersAreNoticed(t *testing.T) {
	needGCC(t)
	const row = "udp-pingpong-1/.*/c-recv"
	for name, want := range map[string]string{
		"dropping":    "messages lost",
		"duplicating": "messages duplicated",
		"corrupting":  "messages changed on the way",
		"babbling":    `printed "hello" instead of "ready PORT"`,
		"crashing":    "no socket today",
		"unfriendly":  "left in anger",
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, "-quick", "-ours", name, "-run", row)
			require.Equal(t, 1, code, "%s\n%s", stdout, stderr)
			require.Contains(t, stderr, want)
			require.Contains(t, stdout, "failed")
		})
	}
}

// A server that says why it cannot run here is not a failure, but nothing was measured either.
func TestRefusingServerIsNotRun(t *testing.T) {
	needGCC(t)
	file := filepath.Join(t.TempDir(), "out.json")
	code, stdout, stderr := run(t, "-quick", "-ours", "refusing", "-run", "udp-pingpong-1/.*/c-recv", "-json", file)
	require.Equal(t, 1, code)
	require.Contains(t, stdout, "not run: server refusing refused: it is Sunday")
	require.Contains(t, stderr, "nothing was measured")
	require.FileExists(t, file)
}

func TestServerForOtherProtocolIsNotRun(t *testing.T) {
	needGCC(t)
	code, stdout, _ := run(t, "-quick", "-ours", "c-recv", "-run", "^(tcp|udp)-pingpong-1/.*/c-")
	require.Zero(t, code, stdout)
	require.Contains(t, stdout, "not run: c-recv serves only udp")
}

func TestStrictComplainsAboutMissedGoals(t *testing.T) {
	needGCC(t)
	// Nobody is 2.8 times better than itself.
	args := []string{"-ours", "net", "-run", "^udp-pingpong-1/p50/net/net",
		"-rounds", "1", "-seconds", "0.5", "-retries", "2"}
	code, stdout, stderr := run(t, args...)
	require.Zero(t, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stdout, "missed")
	code, _, stderr = run(t, append(args, "-strict")...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "missed its goal")
}

func TestExternalServer(t *testing.T) {
	p := needGCC(t)
	code, stdout, stderr := run(t, "-quick", "-ours", "exec:"+p.C("server")+" -loop recv", "-run", "udp-pingpong-1/.*/c-recv")
	require.Zero(t, code, "%s\n%s", stdout, stderr)
}

func TestInterruptedRunEndsAndSaysSo(t *testing.T) {
	needGCC(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	file := filepath.Join(t.TempDir(), "out.json")
	require.Equal(t, 1, benchMain(ctx, []string{"-ours", "net", "-run", "udp-pingpong-1/", "-json", file}, &out, &errs))
	require.Contains(t, errs.String(), "interrupted")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), `"rows": []`)
}

func TestMissingGCCIsNamedAtOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := harness.Compile(t.TempDir(), registry.Sources)
	require.ErrorIs(t, err, harness.ErrNoGCC)
	code, stdout, stderr := run(t, "-quick", "-ours", "net")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "apt-get install gcc")
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-run", "("}, `-run "("`},
		{[]string{"-run", "nothing like it"}, "matches no row"},
		{[]string{"-ours", "nonesuch"}, `no server "nonesuch"`},
		{[]string{"-ours", " , "}, "names no server"},
		{[]string{"-seconds", "-1"}, "-seconds -1"},
		{[]string{"-seconds", "0.01"}, "-seconds 0.01"},
		{[]string{"-rounds", "-2"}, "-rounds -2"},
		{[]string{"-retries", "-1"}, "-retries -1"},
		{[]string{"-gomaxprocs", "0"}, "-gomaxprocs 0"},
		{[]string{"-server-cpu", "99999"}, "-server-cpu 99999"},
		{[]string{"-client-cpu", "-7"}, "-client-cpu -7"},
		{[]string{"surplus"}, `"surplus"`},
		{[]string{"-nonsense"}, "-nonsense"},
	} {
		code, _, stderr := run(t, c.args...)
		require.Equal(t, 2, code, "%v", c.args)
		require.Contains(t, stderr, c.want, "%v", c.args)
	}
}

// Without the library's own server in the table the default run says so in every row.
func TestMissingOwnServerIsNotRun(t *testing.T) {
	needGCC(t)
	if _, err := registry.Find("ours-epoll"); err == nil {
		t.Skip("this build has the library's own server")
	}
	code, stdout, stderr := run(t, "-quick", "-run", "udp-pingpong-1/")
	require.Equal(t, 1, code)
	require.Contains(t, stdout, `not run: this build has no server "ours-epoll"`)
	require.Contains(t, stderr, "nothing was measured")
}

func TestListShowsGoals(t *testing.T) {
	code, stdout, _ := run(t, "-list", "-ours", "net")
	require.Zero(t, code)
	require.Contains(t, stdout, "tcp-pingpong-4096/server-cpu/net/gnet")
	require.Contains(t, stdout, "goal 1.4 times better")
	require.Contains(t, stdout, "# loopback: ")
	require.NotContains(t, stdout, "# stack: ", "no row of it was chosen")
}
