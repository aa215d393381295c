package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

// workload is that of a row.
func workload(t *testing.T, name string) harness.Workload {
	t.Helper()
	for _, r := range registry.Rows(append(registry.Ours(), "net")) {
		if r.Workload.Name == name {
			return r.Workload
		}
	}
	t.Fatalf("no row has a workload %q", name)
	return harness.Workload{}
}

// serverCommand is how a peer is started that can serve w.
func serverCommand(t *testing.T, p harness.Programs, name string, w harness.Workload) []string {
	t.Helper()
	s, err := registry.Find(name)
	require.NoError(t, err)
	require.NoError(t, s.Check(w), name)
	return s.ServerCommand(p, w)
}

func TestRowNamesAreUniqueAndPeersExist(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range registry.Rows([]string{"ours-uring", "ours-epoll", "ours-offload"}) {
		require.False(t, seen[r.Name()], "row %s twice", r.Name())
		seen[r.Name()] = true
		if r.Peer == harness.Limit {
			require.Positive(t, r.Bound, r.Name())
		}
		for _, e := range r.Sides() {
			s, err := registry.Find(e.Peer)
			require.NoError(t, err, r.Name())
			s.Program = "" // it may be missing here
			require.NoError(t, s.Check(e.Workload), r.Name())
		}
	}
}

// The harness has no name of a peer, a family or a workload in it: what it knows of them is declared.
func TestHarnessNamesNobody(t *testing.T) {
	names := map[string]bool{}
	for _, p := range registry.Peers {
		names[p.Name] = true
	}
	for _, f := range registry.Families {
		names[f.Name] = true
		for _, r := range f.Rows(registry.Ours()) {
			names[r.Workload.Name] = true
		}
	}
	sources, err := filepath.Glob("harness/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if _, ok := n.(*ast.ImportSpec); ok {
				return false
			}
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
				text, err := strconv.Unquote(s.Value)
				require.NoError(t, err)
				require.False(t, names[text], "%s: %s", path, s.Value)
			}
			return true
		})
	}
}

func TestPeersOnOurSide(t *testing.T) {
	require.Equal(t, []string{"ours-uring", "ours-epoll", "ours-offload"}, registry.Ours())
}

func TestFind(t *testing.T) {
	_, err := registry.Find("nonesuch")
	require.ErrorContains(t, err, `"nonesuch"`)
	require.ErrorContains(t, err, "gnet")
	_, err = registry.Find("exec: ")
	require.ErrorContains(t, err, "names no program")
	require.Equal(t, []string{"/bin/server", "-x", "1", "-proto", "tcp", "-role", "echo", "-rest", "spin"},
		serverCommand(t, harness.Programs{}, "exec:/bin/server -x 1", workload(t, "tcp-pingpong-1")))
}

// The C servers cannot adapt: where a server may sleep they always do.
func TestServerCommands(t *testing.T) {
	p := harness.Programs{Self: "/self", Dir: "/c"}
	for _, c := range []struct{ peer, workload, want string }{
		{"c-recv", "udp-oneway", "/c/server -proto udp -role count -loop recv -rest spin"},
		{"c-recv", "udp-wake-30ms", "/c/server -proto udp -role echo -loop recv -rest wait"},
		{"net", "tcp-pingpong-1", "/self peer net -proto tcp -role echo"},
		{"net", "tcp-active-100-idle-10000-deadlines", "/self peer net -proto tcp -role echo -deadline 1m0s"},
		{"ours-uring", "tcp-idle-100", "/self peer ours -ring uring -proto tcp -role echo -rest adaptive"},
		{"bare", "layer-16", "/self peer bare -batch 16"},
		{"swap-epoll", "resp-100-1024B-x16", "/self peer swap -ring epoll -proto tcp -role resp -rest spin"},
		{"c-xdp", "udp-veth-pingpong", "/c/xdp -mode echo -iface v0 -addr 10.77.0.1"},
		{"c-recv", "udp-veth-pingpong", "/c/server -proto udp -role echo -loop recv -addr 10.77.0.1 -rest spin"},
		{"c-epoll", "udp-veth-pingpong", "/c/server -proto udp -role echo -loop epoll -addr 10.77.0.1 -rest spin"},
		{"net", "udp-veth-pingpong", "/self peer net -proto udp -role echo -addr 10.77.0.1:0"},
		{"c-mmsg", "udp-veth-multicast-10-64B", "/c/receive -addr 10.77.0.1 -groups 10 -base 239.77.7.0 -pass v0"},
		{"ours-offload", "udp-veth-multicast-10-64B",
			"/self peer offload -proto udp -role count -addr 10.77.0.1:0 -iface v0 -groups 10 -native"},
	} {
		require.Equal(t, c.want, strings.Join(serverCommand(t, p, c.peer, workload(t, c.workload)), " "), c.peer)
	}
}

