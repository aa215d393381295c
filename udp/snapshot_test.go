package udp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// A snapshot answers as the table did when it was made, whatever is done to the table afterwards.
func TestSnapshotsDoNotChange(t *testing.T) {
	table, r := NewTable([2]uint64{1, 2}), rand.New(rand.NewPCG(3, 4))
	var open []ID
	type answer struct {
		ids    []ID
		drop   wire.Drop
		joined bool
		one    ID
		why    wire.Drop
	}
	ask := func(t *Table) (list []answer) {
		for g := range byte(40) {
			f := Flow{Source: wire.Addr{10, 0, 0, g % 3}, Target: wire.Addr{239, 0, 0, g}, SourcePort: 9, TargetPort: 7000, Interface: 2}
			var a answer
			a.ids, a.drop = t.Multicast(&f, nil)
			a.joined = t.Joined(f.Target, 2)
			f.Target = wire.Addr{10, 0, 1, g}
			a.one, a.why = t.Unicast(&f)
			list = append(list, a)
		}
		return list
	}
	type kept struct {
		table *Table
		says  []answer
	}
	var snapshots []kept
	for range 2000 {
		group, source := wire.Addr{239, 0, 0, byte(r.UintN(40))}, wire.Addr{10, 0, 0, byte(r.UintN(3))}
		switch n := r.UintN(12); {
		case n == 0 || len(open) == 0:
			e := Endpoint{Owner: 1, LocalPort: 7000}
			if r.UintN(2) == 0 {
				e.Local = wire.Addr{10, 0, 1, byte(r.UintN(40))}
			}
			if r.UintN(4) == 0 && !e.Local.IsZero() {
				e.Remote, e.RemotePort = source, 9
			}
			id, err := table.Add(e)
			require.NoError(t, err)
			open = append(open, id)
		case n == 1 && len(open) > 3:
			i := r.IntN(len(open))
			table.Remove(open[i])
			open = append(open[:i], open[i+1:]...)
		case n < 6:
			_ = table.Join(open[r.IntN(len(open))], group, 2, wire.Addr{}) // may be a member already
		case n < 8:
			_ = table.Join(open[r.IntN(len(open))], group, 2, source)
		case n < 10:
			_ = table.Leave(open[r.IntN(len(open))], group, 2, wire.Addr{}) // may be none
		case n == 10:
			table.SetStopped(open[r.IntN(len(open))], r.UintN(2) == 0)
		default:
			s := table.Snapshot()
			says := ask(s)
			require.Equal(t, ask(table), says)
			snapshots = append(snapshots, kept{s, says})
		}
	}
	require.NotEmpty(t, snapshots)
	for _, s := range snapshots {
		require.Equal(t, s.says, ask(s.table))
	}
}
