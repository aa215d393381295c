package xdp

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Kinds of entry that there are none of are passed over; the first of a kind is found at once, and the last one gone is not missed.
func TestKinds(t *testing.T) {
	peer, me, group := ap("10.0.0.2:9000"), ap("10.0.0.1:53"), ap("239.1.1.1:53")
	unicast, multicast := packet{src: peer, dst: me}.bytes(), packet{src: peer, dst: group}.bytes()
	p := needProgram(t, programOptions{})
	socketIn(t, p)
	kinds := func() uint32 {
		var b [frontBytes]byte
		require.NoError(t, p.front.Lookup(uint32(0), &b))
		return binary.NativeEndian.Uint32(b[:])
	}
	require.Zero(t, kinds())
	require.NoError(t, p.AddAddr(me.Addr(), 0))
	tests := []struct {
		claim Flow
		kind  entryKind
		frame []byte
		other []byte
	}{
		{Flow{Protocol: link.UDP, Local: me, Remote: peer}, kindConnected, unicast, multicast},
		{Flow{Protocol: link.UDP, Local: me}, kindBound, unicast, multicast},
		{Flow{Protocol: link.UDP, Local: ap("0.0.0.0:53")}, kindWildcard, unicast, multicast},
		{Flow{Protocol: link.UDP, Local: group, Remote: peer}, kindGroupConnected, multicast, unicast},
		{Flow{Protocol: link.UDP, Local: group, Remote: ap("10.0.0.2:0")}, kindGroupSource, multicast, unicast},
		{Flow{Protocol: link.UDP, Local: group}, kindGroup, multicast, unicast},
	}
	for _, test := range tests {
		second := test.claim
		second.VLAN = 7
		for _, f := range []Flow{test.claim, test.claim, second} {
			require.NoError(t, p.Claim(f))
			require.EqualValues(t, kindAddress|test.kind, kinds(), "%v", f)
		}
		_, counted := run(t, p, test.frame)
		require.Equal(t, "steer.hit", counted, "%v", test.claim)
		_, counted = run(t, p, test.other)
		require.Equal(t, "steer.miss", counted, "%v", test.claim)
		require.NoError(t, p.Release(test.claim))
		_, counted = run(t, p, test.frame)
		require.Equal(t, "steer.hit", counted, "%v is claimed once more", test.claim)
		require.NoError(t, p.Release(test.claim))
		require.EqualValues(t, kindAddress|test.kind, kinds(), "the other VLAN's is there")
		_, counted = run(t, p, test.frame)
		require.Equal(t, "steer.miss", counted, "%v", test.claim)
		require.NoError(t, p.Release(second))
		require.EqualValues(t, kindAddress, kinds())
	}
	// Each kind beside each other one: the more exact entry missing, the more general one takes the frame.
	for _, a := range tests {
		for _, b := range tests {
			require.NoError(t, p.Claim(a.claim))
			require.NoError(t, p.Claim(b.claim))
			for _, x := range []Flow{a.claim, b.claim} {
				frame := a.frame
				if x == b.claim {
					frame = b.frame
				}
				_, counted := run(t, p, frame)
				require.Equal(t, "steer.hit", counted, "%v of %v and %v", x, a.claim, b.claim)
			}
			require.NoError(t, p.Release(a.claim))
			_, counted := run(t, p, b.frame)
			require.Equal(t, "steer.hit", counted, "%v without %v", b.claim, a.claim)
			require.NoError(t, p.Release(b.claim))
		}
	}
	require.NoError(t, p.RemoveAddr(me.Addr(), 0))
	require.Zero(t, kinds())
}
