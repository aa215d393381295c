package udp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

var (
	us, us2 = wire.Addr{10, 0, 0, 1}, wire.Addr{10, 0, 0, 2}
	x, y    = wire.Addr{10, 0, 0, 8}, wire.Addr{10, 0, 0, 9}
	any4    = wire.Addr{}
	grp     = wire.Addr{239, 1, 1, 1}
	grp2    = wire.Addr{239, 1, 1, 2}
)

func newTable() *Table { return NewTable([2]uint64{1, 2}) }

func add(t *testing.T, table *Table, e Endpoint) ID {
	t.Helper()
	id, err := table.Add(e)
	require.NoError(t, err)
	return id
}

func TestPrecedence(t *testing.T) {
	type sock struct {
		local  wire.Addr
		remote wire.Addr
		rport  uint16
		device uint32
		share  bool
	}
	connected := sock{us, x, 9, 0, false}
	bound, wildcard := sock{local: us}, sock{}
	boundDev, wildDev := sock{local: us, device: 3}, sock{device: 3}
	from := Flow{Source: x, SourcePort: 9, Target: us, TargetPort: 53, Interface: 3}
	other := Flow{Source: y, SourcePort: 9, Target: us, TargetPort: 53, Interface: 3}
	elsewhere := Flow{Source: x, SourcePort: 9, Target: us2, TargetPort: 53, Interface: 4}
	for _, c := range []struct {
		name    string
		sockets []sock
		flow    Flow
		want    int // place in sockets; -1: nobody
		drop    wire.Drop
	}{
		{"connected before bound", []sock{connected, bound, wildcard}, from, 0, 0},
		{"order of making does not matter", []sock{wildcard, bound, connected}, from, 2, 0},
		{"bound before wildcard", []sock{wildcard, bound}, from, 1, 0},
		{"another peer: bound", []sock{connected, bound, wildcard}, other, 1, 0},
		{"another peer and nobody else", []sock{connected}, other, -1, wire.UDPForeignPeer},
		{"another address: wildcard", []sock{connected, bound, wildcard}, elsewhere, 2, 0},
		{"nobody", nil, from, -1, wire.UDPNoSocket},
		{"the newest of equals", []sock{bound, bound, bound}, from, 2, 0},
		{"tied to the interface before tied to none", []sock{boundDev, bound}, from, 0, 0},
		{"bound to the address before tied wildcard", []sock{wildDev, bound}, from, 1, 0},
		{"tied to another interface", []sock{boundDev, wildcard}, Flow{Source: x, SourcePort: 9, Target: us, TargetPort: 53, Interface: 4}, 1, 0},
		{"only one tied to another interface", []sock{wildDev}, elsewhere, -1, wire.UDPNoSocket},
		{"another port", []sock{bound}, Flow{Source: x, SourcePort: 9, Target: us, TargetPort: 54}, -1, wire.UDPNoSocket},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			var ids []ID
			for i, s := range c.sockets {
				ids = append(ids, add(t, table, Endpoint{Owner: uint64(i), Local: s.local, LocalPort: 53, Remote: s.remote, RemotePort: s.rport,
					Interface: s.device, ReusePort: s.share}))
			}
			id, drop := table.Unicast(&c.flow)
			require.Equal(t, c.drop.String(), drop.String())
			if c.want >= 0 {
				require.Equal(t, ids[c.want], id)
				require.Equal(t, uint64(c.want), table.Owner(id))
			}
			for _, id := range ids {
				table.Remove(id)
			}
			_, drop = table.Unicast(&c.flow)
			require.Equal(t, wire.UDPNoSocket, drop)
			require.Zero(t, table.Len())
			require.Zero(t, table.flows.n+table.connectedPorts.n)
		})
	}
}

