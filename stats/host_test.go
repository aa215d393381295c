package stats

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// With more counters than places those that are stored first have them, and readers learn how many are missing.
func TestMoreCountersOfTheHostThanPlaces(t *testing.T) {
	f, _, r := still(t)
	turn := func(value uint64) {
		f.BeginHost()
		f.SetHost("udp.RcvbufErrors", value)
		for i := range 50 {
			for j := range 13 {
				f.SetHost(fmt.Sprintf("eth%d.c%d", i, j), value)
			}
		}
		f.storeHost("eth0.xdp.rx_lost", value, ofDriver)
	}
	for v := uint64(1); v <= 3; v++ {
		turn(v)
		h := r.Blocks(Host)[0]
		require.Equal(t, 1+50*13+1-hostWidth, h.Unnamed)
		require.Equal(t, v, h.Totals["udp.RcvbufErrors"])
		require.Len(t, h.Names, hostWidth)
	}
	f.BeginHost()
	f.BeginHost()
	require.Zero(t, r.Blocks(Host)[0].Unnamed, "nothing is missing any more")
}

// The places of an interface that is gone go to a new one, whose samples begin with zero.
func TestPlacesOfInterfacesThatComeAndGo(t *testing.T) {
	f, run, r := still(t)
	f.storeHost("eth0.xdp.rx_lost", 7, ofDriver)
	for i := range 300 {
		f.BeginHost()
		f.SetHost("udp.RcvbufErrors", uint64(i))
		for j := range 13 {
			f.SetHost(fmt.Sprintf("veth%d.c%d", i, j), 100)
		}
		h := r.Blocks(Host)[0]
		require.Zero(t, h.Unnamed, "interface %d", i)
		require.Equal(t, uint64(i), h.Totals["udp.RcvbufErrors"])
		require.EqualValues(t, 100, h.Totals[fmt.Sprintf("veth%d.c12", i)])
		run(ticksPerTurn)
	}
	h := r.Blocks(Host)[0]
	require.EqualValues(t, 7, h.Totals["eth0.xdp.rx_lost"])
	require.Len(t, h.Names, hostWidth)
	list := r.Samples()
	require.Len(t, list, 300)
	last := "host.veth299.c0"
	require.EqualValues(t, 100, list[299].Values[last])
	for i := range 299 {
		require.Zero(t, list[i].Values[last], "sample %d has what another interface had in its place", i)
	}
	require.LessOrEqual(t, len(f.host.lastOf), hostWidth)
}
