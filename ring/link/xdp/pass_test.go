package xdp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// A connection of the kernel's on a claimed port is passed, whether its port is claimed before or after, on its address or on all; the others of
// the port are redirected. With the end of the pass, and of the claim, nothing is left.
func TestPass(t *testing.T) {
	peer, other, me := ap("10.0.0.2:9000"), ap("10.0.0.2:9001"), ap("10.0.0.1:80")
	connection := Flow{Protocol: link.TCP, Local: me, Remote: peer}
	for _, local := range []netip.AddrPort{me, ap("0.0.0.0:80")} {
		for _, passFirst := range []bool{false, true} {
			p := needProgram(t, programOptions{})
			socketIn(t, p)
			require.NoError(t, p.AddAddr(me.Addr(), 0))
			before := p.first
			counted := func(from netip.AddrPort) string {
				verdict, counted := run(t, p, packet{src: from, dst: me, protocol: link.TCP}.bytes())
				require.Equal(t, counted == "steer.hit", verdict == xdpRedirect)
				return counted
			}
			port := Flow{Protocol: link.TCP, Local: local}
			steps := []func() error{func() error { return p.Claim(port) }, func() error { return p.Pass(connection) }}
			if passFirst {
				steps[0], steps[1] = steps[1], steps[0]
			}
			for _, step := range steps {
				require.NoError(t, step())
			}
			require.NoError(t, p.Pass(connection), "again")
			require.Equal(t, "steer.kernel", counted(peer))
			require.Equal(t, "steer.hit", counted(other))

			// The stack's own claim of the same connection does not end the pass, nor does its release.
			require.NoError(t, p.Claim(connection))
			require.Equal(t, "steer.kernel", counted(peer))
			require.NoError(t, p.StopPassing(connection))
			require.Equal(t, "steer.hit", counted(peer))
			require.NoError(t, p.Pass(connection))
			require.NoError(t, p.Release(connection))
			require.Equal(t, "steer.kernel", counted(peer))

			require.NoError(t, p.StopPassing(connection))
			require.Equal(t, "steer.hit", counted(peer))
			require.ErrorIs(t, p.StopPassing(connection), ErrNoClaim)
			if k, err := keyOf(port); local == me {
				require.NoError(t, err)
				require.Equal(t, k, p.first.slots[k.slot()], "the port has its slot again")
			}
			require.NoError(t, p.Release(port))
			require.Equal(t, "steer.miss", counted(peer))
			require.Equal(t, before, p.first)
			require.Zero(t, p.passed.inSlot)
		}
	}
}

// Passes take half of the entries at the most, and what is no connection is refused.
func TestPassIsBounded(t *testing.T) {
	p := needProgram(t, programOptions{flows: 4})
	flow := func(port uint16) Flow {
		return Flow{Protocol: link.TCP, Local: ap("10.0.0.1:80"), Remote: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port)}
	}
	require.NoError(t, p.Pass(flow(1)))
	require.NoError(t, p.Pass(flow(2)))
	err := p.Pass(flow(3))
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "10.0.0.2:3")
	require.NoError(t, p.StopPassing(flow(1)))
	require.NoError(t, p.Pass(flow(3)))
	require.ErrorContains(t, p.Pass(Flow{Protocol: link.TCP, Local: ap("10.0.0.1:80")}), "Remote is missing")
	require.ErrorContains(t, p.StopPassing(Flow{Protocol: link.TCP, Local: ap("10.0.0.1:0")}), "port 0")
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Pass(flow(4)), link.ErrClosed)
	require.ErrorIs(t, p.StopPassing(flow(3)), link.ErrClosed)
}