// Every flow stays with one socket of the group, all sockets get some, and one that leaves takes only its own flows along.
func TestReusePortShares(t *testing.T) {
	table := newTable()
	var ids []ID
	for i := range 4 {
		ids = append(ids, add(t, table, Endpoint{Owner: uint64(i), Local: us, LocalPort: 53, ReusePort: true}))
	}
	count := map[ID]int{}
	const flows = 4000
	for i := range flows {
		f := Flow{Source: x, SourcePort: uint16(i), Target: us, TargetPort: 53}
		id, drop := table.Unicast(&f)
		require.Equal(t, wire.Accept, drop)
		again, _ := table.Unicast(&f)
		require.Equal(t, id, again)
		count[id]++
	}
	for _, id := range ids {
		require.InDelta(t, flows/4, count[id], flows/16, "%v", count)
	}
	for _, id := range ids[1:] {
		table.Remove(id)
	}
	id, _ := table.Unicast(&Flow{Source: x, SourcePort: 1, Target: us, TargetPort: 53})
	require.Equal(t, ids[0], id)
}

func TestConnectChangesWhoGetsIt(t *testing.T) {
	table := newTable()
	id := add(t, table, Endpoint{LocalPort: 53})
	f := Flow{Source: x, SourcePort: 9, Target: us, TargetPort: 53}
	got, drop := table.Unicast(&f)
	require.Equal(t, wire.Accept, drop)
	require.Equal(t, id, got)
	require.NoError(t, table.Change(id, Endpoint{Local: us, LocalPort: 53, Remote: y, RemotePort: 9}))
	_, drop = table.Unicast(&f)
	require.Equal(t, wire.UDPForeignPeer, drop)
	require.NoError(t, table.Change(id, Endpoint{Local: us, LocalPort: 53, Remote: x, RemotePort: 9}))
	got, drop = table.Unicast(&f)
	require.Equal(t, wire.Accept, drop)
	require.Equal(t, id, got)
	for _, e := range []Endpoint{{}, {LocalPort: 1, Remote: x}, {LocalPort: 1, RemotePort: 3}, {LocalPort: 1, Remote: x, RemotePort: 3}} {
		require.ErrorIs(t, table.Change(id, e), ErrEndpoint)
		_, err := table.Add(e)
		require.ErrorIs(t, err, ErrEndpoint)
	}
}

