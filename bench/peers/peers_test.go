package peers

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

var registry = harness.Registry{Peers: All}

// A request of the stack loop is a frame that a kernel would take.
func TestRequestFrame(t *testing.T) {
	f := requestFrame()
	require.Len(t, f, 14+20+8+harness.MessageSize)
	require.EqualValues(t, 0xffff, onesSum(0, f[14:34]), "the IP header's checksum")
	require.EqualValues(t, 0xffff, onesSum(17+8+harness.MessageSize, f[26:]), "UDP's")
	g := slices.Clone(f)
	turnFrame(g)
	require.NotEqual(t, f, g)
	require.EqualValues(t, 0xffff, onesSum(0, g[14:34]))
	turnFrame(g)
	require.Equal(t, f, g)
}

func TestStackLoops(t *testing.T) {
	for _, stack := range []bool{true, false} {
		for _, batch := range []int{1, 32, 300} {
			if stack && batch > 64 {
				continue // a ring takes so many frames a turn
			}
			turn, closing, err := openStackLoop(batch, stack)
			require.NoError(t, err)
			for range 50 {
				sum, err := turn()
				require.NoError(t, err)
				require.EqualValues(t, batch*(42+harness.MessageSize), sum)
			}
			if !raceEnabled {
				require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = turn() }), "stack %v, batch %d", stack, batch)
			}
			require.NoError(t, closing())
		}
	}
}

func TestOffloadArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"offload"}, "-proto tcp"},
		{[]string{"offload", "-proto", "udp"}, "-iface is missing"},
		{[]string{"offload", "-proto", "udp", "-iface", "v0", "-addr", "x"}, `-addr "x"`},
		{[]string{"offload", "-proto", "udp", "-iface", "v0", "-groups", "255"}, "-groups 255"},
		{[]string{"offload-client"}, "-iface is missing"},
		{[]string{"offload-client", "-iface", "v1"}, `-addr ""`},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1"}, `-peer ""`},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1", "-peer", "10.0.0.2"}, "-port 0"},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1", "-peer", "10.0.0.2", "-port", "1", "-window", "0"}, "-window 0"},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1", "-peer", "10.0.0.2", "-port", "1", "-seconds", "NaN"}, "-seconds NaN"},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1", "-peer", "10.0.0.2", "-port", "1", "-sample", "x"}, `-sample "x"`},
		{[]string{"offload-client", "surplus"}, `"surplus"`},
		{[]string{"stack", "-batch", "0"}, "-batch 0"},
		{[]string{"rawlink", "surplus"}, `"surplus"`},
	} {
		var errs lines
		require.NotZero(t, registry.RunPeer(c.args, io.Discard, &errs), "%v", c.args)
		require.Contains(t, string(errs), c.want, "%v", c.args)
	}
}

type lines []byte

func (l *lines) Write(b []byte) (int, error) {
	*l = append(*l, b...)
	return len(b), nil
}

// Where the interface cannot be had, the server refuses with the library's reason, and its rows say so.
func TestOffloadServerRefuses(t *testing.T) {
	var out, errs lines
	code := registry.RunPeer([]string{"offload", "-proto", "udp", "-iface", "nonesuch0", "-addr", "0.0.0.0:0"}, &out, &errs)
	require.Zero(t, code, string(errs))
	require.Contains(t, string(out), "refused ")
	require.Contains(t, string(out), "nonesuch0")
}

func TestPeerArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "name one of"},
		{[]string{"nonesuch"}, `"nonesuch"`},
		{[]string{"net", "-proto", "sctp"}, `-proto "sctp"`},
		{[]string{"gnet", "-role", "king"}, `-role "king"`},
		{[]string{"net", "surplus"}, `"surplus"`},
		{[]string{"net", "-nonsense"}, "-nonsense"},
		{[]string{"net", "-proto", "udp", "-addr", "nowhere"}, `-addr "nowhere"`},
		{[]string{"net", "-deadline", "-1s"}, "-deadline -1s"},
		{[]string{"net", "-proto", "udp", "-deadline", "1s"}, "only with -proto tcp"},
		{[]string{"gnet", "-deadline", "1s"}, "-deadline"},
		{[]string{"net", "-cpuprofile", "/nonesuch/file"}, "/nonesuch/file"},
		{[]string{"net", "-proto", "udp", "-role", "resp"}, "-role resp: only with -proto tcp"},
		{[]string{"ours", "-role", "resp"}, `-role "resp"`},
		{[]string{"netpoll", "-proto", "udp"}, "-proto udp"},
		{[]string{"netpoll", "-role", "count"}, `-role "count"`},
		{[]string{"swap", "-ring", "brass"}, "-ring"},
		{[]string{"swap", "-rest", "never"}, `"never"`},
		{[]string{"layer", "-batch", "0"}, "-batch 0"},
		{[]string{"bare", "-batch", "5000"}, "-batch 5000"},
		{[]string{"bare", "-seconds", "NaN"}, "-seconds NaN"},
		{[]string{"layer", "surplus"}, `"surplus"`},
	} {
		var out, errs bytes.Buffer
		require.NotZero(t, registry.RunPeer(c.args, &out, &errs), "%v", c.args)
		require.Contains(t, errs.String(), c.want, "%v", c.args)
	}
}
