package offload_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// BenchmarkVethTurn is what an echo over a veth costs a ring beside the kernel's part: the time from a Poll that finds a datagram to the
// end of its SendTo and Release, mean of the middle half, with the caches as the kernel's own work has left them between two turns. The
// flush, which is the system call, is not in it; an empty Poll is the other metric.
func BenchmarkVethTurn(b *testing.B) {
	pool := newPool(b, buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192})
	c := newCable(b, 1)
	sc := ring.SetConfig{Transport: kernel.New(), Pool: pool}
	c.plug(&sc, xdp.Config{})
	set, err := ring.NewSet(sc)
	require.NoError(b, err)
	defer set.Close()
	s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
	require.NoError(b, err)
	require.NoError(b, s.Bind(netip.MustParseAddrPort("10.0.0.1:7000")))
	peer := c.Dial(s.LocalAddr())
	defer peer.Close()
	r, dst, msg := s.Ring(), make([]ring.Completion, 64), make([]byte, 64)
	turn := func() (took time.Duration) {
		if _, err := peer.Write(msg); err != nil {
			b.Fatal(err)
		}
		for n := 0; n == 0; {
			from := time.Now()
			if n, err = r.Poll(dst); err != nil {
				b.Fatal(err)
			}
			for i := range dst[:n] {
				if _, err := dst[i].Socket.SendTo(dst[i].Packet.Bytes(), dst[i].Source); err != nil {
					b.Fatal(err)
				}
				if err := dst[i].Packet.Release(); err != nil {
					b.Fatal(err)
				}
			}
			took = time.Since(from)
		}
		if err := r.Flush(); err != nil {
			b.Fatal(err)
		}
		if _, err := peer.Read(msg); err != nil {
			b.Fatal(err)
		}
		return took
	}
	for range 1000 {
		turn()
	}
	busy, idle := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
	for b.Loop() {
		busy = append(busy, turn())
		from := time.Now()
		_, _ = r.Poll(dst)
		idle = append(idle, time.Since(from))
	}
	for name, list := range map[string][]time.Duration{"ns-turn": busy, "ns-idle": idle} {
		slices.Sort(list)
		sum, half := time.Duration(0), list[len(list)/4:len(list)-len(list)/4]
		for _, d := range half {
			sum += d
		}
		b.ReportMetric(float64(sum)/float64(len(half)), name)
	}
}