func TestMulticastFilters(t *testing.T) {
	const in = 3
	flow := func(g, from wire.Addr, iface uint32) *Flow {
		return &Flow{Source: from, SourcePort: 9, Target: g, TargetPort: 53, Interface: iface}
	}
	for _, c := range []struct {
		name   string
		e      Endpoint
		setup  func(*testing.T, *Table, ID)
		flow   *Flow
		passes bool
	}{
		{"member of all", Endpoint{Local: grp}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, any4)) }, flow(grp, x, in), true},
		{"on the wildcard", Endpoint{}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, any4)) }, flow(grp, x, in), true},
		{"on another interface", Endpoint{}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, 4, any4)) }, flow(grp, x, in), false},
		{"another group", Endpoint{}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp2, in, any4)) }, flow(grp, x, in), false},
		{"bound to another group", Endpoint{Local: grp2}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, any4)) }, flow(grp, x, in), false},
		{"bound to an address of ours", Endpoint{Local: us}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, any4)) }, flow(grp, x, in), false},
		{"no member, all allowed", Endpoint{MulticastAll: true}, func(*testing.T, *Table, ID) {}, flow(grp, x, in), true},
		{"no member", Endpoint{}, func(*testing.T, *Table, ID) {}, flow(grp, x, in), false},
		{"wanted source", Endpoint{}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, x)) }, flow(grp, x, in), true},
		{"unwanted source", Endpoint{MulticastAll: true}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, x)) }, flow(grp, y, in), false},
		{"second source", Endpoint{}, func(t *testing.T, a *Table, id ID) {
			require.NoError(t, a.Join(id, grp, in, x))
			require.NoError(t, a.Join(id, grp, in, y))
		}, flow(grp, y, in), true},
		{"one of two sources left", Endpoint{}, func(t *testing.T, a *Table, id ID) {
			require.NoError(t, a.Join(id, grp, in, x))
			require.NoError(t, a.Join(id, grp, in, y))
			require.NoError(t, a.Leave(id, grp, in, y))
		}, flow(grp, y, in), false},
		{"the last source left", Endpoint{}, func(t *testing.T, a *Table, id ID) {
			require.NoError(t, a.Join(id, grp, in, x))
			require.NoError(t, a.Leave(id, grp, in, x))
			require.False(t, a.Joined(grp, in))
		}, flow(grp, x, in), false},
		{"blocked", Endpoint{}, func(t *testing.T, a *Table, id ID) {
			require.NoError(t, a.Join(id, grp, in, any4))
			require.NoError(t, a.Block(id, grp, in, x))
		}, flow(grp, x, in), false},
		{"another one blocked", Endpoint{}, func(t *testing.T, a *Table, id ID) {
			require.NoError(t, a.Join(id, grp, in, any4))
			require.NoError(t, a.Block(id, grp, in, y))
		}, flow(grp, x, in), true},
		{"no longer blocked", Endpoint{}, func(t *testing.T, a *Table, id ID) {
			require.NoError(t, a.Join(id, grp, in, any4))
			require.NoError(t, a.Block(id, grp, in, x))
			require.NoError(t, a.Unblock(id, grp, in, x))
		}, flow(grp, x, in), true},
		{"tied to another interface", Endpoint{Interface: 4}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, any4)) }, flow(grp, x, in), false},
		{"connected to the source", Endpoint{Local: grp, Remote: x, RemotePort: 9}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, any4)) }, flow(grp, x, in), true},
		{"connected to another", Endpoint{Local: grp, Remote: y, RemotePort: 9}, func(t *testing.T, a *Table, id ID) { require.NoError(t, a.Join(id, grp, in, any4)) }, flow(grp, x, in), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			c.e.LocalPort = 53
			id := add(t, table, c.e)
			c.setup(t, table, id)
			ids, drop := table.Multicast(c.flow, nil)
			if c.passes {
				require.Equal(t, []ID{id}, ids)
				require.Equal(t, wire.Accept, drop)
			} else {
				require.Empty(t, ids)
				require.NotEqual(t, wire.Accept, drop)
			}
			table.Remove(id)
			left := table.flows.n
			for i := range table.members.list {
				left += table.members.list[i].n
			}
			require.Zero(t, left)
		})
	}
}

func TestEveryMemberGetsIt(t *testing.T) {
	table := newTable()
	var want []ID
	for i := range 5 {
		local := grp
		if i%2 == 1 {
			local = any4
		}
		id := add(t, table, Endpoint{Local: local, LocalPort: 53})
		require.NoError(t, table.Join(id, grp, 3, any4))
		want = append(want, id)
	}
	add(t, table, Endpoint{Local: grp, LocalPort: 53}) // bound, not joined
	f := &Flow{Source: x, SourcePort: 9, Target: grp, TargetPort: 53, Interface: 3}
	ids, drop := table.Multicast(f, nil)
	require.Equal(t, wire.Accept, drop)
	slices.Sort(ids)
	require.Equal(t, want, ids)
	require.NoError(t, table.Leave(want[0], grp, 3, any4))
	ids, _ = table.Multicast(f, nil)
	require.Len(t, ids, 4)

	all := wire.Addr{255, 255, 255, 255}
	ids, drop = table.Broadcast(&Flow{Source: x, SourcePort: 9, Target: all, TargetPort: 53, Interface: 3}, nil)
	require.Equal(t, wire.Accept, drop)
	require.Len(t, ids, 2, "those on the wildcard")
}

