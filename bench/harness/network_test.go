package harness

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// needVeth makes the two namespaces, or skips.
func needVeth(t *testing.T) *Network {
	t.Helper()
	n, err := NewNetwork()
	if errors.Is(err, unix.EOPNOTSUPP) {
		testnet.Missing(t, "namespaces", "veth interfaces in this kernel")
	}
	if errors.Is(err, ErrNoNetwork) {
		testnet.Missing(t, "namespaces", err)
	}
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

// output is what a command prints that is started at the place.
func output(t *testing.T, at Place, argv ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, at.Start(cmd))
	require.NoError(t, cmd.Wait(), out.String())
	return out.String()
}

// Each side sees its own end of the pair; this process stays where it was, and nothing is left of the pair.
func TestNamespaces(t *testing.T) {
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	n := needVeth(t)
	for _, c := range []struct {
		netns         int
		device, other string
	}{{n.Server, ServerDevice, ClientDevice}, {n.Client, ClientDevice, ServerDevice}} {
		devices := output(t, Place{CPU: -1, Net: n, NetNS: c.netns}, "cat", "/proc/net/dev")
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
	require.NotRegexp(t, `(?m)^\s*`+ClientDevice+`:.*`, string(here))

	// The namespaces are gone with their last descriptor: a second pair of the same name and addresses is no conflict.
	n.Close()
	again, err := NewNetwork()
	require.NoError(t, err)
	again.Close()
}

// A program that does not exist fails in the namespace as anywhere, and the thread comes back.
func TestStartInNamespaceFails(t *testing.T) {
	n := needVeth(t)
	own, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	at := Place{CPU: -1, Net: n, NetNS: n.Server}
	require.ErrorIs(t, at.Start(exec.Command("/nonesuch")), os.ErrNotExist)
	now, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	require.Equal(t, own, now)
}

// Rows over a veth say why they were not run where it cannot be had.
func TestNoNetworkIsNotRun(t *testing.T) {
	peer := func(name string) Peer {
		return Peer{Name: name, Protos: []string{"udp"}, Roles: []string{"count"}, Veth: true}
	}
	registry := &Registry{Peers: []Peer{peer("a"), peer("b")}}
	h := &runner{registry: registry, netErr: ErrNoNetwork}
	c := GroupRows([]Row{{Workload: flood(), Ours: "a", Peer: "b", Metric: Messages}})[0]
	records := h.measure(t.Context(), c)
	require.Len(t, records, 2)
	for _, r := range records {
		require.Equal(t, ErrNoNetwork.Error(), r.NotRun)
	}
	result := judge(c.Rows[0], outcomeOf(c.Rows[0], records), false)
	require.Equal(t, NotRun, result.Status)
	require.Contains(t, result.Reason, "CAP_NET_ADMIN")
}

func TestExternalServer(t *testing.T) {
	const table = "   sl  local_address rem_address   st\n 2218: 0100007F:C38D 00000000:0000 07\n12420: 0100007F:2B67 0100007F:D088 07\n"
	require.True(t, hasUDPPort(table, 11111))
	require.False(t, hasUDPPort(table, 0xd088), "a peer's")
	require.False(t, hasUDPPort("", 1))

	s := Peer{Name: "leaving", FixedPort: 9}
	p, err := StartServer(s, []string{"sh", "-c", "echo no licence >&2; exit 3"}, Place{CPU: -1}, 1)
	require.ErrorContains(t, err, "ended before it was ready: exit status 3")
	require.ErrorContains(t, err, "no licence")
	require.Equal(t, syscall.SIGINT, p.end)
	missing := Peer{Name: "absent", Protos: []string{"udp"}, Roles: []string{"echo"}, Program: "nonesuch-program"}
	require.ErrorContains(t, missing.Check(pingPong("udp", 1)), "missing: ")
}
