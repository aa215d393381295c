package udp_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// fixed is a host whose tables stay, as several stacks mirror it.
type fixed struct{ snap *host.Snapshot }

func (f fixed) Generation() uint64       { return f.snap.Generation() }
func (f fixed) Snapshot() *host.Snapshot { return f.snap }
func (f fixed) Resolve(host.Target)      {}
func (f fixed) Use(host.Target)          {}

// stack is UDP on a stack of its own.
type stack struct {
	*udp.Protocol
	ip   *ip.Stack
	pool *buffers.DriverPool
}

// taken is what was delivered.
func (s *stack) taken() []udp.Delivery {
	list := append([]udp.Delivery(nil), s.Deliveries()...)
	s.ClearDeliveries()
	return list
}

// accept takes a datagram over from another stack.
func (s *stack) accept(x *udp.Delivery, payload []byte) []udp.Delivery {
	s.TakeHandoff(x, payload)
	return s.taken()
}

// next is the oldest of the datagrams that are kept for a socket.
func (s *stack) next(id udp.ID) (d udp.Delivery, ok bool) {
	if !s.NextBacklogged(id) {
		return d, false
	}
	return s.taken()[0], true
}

// several makes stacks on one directory, each with a pool of its own.
func several(t testing.TB, n int) (d *udp.Directory, all []*stack) {
	d = udp.NewDirectory([2]uint64{1, 2})
	for range n {
		l := buffers.Layout{SmallSize: 2048, SmallCount: 64, LargeSize: 65536, LargeCount: 2, Headroom: 192}
		pool, err := buffers.New(make([]byte, l.Bytes()), l)
		require.NoError(t, err)
		number, err := d.AddStack()
		require.NoError(t, err)
		below, err := ip.New(ip.Config{Pool: pool, Host: fixed{host.NewSnapshot(iptest.Facts(), 1)}, Random: rand.Uint64,
			Interfaces: []ip.Interface{{Index: iface, MAC: ourMAC, MTU: 1500}}})
		require.NoError(t, err)
		u, err := udp.New(below, udp.Config{Directory: d, Number: number})
		require.NoError(t, err)
		all = append(all, &stack{u, below, pool})
		t.Cleanup(func() {
			u.Close()
			below.Close()
			require.Equal(t, 66, pool.Ledger().Free, "%v", pool.Ledger())
		})
	}
	return d, all
}

func add(t testing.TB, s *stack, e udp.Endpoint) udp.ID {
	id, err := s.Add(e, udp.Options{ReceiveBuffer: 1 << 16})
	require.NoError(t, err)
	return id
}

// into receives a datagram for a port on a stack.
func into(t testing.TB, s *stack, to wire.Addr, port uint16, from wire.Addr, payload string) []udp.Delivery {
	link := wire.EthernetFields{Target: ourMAC, Source: peerMAC}
	if to.IsMulticast() {
		link.Target = wire.GroupMAC(to)
	}
	tmpl, err := wire.NewUDPTemplate(wire.UDPFlow{Link: link, TTL: 1, Source: from, Target: to, SourcePort: 9, TargetPort: port})
	require.NoError(t, err)
	i, ok := s.pool.Take(buffers.Small)
	require.True(t, ok)
	n := tmpl.Len() + len(payload)
	b := s.pool.Memory(i)[192 : 192+n]
	copy(b[tmpl.Len():], payload)
	tmpl.Put(b, 1)
	s.ip.Input(0, 0, []ip.Frame{{Packet: s.pool.Fill(i, 192, n, 0)}})
	return s.taken()
}

// One stack finds the sockets of all, as one stack with all of them would choose.
func TestDirectoryChooses(t *testing.T) {
	_, all := several(t, 2)
	a, b := all[0], all[1]
	add(t, a, udp.Endpoint{Owner: 1, LocalPort: 70})
	bound := add(t, b, udp.Endpoint{Owner: 2, Local: us, LocalPort: 70})
	add(t, a, udp.Endpoint{Owner: 3, Local: us, LocalPort: 70, Remote: peer, RemotePort: 9})
	for _, s := range all {
		got := into(t, s, us, 70, peer, "connected")
		require.Len(t, got, 1)
		require.Equal(t, uint64(3), got[0].Owner)
		require.Equal(t, s != a, got[0].To != 0)
		require.NoError(t, got[0].Packet.Release())
		got = into(t, s, us, 70, gateway, "bound")
		require.Len(t, got, 1)
		require.Equal(t, uint64(2), got[0].Owner)
		require.Equal(t, bound, got[0].ID)
		require.Equal(t, s != b, got[0].To != 0)
		require.Equal(t, "bound", string(got[0].Packet.Bytes()))
		require.NoError(t, got[0].Packet.Release())
	}
	b.Remove(0, bound)
	got := into(t, b, us, 70, gateway, "wildcard")
	require.Equal(t, uint64(1), got[0].Owner)
	require.NotZero(t, got[0].To)
	require.NoError(t, got[0].Packet.Release())
}