func TestMembershipErrors(t *testing.T) {
	table := newTable()
	id := add(t, table, Endpoint{LocalPort: 53})
	require.ErrorIs(t, table.Join(id, us, 3, any4), ErrEndpoint)
	require.ErrorIs(t, table.Leave(id, grp, 3, any4), ErrNotMember)
	require.ErrorIs(t, table.Block(id, grp, 3, x), ErrNotMember)
	require.NoError(t, table.Join(id, grp, 3, any4))
	require.ErrorIs(t, table.Join(id, grp, 3, any4), ErrMember)
	require.ErrorIs(t, table.Join(id, grp, 3, x), ErrMember, "all and some do not mix")
	require.ErrorIs(t, table.Unblock(id, grp, 3, x), ErrNotMember)
	require.ErrorIs(t, table.Leave(id, grp, 3, x), ErrNotMember)
	require.NoError(t, table.Join(id, grp2, 3, x))
	require.ErrorIs(t, table.Join(id, grp2, 3, x), ErrMember)
	require.ErrorIs(t, table.Block(id, grp2, 3, y), ErrMember)
	require.NoError(t, table.Join(id, grp2, 3, y))
	require.NoError(t, table.Block(id, grp, 3, y))
	require.Equal(t, []Membership{{grp, 3, any4}, {grp2, 3, x}, {grp2, 3, y}}, slices.Collect(table.Memberships(id)))
	require.NoError(t, table.Leave(id, grp2, 3, x))
	for m := range table.Memberships(id) { // a loop may end early
		require.Equal(t, Membership{grp, 3, any4}, m)
		break
	}
	require.NoError(t, table.Leave(id, grp, 3, any4))
	require.Equal(t, []Membership{{grp2, 3, y}}, slices.Collect(table.Memberships(id)))
}

// What the members want together, RFC 9776 section 3.2.
func TestFilterOfAll(t *testing.T) {
	table := newTable()
	filter := func(exclude bool, sources ...wire.Addr) {
		t.Helper()
		e, s := table.Filter(grp, 3)
		require.Equal(t, exclude, e)
		require.ElementsMatch(t, sources, s)
	}
	a, b, c := add(t, table, Endpoint{LocalPort: 1}), add(t, table, Endpoint{LocalPort: 2}), add(t, table, Endpoint{LocalPort: 3})
	filter(false)
	require.NoError(t, table.Join(a, grp, 3, x))
	filter(false, x)
	require.NoError(t, table.Join(b, grp, 3, y))
	filter(false, x, y)
	require.NoError(t, table.Join(c, grp, 3, any4))
	filter(true)
	require.NoError(t, table.Block(c, grp, 3, x))
	filter(true) // a wants what c does not
	require.NoError(t, table.Block(c, grp, 3, us))
	filter(true, us)
	require.NoError(t, table.Leave(c, grp, 3, any4))
	filter(false, x, y)
	require.Equal(t, []wire.Addr{grp}, table.Groups(3, nil))
	table.Remove(a)
	table.Remove(b)
	filter(false)
	require.Empty(t, table.Groups(3, nil))
}

func TestConflict(t *testing.T) {
	base := Binding{Local: us, Port: 53}
	with := func(f func(*Binding)) Binding { b := base; f(&b); return b }
	reuse := func(b *Binding) { b.ReuseAddr = true }
	share := func(b *Binding) { b.ReusePort = true }
	for i, c := range []struct {
		a, b Binding
		want bool
	}{
		{base, base, true},
		{base, with(func(b *Binding) { b.Port = 54 }), false},
		{base, with(func(b *Binding) { b.Local = us2 }), false},
		{base, with(func(b *Binding) { b.Local = any4 }), true},
		{with(func(b *Binding) { b.Interface = 1 }), with(func(b *Binding) { b.Interface = 2 }), false},
		{with(func(b *Binding) { b.Interface = 1 }), base, true},
		{with(reuse), with(reuse), false},
		{with(reuse), base, true},
		{with(share), with(share), false},
		{with(share), with(reuse), true},
	} {
		require.Equal(t, c.want, Conflict(c.a, c.b), "case %d", i)
		require.Equal(t, c.want, Conflict(c.b, c.a), "case %d turned", i)
	}
}

