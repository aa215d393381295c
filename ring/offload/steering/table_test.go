package steering

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// program is a steering program that counts what it is asked.
type program struct {
	claims   map[link.Flow]int
	inserted int
	refuse   map[link.Flow]error
	keeps    bool // it cannot release
}

func newProgram() *program {
	return &program{claims: map[link.Flow]int{}, refuse: map[link.Flow]error{}}
}

var errFull = errors.New("full")

func (p *program) Claim(f link.Flow) error {
	if err := p.refuse[f]; err != nil {
		return err
	}
	p.claims[f]++
	p.inserted++
	return nil
}

func (p *program) Release(f link.Flow) error {
	if p.keeps {
		return errFull
	}
	if p.claims[f]--; p.claims[f] == 0 {
		delete(p.claims, f)
	}
	return nil
}

// on is which interface each target has.
type on map[Target]int

func (o on) Serves(at Target, ifIndex int) bool { return o[at] == ifIndex }
func (o on) CanClaim(at Target) bool            { return o[at] != 0 }

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// A claim is inserted for its first socket and released with the last; a list replaces another one with the least of changes.
func TestTable(t *testing.T) {
	p := newProgram()
	at := Target{p, 5}
	table := NewTable()
	table.AddTarget(at)
	table.AddTarget(at)
	table.AddTarget(Target{})
	require.Equal(t, []Target{at}, table.Targets())
	flow := func(s string) Claim { return Claim{at, link.Flow{Protocol: link.UDP, VLAN: 5, Local: ap(s)}} }
	x, y, z := flow("10.0.0.1:1"), flow("10.0.0.1:2"), flow("10.0.0.1:3")
	var a, b HeldClaims
	added, refused := table.Set(&a, []Claim{x, y})
	require.True(t, added)
	require.Empty(t, refused)
	_, _ = table.Set(&b, []Claim{y})
	require.Equal(t, 2, p.inserted)
	added, refused = table.Set(&a, []Claim{y})
	require.False(t, added)
	require.Empty(t, refused)
	require.Equal(t, map[link.Flow]int{y.Flow: 1}, p.claims)
	p.refuse[z.Flow] = errFull
	added, refused = table.Set(&a, []Claim{z, x})
	require.True(t, added)
	require.Equal(t, []error{errFull}, refused)
	require.False(t, a.Has(z))
	require.True(t, a.Has(x))
	require.Equal(t, map[link.Flow]int{x.Flow: 1, y.Flow: 1}, p.claims)
	require.True(t, table.Remove(&b, y))
	require.False(t, table.Remove(&b, y))
	table.ReleaseAll(&a)
	require.Empty(t, p.claims)
	require.Zero(t, a.Len()+b.Len())
	require.Zero(t, table.Failures())

	// A target that comes, and goes.
	q := newProgram()
	other := Target{q, 0}
	table.AddTarget(other)
	there := Claim{other, link.Flow{Protocol: link.UDP, Local: ap("10.0.0.1:9")}}
	require.NoError(t, table.AddAt(&a, other, []Claim{x, there}))
	require.NoError(t, table.AddAt(&a, other, []Claim{x, there}))
	require.Equal(t, 1, q.inserted)
	require.Empty(t, p.claims, "of another target")
	q.keeps = true
	require.Error(t, table.ReleaseAt(&a, other))
	require.Equal(t, uint64(1), table.Failures())
	table.RemoveTarget(other)
	require.Equal(t, []Target{at}, table.Targets())
	q.refuse[there.Flow] = errFull
	require.ErrorIs(t, table.AddAt(&a, other, []Claim{there}), errFull)
}

// What sockets want, on two interfaces, the second one with a tag.
func TestWants(t *testing.T) {
	p, q := newProgram(), newProgram()
	plain, tagged := Target{p, 0}, Target{q, 5}
	table := NewTable()
	table.AddTarget(plain)
	table.AddTarget(tagged)
	both := on{plain: 2, tagged: 3}
	claim := func(at Target, local, remote string) Claim {
		f := link.Flow{Protocol: link.UDP, VLAN: at.VLAN, Local: ap(local)}
		if remote != "" {
			f.Remote = ap(remote)
		}
		return Claim{at, f}
	}
	group := netip.MustParseAddr("239.1.1.1")
	for _, test := range []struct {
		name  string
		wants SocketFlows
		on    on
		list  []Claim
	}{
		{"an address that no interface has", SocketFlows{Local: ap("0.0.0.0:7")}, both,
			[]Claim{claim(plain, "0.0.0.0:7", ""), claim(tagged, "0.0.0.0:7", "")}},
		{"connected, on one interface", SocketFlows{Local: ap("10.0.0.1:7"), Remote: ap("10.0.0.2:9"), IfIndex: 3}, both,
			[]Claim{claim(tagged, "10.0.0.1:7", "10.0.0.2:9")}},
		{"on another interface", SocketFlows{Local: ap("10.0.0.1:7"), IfIndex: 4}, both, nil},
		{"a shared port", SocketFlows{Local: ap("10.0.0.1:7"), LeaveToKernel: true}, both, nil},
		{"nothing may be claimed on one", SocketFlows{Local: ap("0.0.0.0:7")}, on{tagged: 3}, []Claim{claim(tagged, "0.0.0.0:7", "")}},
		{"groups, of which one is the kernel's", SocketFlows{Local: ap("0.0.0.0:7"), LeaveToKernel: true,
			Groups: []Group{{Addr: group, IfIndex: 2}, {Addr: group, IfIndex: 3, LeaveToKernel: true}}}, both, []Claim{claim(plain, "239.1.1.1:7", "")}},
		{"bound to a group, two sources", SocketFlows{Local: ap("239.1.1.1:7"), Groups: []Group{
			{Addr: group, IfIndex: 2, Source: netip.MustParseAddr("10.0.0.2")},
			{Addr: group, IfIndex: 2, Source: netip.MustParseAddr("10.0.0.3")},
			{Addr: netip.MustParseAddr("239.1.1.2"), IfIndex: 2}}}, both,
			[]Claim{claim(plain, "239.1.1.1:7", "10.0.0.2:0"), claim(plain, "239.1.1.1:7", "10.0.0.3:0")}},
		{"joined twice", SocketFlows{Local: ap("239.1.1.1:7"), Groups: []Group{{Addr: group, IfIndex: 2}, {Addr: group, IfIndex: 2}}}, both,
			[]Claim{claim(plain, "239.1.1.1:7", "")}},
		{"bound to an address, and a member", SocketFlows{Local: ap("10.0.0.1:7"), IfIndex: 2, Groups: []Group{{Addr: group, IfIndex: 2}}}, both,
			[]Claim{claim(plain, "10.0.0.1:7", "")}},
	} {
		test.wants.Protocol = link.UDP
		require.Equal(t, test.list, table.Claims(&test.wants, test.on), test.name)
		for i := range test.wants.Groups {
			for _, c := range table.GroupClaims(&test.wants, &test.wants.Groups[i], test.on) {
				require.Contains(t, test.list, c, test.name)
			}
		}
	}
}