// Only what has a client of its own is measured with that; a flood has one source for all.
func TestClientCommands(t *testing.T) {
	p := harness.Programs{Self: "/self", Dir: "/c"}
	command := func(name string, w harness.Workload) string {
		s, err := registry.Find(name)
		require.NoError(t, err)
		return strings.Join(s.ClientCommand(p, w, harness.Pace{Seconds: 1, Warmup: 0.3, Settle: 0.5}), " ")
	}
	require.Equal(t, "/c/pipeline -app resp -conns 100 -size 1024 -depth 16 -seconds 1.000 -warmup 0.300",
		command("gnet", workload(t, "resp-100-1024B-x16")))
	require.Equal(t, "/c/client -proto udp -mode pingpong -conns 100 -seconds 1.000 -warmup 0.300 -settle 0.500",
		command("gnet", workload(t, "udp-echo-100")))
	require.Contains(t, command("net", workload(t, "tcp-wake-30ms")), " -gap-ms 30.000")
	both := workload(t, "udp-veth-pingpong")
	require.Contains(t, command("ours-offload", both), "/self peer offload-client ")
	require.Contains(t, command("c-xdp", both), "/c/xdp -mode pingpong ")
	require.Contains(t, command("c-recv", both), "/c/client -addr 10.77.0.1 ")
	server := both
	server.Both = false
	require.Contains(t, command("ours-offload", server), "/c/client -addr 10.77.0.1 ")
	for _, name := range []string{"ours-offload", "c-mmsg", "c-xdp"} {
		require.Contains(t, command(name, workload(t, "udp-veth-multicast-10-64B")), "/c/source -iface v1 ")
	}
}

func TestPeersSayWhatTheyCannotDo(t *testing.T) {
	for _, c := range []struct{ peer, workload, want string }{
		{"c-epoll", "resp-1-64B", "c-epoll has only the roles echo and count"},
		{"c-epoll", "echo-1-64B", ""},
		{"c-epoll", "udp-veth-pingpong", ""},
		{"c-recv", "tcp-pingpong-1", "c-recv serves only udp"},
		{"ours-uring", "resp-1-64B", "ours-uring has only the roles echo and count"},
		{"ours-uring", "echo-1-64B", ""},
		{"ours-offload", "udp-pingpong-1", "ours-offload serves on a veth pair only"},
		{"netpoll", "udp-echo-100", "netpoll serves only tcp"},
		{"netpoll", "tcp-oneway", "netpoll has only the roles echo and resp"},
		{"gnet", "udp-veth-pingpong", "gnet does not serve on a veth pair"},
		{"gnet", "tcp-active-100-idle-10000-deadlines", "gnet has no read deadlines"},
		{"bare", "tcp-pingpong-1", "bare serves only memory"},
	} {
		s, err := registry.Find(c.peer)
		require.NoError(t, err)
		if err := s.Check(workload(t, c.workload)); c.want == "" {
			require.NoError(t, err, "%s, %s", c.peer, c.workload)
		} else {
			require.EqualError(t, err, c.want)
		}
	}
}
