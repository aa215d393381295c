package xdp

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// The first claim of a slot has it; the others are found behind it, whichever is released first.
func TestClaimsOfOneSlot(t *testing.T) {
	peer, first, second := ap("10.0.0.2:9000"), ap("10.0.0.1:53"), ap("10.0.0.1:309")
	p := needProgram(t, programOptions{})
	socketIn(t, p)
	claims := []Flow{{Protocol: link.UDP, Local: first}, {Protocol: link.UDP, Local: second}}
	for round := range 4 {
		for _, f := range claims {
			require.NoError(t, p.Claim(f))
		}
		k, err := keyOf(claims[0])
		require.NoError(t, err)
		require.Equal(t, k, p.first.slots[k.slot()], "round %d", round)
		for _, to := range []netip.AddrPort{first, second} {
			_, counted := run(t, p, packet{src: peer, dst: to}.bytes())
			require.Equal(t, "steer.hit", counted, "%v", to)
		}
		gone, left := claims[round%2], claims[1-round%2]
		require.NoError(t, p.Release(gone))
		_, counted := run(t, p, packet{src: peer, dst: gone.Local}.bytes())
		require.Equal(t, "steer.miss", counted)
		_, counted = run(t, p, packet{src: peer, dst: left.Local}.bytes())
		require.Equal(t, "steer.hit", counted)
		require.NoError(t, p.Release(left))
		require.Equal(t, front{}, p.first)
	}
}

// With the slots and without them the program decides the same, for whatever is claimed.
func TestFrontDecidesAsTheFlowMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	address := func(group bool) netip.AddrPort {
		a := fmt.Sprintf("10.0.0.%d", 1+rnd.IntN(3))
		if group {
			a = fmt.Sprintf("239.0.0.%d", 1+rnd.IntN(2))
		}
		return netip.AddrPortFrom(netip.MustParseAddr(a), uint16(50+64*rnd.IntN(2)+rnd.IntN(2)))
	}
	hits := 0
	for range 60 {
		p := needProgram(t, programOptions{})
		socketIn(t, p)
		require.NoError(t, p.AddAddr(netip.MustParseAddr("10.0.0.1"), 0))
		var claimed []Flow
		for range 1 + rnd.IntN(8) {
			f := Flow{Protocol: link.UDP, Local: address(rnd.IntN(3) == 0)}
			switch rnd.IntN(4) {
			case 0:
				f.Remote = address(false)
			case 1:
				if f.Local.Addr().IsMulticast() {
					f.Remote = netip.AddrPortFrom(address(false).Addr(), 0)
				} else {
					f.Local = netip.AddrPortFrom(netip.IPv4Unspecified(), f.Local.Port())
				}
			}
			require.NoError(t, p.Claim(f))
			claimed = append(claimed, f)
		}
		for _, f := range claimed {
			if rnd.IntN(3) == 0 {
				require.NoError(t, p.Release(f))
			}
		}
		without := front{kinds: p.first.kinds}
		for range 40 {
			frame := packet{src: address(false), dst: address(rnd.IntN(3) == 0)}.bytes()
			require.NoError(t, p.front.Put(uint32(0), p.first.bytes()))
			_, with := run(t, p, frame)
			require.NoError(t, p.front.Put(uint32(0), without.bytes()))
			_, counted := run(t, p, frame)
			require.Equal(t, counted, with, "%x, claimed %v", frame, claimed)
			if with == "steer.hit" {
				hits++
			}
		}
	}
	require.Greater(t, hits, 200)
}