// A group has members on three stacks: one delivery for each other stack, own members first, one packet.
func TestDirectoryGroup(t *testing.T) {
	_, all := several(t, 3)
	var ids []udp.ID
	for i, s := range []*stack{all[0], all[1], all[1], all[2]} {
		id := add(t, s, udp.Endpoint{Owner: uint64(i + 1), LocalPort: 70})
		require.NoError(t, s.Join(0, id, grp, iface, none4))
		ids = append(ids, id)
	}
	got := into(t, all[1], grp, 70, peer, "tick")
	require.Len(t, got, 4)
	require.Equal(t, []int32{0, 0, all[0].Number(), all[2].Number()}, []int32{got[0].To, got[1].To, got[2].To, got[3].To})
	for _, x := range got {
		require.Equal(t, got[0].Packet, x.Packet)
		require.Equal(t, x.To != 0, x.Owner == 0)
		if x.To == 0 {
			continue
		}
		other := all[x.To-1]
		copies := other.accept(&x, x.Packet.Bytes())
		require.Len(t, copies, 1)
		require.Equal(t, "tick", string(copies[0].Packet.Bytes()))
		require.NoError(t, copies[0].Packet.Release())
	}
	require.NoError(t, all[0].Leave(0, ids[0], grp, iface, none4))
	require.NoError(t, all[0].Change(ids[0], udp.Endpoint{Owner: 1, LocalPort: 71}, udp.Options{ReceiveBuffer: 1 << 16}))
	require.Empty(t, all[0].accept(&got[2], []byte("late")))
	require.Equal(t, uint64(1), all[0].Stats().NoReceiver)
	for _, x := range got {
		require.NoError(t, x.Packet.Release())
	}
}

// Without a buffer a datagram is kept, in order, and a delivery without a packet says so; the socket reads on when there is one.
func TestAcceptWithoutBuffer(t *testing.T) {
	_, all := several(t, 2)
	s := all[0]
	id := add(t, s, udp.Endpoint{Owner: 1, LocalPort: 70})
	x := udp.Delivery{ID: id, Owner: 1, Flow: udp.Flow{Source: peer, Target: us, SourcePort: 9, TargetPort: 70, Interface: iface}}
	var held []buffers.Packet
	for c, n := range map[buffers.Class]int{buffers.Small: 64, buffers.Large: 2} {
		for range n {
			i, ok := s.pool.Take(c)
			require.True(t, ok)
			held = append(held, s.pool.Fill(i, 0, 1, 0))
		}
	}
	got := s.accept(&x, []byte("one"))
	require.Len(t, got, 1)
	require.True(t, got[0].Packet.IsZero())
	require.Empty(t, s.accept(&x, []byte("two")), "behind the first, which was reported")
	require.Equal(t, 2, s.Backlogged(id))
	_, ok := s.next(id)
	require.False(t, ok)
	for _, p := range held {
		require.NoError(t, p.Release())
	}
	for _, want := range []string{"one", "two"} {
		d, ok := s.next(id)
		require.True(t, ok)
		require.Equal(t, want, string(d.Packet.Bytes()))
		require.NoError(t, d.Packet.Release())
	}
}

// Of each class of buffers one socket gets half of what is free, however little of the memory that is: the others find the rest.
func TestAcceptLeavesHalf(t *testing.T) {
	_, all := several(t, 2)
	s := all[0]
	var ids [2]udp.ID
	for i := range ids {
		a, err := s.pool.OpenAccount(0)
		require.NoError(t, err)
		ids[i] = add(t, s, udp.Endpoint{Owner: uint64(i + 1), LocalPort: uint16(70 + i), Account: a})
	}
	accept := func(i int) (p buffers.Packet) {
		x := udp.Delivery{ID: ids[i], Owner: uint64(i + 1), Flow: udp.Flow{Source: peer, Target: us, SourcePort: 9,
			TargetPort: uint16(70 + i), Interface: iface}}
		for _, d := range s.accept(&x, []byte("x")) {
			p = d.Packet
		}
		return p
	}
	var greedy []buffers.Packet
	for range 100 {
		if p := accept(0); !p.IsZero() {
			greedy = append(greedy, p)
		}
	}
	// A holder may take one more as long as it has no more than is free: of 64 small ones 33, of 2 large ones 2.
	require.Len(t, greedy, 35)
	for range 10 {
		p := accept(1)
		require.False(t, p.IsZero(), "%v", s.pool.Ledger())
		require.NoError(t, p.Release())
	}
	for range 20 { // until half is free again, and there is one of the 65 that were kept
		require.NoError(t, greedy[0].Release())
		greedy = greedy[1:]
	}
	d, ok := s.next(ids[0])
	require.True(t, ok)
	require.NoError(t, d.Packet.Release())
	for _, p := range greedy {
		require.NoError(t, p.Release())
	}
}

func TestDirectoryIsFull(t *testing.T) {
	d := udp.NewDirectory([2]uint64{1, 2})
	for i := range udp.MaxStacks {
		n, err := d.AddStack()
		require.NoError(t, err)
		require.Equal(t, i+1, n)
	}
	_, err := d.AddStack()
	require.ErrorContains(t, err, "63 stacks")
	d.RemoveStack(5)
	n, err := d.AddStack()
	require.NoError(t, err)
	require.Equal(t, 5, n)
}
