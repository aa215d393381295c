package steering_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
)

// targetOf is a ring without a queue, of which the benchmark wants the target alone.
type targetOf struct {
	nic.Events
	target steering.Target
}

func (t *targetOf) TargetAdded(at steering.Target) error {
	t.target = at
	return nil
}
func (*targetOf) TargetRemoved(steering.Target) {}

// openTarget opens the interface v0 of a veth as a poller of package xtreme does, with the steering program for TCP and the guard, and returns
// where flows are claimed there.
func openTarget(b *testing.B) steering.Target {
	testnet.New(b, testnet.Pair{})
	mirror, err := host.Open(host.Config{})
	require.NoError(b, err)
	l := buffers.Layout{SmallSize: 2048, SmallCount: 64, Headroom: 192}
	pool, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(b, err)
	table := nic.NewTable(nic.TableConfig{Host: mirror, Open: nic.XDP(xdp.Config{TCP: true, Flows: 1 << 16}), Connections: host.Connections})
	t := &targetOf{}
	a := nic.New(nic.Config{Table: table, Ring: 1, Pool: pool, Clock: clock.Now, Wake: func() {}, Events: t})
	require.NoError(b, a.Add(nic.Interface{Name: "v0", Queues: []int{}}))
	b.Cleanup(func() {
		require.NoError(b, a.Close())
		table.Close()
		require.NoError(b, mirror.Close())
	})
	return t.target
}

// BenchmarkSet is a turn in which as many sockets get their claims, one each, and one in which they lose them. "kept" is a turn that finds all
// claims as they are to be. The flows of TCP are connections, each with an entry of the guard.
func BenchmarkSet(b *testing.B) {
	at := openTarget(b)
	for name, protocol := range map[string]uint8{"UDP": link.UDP, "TCP": link.TCP} {
		for _, n := range []int{1000, 4096} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				t := steering.NewTable()
				t.AddTarget(at)
				held, want := make([]steering.HeldClaims, n), make([][]steering.Claim, n)
				for i := range want {
					f := link.Flow{Protocol: protocol, Local: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(20_000+i))}
					if protocol == link.TCP {
						f.Remote = netip.MustParseAddrPort("10.0.0.2:80")
					}
					want[i] = []steering.Claim{{At: at, Flow: f}}
				}
				turn := func(want func(i int) []steering.Claim) time.Duration {
					from := time.Now()
					for i := range held {
						if _, refused := t.Set(&held[i], want(i)); len(refused) > 0 {
							b.Fatal(refused)
						}
					}
					return time.Since(from)
				}
				made, kept, released := time.Duration(0), time.Duration(0), time.Duration(0)
				for b.Loop() {
					made += turn(func(i int) []steering.Claim { return want[i] })
					kept += turn(func(i int) []steering.Claim { return want[i] })
					released += turn(func(int) []steering.Claim { return nil })
				}
				for unit, d := range map[string]time.Duration{"made": made, "kept": kept, "released": released} {
					b.ReportMetric(float64(d.Nanoseconds())/float64(b.N)/float64(n), "ns/claim-"+unit)
				}
				b.ReportMetric(float64(made.Microseconds())/float64(b.N)/1000, "ms/turn-made")
			})
		}
	}
}