// The table against a model that walks a list.
func TestTableAgainstAModel(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		table, model := NewTable([2]uint64{r.Uint64(), r.Uint64()}), map[ID]Endpoint{}
		var order []ID // oldest first
		addr := func() wire.Addr { return wire.Addr{10, 0, 0, byte(r.IntN(3) + 1)} }
		for step := range 600 {
			switch {
			case r.IntN(3) > 0 || len(order) == 0:
				e := Endpoint{LocalPort: uint16(1 + r.IntN(3)), Interface: uint32(r.IntN(3))}
				if r.IntN(2) == 0 {
					e.Local = addr()
					if r.IntN(2) == 0 {
						e.Remote, e.RemotePort = addr(), uint16(1+r.IntN(2))
					}
				}
				id := add(t, table, e)
				model[id], order = e, append(order, id)
			default:
				i := r.IntN(len(order))
				table.Remove(order[i])
				delete(model, order[i])
				order = slices.Delete(order, i, i+1)
			}
			f := Flow{Source: addr(), Target: addr(), SourcePort: uint16(1 + r.IntN(2)), TargetPort: uint16(1 + r.IntN(3)), Interface: uint32(r.IntN(3))}
			best, score := ID(-1), 0
			for _, id := range order {
				e := model[id]
				if e.LocalPort != f.TargetPort || e.Interface != 0 && e.Interface != f.Interface || !e.Local.IsZero() && e.Local != f.Target ||
					!e.Remote.IsZero() && (e.Remote != f.Source || e.RemotePort != f.SourcePort) {
					continue
				}
				s := 1
				if !e.Local.IsZero() {
					s += 4
				}
				if !e.Remote.IsZero() {
					s += 8
				}
				if e.Interface != 0 {
					s += 2
				}
				if s >= score {
					best, score = id, s
				}
			}
			got, drop := table.Unicast(&f)
			require.Equal(t, best >= 0, drop == wire.Accept, "seed %d step %d", seed, step)
			if best >= 0 {
				require.Equal(t, best, got, "seed %d step %d: %+v", seed, step, f)
			}
		}
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	table := newTable()
	id := add(t, table, Endpoint{LocalPort: 53, ReusePort: true})
	add(t, table, Endpoint{LocalPort: 53, ReusePort: true})
	require.NoError(t, table.Join(id, grp, 3, any4))
	dst := make([]ID, 0, 8)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		f := Flow{Source: x, SourcePort: 9, Target: us, TargetPort: 53, Interface: 3}
		_, _ = table.Unicast(&f)
		f.Target = grp
		dst, _ = table.Multicast(&f, dst[:0])
	}))
}

// BenchmarkUnicast looks flows up in bursts of 32, each to a random one of many connected sockets.
func BenchmarkUnicast(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := NewTable([2]uint64{rand.Uint64(), rand.Uint64()})
			for i := range n {
				remote := wire.Addr{10, byte(i >> 16), byte(i >> 8), byte(i)}
				if _, err := table.Add(Endpoint{Local: us, LocalPort: 53, Remote: remote, RemotePort: 9}); err != nil {
					b.Fatal(err)
				}
			}
			var flows [4096]Flow
			for i := range flows {
				k := rand.IntN(n)
				flows[i] = Flow{Source: wire.Addr{10, byte(k >> 16), byte(k >> 8), byte(k)}, SourcePort: 9, Target: us, TargetPort: 53}
			}
			var ids [32]ID
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += len(ids) {
				for j := range ids {
					ids[j], _ = table.Unicast(&flows[(i+j)%len(flows)])
				}
			}
		})
	}
}
