package offload_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
)

// poll polls a host once and returns what came; the packets are the caller's.
func (e *ends) poll(i int) []ring.Completion {
	n, err := e.sets[i].Rings()[0].Poll(e.dst)
	require.NoError(e.t, err)
	return e.dst[:n]
}

// next polls both hosts until the socket of host i has a completion.
func (e *ends) next(i int, s *ring.Socket) ring.Completion {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		for j, c := range e.kept[i] {
			if c.Socket == s {
				e.kept[i] = append(e.kept[i][:j:j], e.kept[i][j+1:]...)
				return c
			}
		}
		for j := range 2 {
			e.kept[j] = append(e.kept[j], e.poll(j)...)
		}
	}
	require.FailNow(e.t, "nothing came")
	return ring.Completion{}
}

func counter(r *ring.Ring, name string) uint64 {
	for _, c := range r.Stats().Driver {
		if c.Name == name {
			return c.Value
		}
	}
	panic("no counter " + name)
}

// strangers makes two hosts that do not know each other's address yet.
func strangers(t testing.TB) *ends {
	e := newEnds(t, memory.Config{})
	for i := range 2 {
		f := facts(i, 1500)
		f.Neighbours = nil
		e.spaces[i].SetFacts(f)
	}
	return e
}

func TestFirstSendFindsTheNeighbour(t *testing.T) {
	e := strangers(t)
	a, b := e.udp(0, ring.Config{}), e.udp(1, ring.Config{})
	require.NoError(t, a.Prepare(b.LocalAddr()))
	e.poll(0)
	e.poll(1)
	e.poll(0) // question and answer
	n, err := a.SendTo([]byte("prepared"), b.LocalAddr())
	require.NoError(t, err)
	require.Equal(t, 8, n)
	require.NoError(t, a.Ring().Flush())
	got := e.poll(1)
	require.Len(t, got, 1)
	require.Equal(t, "prepared", string(got[0].Packet.Bytes()))
	require.Equal(t, a.LocalAddr(), got[0].Source)
	require.Equal(t, b.LocalAddr(), got[0].Destination)
	require.Equal(t, uint32(linkIndex), got[0].IfIndex)
	require.False(t, got[0].ViaKernel)
	require.NoError(t, got[0].Packet.Release())
	require.Zero(t, counter(a.Ring(), "stack.waited_for_neighbour"))

	// Without it the first ones wait, and nothing is lost.
	e = strangers(t)
	a, b = e.udp(0, ring.Config{}), e.udp(1, ring.Config{})
	for i := range 20 {
		_, err := a.SendTo(fmt.Append(nil, i), b.LocalAddr())
		require.NoError(t, err)
	}
	got = nil
	for range 10 {
		e.poll(0)
		for _, c := range e.poll(1) {
			require.Same(t, b, c.Socket)
			require.Equal(t, fmt.Sprint(len(got)), string(c.Packet.Bytes()))
			require.NoError(t, c.Packet.Release())
			got = append(got, c)
		}
	}
	require.Len(t, got, 20)
	require.Equal(t, uint64(20), counter(a.Ring(), "stack.waited_for_neighbour"))
}

// A packet given to SendPacket leaves from its own memory; SENT comes with its token when the buffer is back in the pool.
func TestSendPacket(t *testing.T) {
	e := newEnds(t, memory.Config{})
	a, b := e.connect(ring.Config{})
	for i := range 300 {
		p, err := e.pools[0].Alloc(100)
		require.NoError(t, err)
		require.NoError(t, a.SendPacket(p, netip.AddrPort{}, uint64(i)))
		require.False(t, p.Valid())
		c := e.next(0, a)
		require.Equal(t, ring.EventSent, c.Events)
		require.Equal(t, uint64(i), c.Token)
		require.NoError(t, c.Err)
		c = e.next(1, b)
		require.Equal(t, 100, c.Packet.Len())
		require.NoError(t, c.Packet.Release())
	}
	require.Equal(t, uint64(30000), a.Ring().Stats().SentBytes)
	// A chain is copied into one buffer.
	var chain buffers.Packet
	for _, piece := range []string{"one ", "two ", "three"} {
		p, err := e.pools[0].Alloc(len(piece))
		require.NoError(t, err)
		copy(p.Room(), piece)
		chain = e.pools[0].Append(chain, p)
	}
	require.NoError(t, a.SendPacket(chain, netip.AddrPort{}, 9))
	require.Equal(t, uint64(9), e.next(0, a).Token)
	c := e.next(1, b)
	require.Equal(t, "one two three", string(c.Packet.Bytes()))
	require.NoError(t, c.Packet.Release())
	// What was received is sent on as it is.
	_, err := b.Send([]byte("to and fro"))
	require.NoError(t, err)
	c = e.next(0, a)
	require.NoError(t, a.SendPacket(c.Packet, netip.AddrPort{}, 10))
	require.Equal(t, uint64(10), e.next(0, a).Token)
	c = e.next(1, b)
	require.Equal(t, "to and fro", string(c.Packet.Bytes()))
	require.NoError(t, c.Packet.Release())
}

func TestSendErrors(t *testing.T) {
	e := newEnds(t, memory.Config{})
	s := e.udp(0, ring.Config{})
	to := func(a string) netip.AddrPort { return netip.MustParseAddrPort(a) }
	for _, c := range []struct {
		to   netip.AddrPort
		n    int
		want error
	}{
		{to("10.9.0.2:9"), 1473, unix.EMSGSIZE},
		{to("192.0.2.1:9"), 1, unix.ENETUNREACH},
		{to("10.9.0.255:9"), 1, unix.EACCES},
		{to("255.255.255.255:9"), 1, unix.EACCES},
		{to("10.9.0.2:0"), 1, unix.EINVAL},
	} {
		_, err := s.SendTo(make([]byte, c.n), c.to)
		require.ErrorIs(t, err, c.want, "%v", c.to)
		if c.to.Port() == 0 || c.n > 1472 {
			continue
		}
		require.ErrorIs(t, s.Prepare(c.to), c.want)
		p, err := e.pools[0].Alloc(c.n)
		require.NoError(t, err)
		require.NoError(t, s.SendPacket(p, c.to, 5))
		sent := e.next(0, s)
		require.Equal(t, ring.EventSent, sent.Events)
		require.ErrorIs(t, sent.Err, c.want)
	}
	_, err := s.Send([]byte("x"))
	require.ErrorIs(t, err, unix.EDESTADDRREQ)
	n, err := s.SendTo(make([]byte, 1472), to("10.9.0.2:9"))
	require.NoError(t, err)
	require.Equal(t, 1472, n)
}

// A full queue refuses, and OUT follows when it has emptied; an empty pool likewise.
func TestBackPressure(t *testing.T) {
	e := newEnds(t, memory.Config{})
	a, b := e.connect(ring.Config{SendQueue: 10})
	e.poll(0)
	for range 10 {
		_, err := a.Send([]byte("x"))
		require.NoError(t, err)
	}
	_, err := a.Send([]byte("x"))
	require.ErrorIs(t, err, ring.ErrWouldBlock)
	require.Equal(t, ring.EventOut, e.next(0, a).Events)
	_, err = a.Send([]byte("x"))
	require.NoError(t, err)
	for range 11 {
		c := e.next(1, b)
		require.NoError(t, c.Packet.Release())
	}

	var all []buffers.Packet
	for {
		p, err := e.pools[0].Alloc(1)
		if err != nil {
			break
		}
		all = append(all, p)
	}
	_, err = a.Send([]byte("x"))
	require.ErrorIs(t, err, ring.ErrWouldBlock)
	require.Empty(t, e.poll(0))
	for _, p := range all {
		require.NoError(t, p.Release())
	}
	require.Equal(t, ring.EventOut, e.next(0, a).Events)
}

// Closing waits until what was sent has left; packets that wait for a neighbour do not hold it up.
func TestCloseSendsWhatIsQueued(t *testing.T) {
	e := newEnds(t, memory.Config{})
	a, b := e.connect(ring.Config{})
	for range 5 {
		_, err := a.Send([]byte("last words"))
		require.NoError(t, err)
	}
	p, err := e.pools[0].Alloc(1)
	require.NoError(t, err)
	require.NoError(t, a.SendPacket(p, netip.AddrPort{}, 3))
	require.NoError(t, a.Close())
	require.Equal(t, uint64(3), e.next(0, a).Token)
	require.Equal(t, ring.EventClosed, e.next(0, a).Events)
	for range 6 {
		c := e.next(1, b)
		require.NoError(t, c.Packet.Release())
	}

	a, _ = e.connect(ring.Config{})
	_, err = a.Send([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, a.Abort())
	require.Equal(t, ring.EventClosed, e.next(0, a).Events)
	require.Empty(t, e.poll(1), "what was aborted was not sent")
}

func TestClosedPortAtTheOtherEnd(t *testing.T) {
	e := newEnds(t, memory.Config{})
	s := e.udp(0, ring.Config{})
	require.NoError(t, s.Connect(netip.AddrPortFrom(subnets[1][0].Addr(), 9)))
	_, err := s.Send([]byte("anybody?"))
	require.NoError(t, err)
	c := e.next(0, s)
	require.Equal(t, ring.EventErr, c.Events)
	require.ErrorIs(t, c.Err, unix.ECONNREFUSED)
	require.Equal(t, uint64(1), counter(e.sets[1].Rings()[0], "udp.no_socket"))
}

// Two members on two hosts and a sender that receives what it sends: each once, one buffer for all members of a ring.
func TestMulticastBetweenHosts(t *testing.T) {
	e := newEnds(t, memory.Config{})
	g := netip.MustParseAddrPort("233.252.0.7:7007")
	member := func(i int) *ring.Socket {
		s, err := e.sets[i].NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		require.NoError(t, s.SetReuseAddr(true))
		require.NoError(t, s.SetMulticastAll(false))
		require.NoError(t, s.Bind(g))
		require.NoError(t, s.JoinGroup(g.Addr(), "mem0", netip.Addr{}))
		return s
	}
	local, remote, remote2 := member(0), member(1), member(1)
	from := e.udp(0, ring.Config{})
	_, err := from.SendTo([]byte("to all"), g)
	require.NoError(t, err)
	c := e.next(0, local)
	require.Equal(t, "to all", string(c.Packet.Bytes()))
	require.Equal(t, g, c.Destination)
	require.NoError(t, c.Packet.Release())
	got := append(e.kept[1], e.poll(1)...)
	e.kept[1] = nil
	require.Len(t, got, 2)
	require.Equal(t, got[0].Packet, got[1].Packet)
	require.ElementsMatch(t, []*ring.Socket{remote, remote2}, []*ring.Socket{got[0].Socket, got[1].Socket})
	require.Equal(t, 1, e.pools[1].Ledger().Held)
	require.NoError(t, got[0].Packet.Release())
	require.Equal(t, "to all", string(got[1].Packet.Bytes()))
	require.NoError(t, got[1].Packet.Release())

	require.NoError(t, from.SetMulticastLoop(false))
	_, err = from.SendTo([]byte("not to us"), g)
	require.NoError(t, err)
	require.Empty(t, e.poll(0))
	got = e.poll(1)
	require.Len(t, got, 2)
	for i := range got {
		require.NoError(t, got[i].Packet.Release())
	}
	require.NoError(t, remote.LeaveGroup(g.Addr(), "mem0", netip.Addr{}))
	_, err = from.SendTo([]byte("to one"), g)
	require.NoError(t, err)
	require.NoError(t, from.Ring().Flush())
	got = e.poll(1)
	require.Len(t, got, 1)
	require.Same(t, remote2, got[0].Socket)
	require.NoError(t, got[0].Packet.Release())
}

// A wildcard socket over two links receives from both, and answers by the one that the route says.
func TestTwoLinks(t *testing.T) {
	pools := [3]*buffers.DriverPool{newPool(t, layout), newPool(t, layout), newPool(t, layout)}
	ours := map[string]link.Staged{}
	var sets [3]*ring.Set
	var table host.Facts
	for i := range 2 {
		end, other, err := memory.Pair(pools[0], pools[1+i], memory.Config{Addrs: macs, Names: [2]string{fmt.Sprint("mem", i), "peer"}})
		require.NoError(t, err)
		ours[fmt.Sprint("mem", i)] = end
		mine, peers := netip.MustParsePrefix(fmt.Sprintf("10.%d.0.1/24", i)), netip.MustParsePrefix(fmt.Sprintf("10.%d.0.2/24", i))
		flags := uint32(unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_MULTICAST)
		f := offload.Facts(host.Link{Index: 10 + i, Name: fmt.Sprint("mem", i), Type: unix.ARPHRD_ETHER, MTU: 1500, Flags: flags}, mine)
		table.Links, table.Addresses, table.Routes = append(table.Links, f.Links...), append(table.Addresses, f.Addresses...), append(table.Routes, f.Routes...)
		f = offload.Facts(host.Link{Index: linkIndex, Name: "mem0", Type: unix.ARPHRD_ETHER, MTU: 1500, Flags: flags}, peers)
		sets[1+i] = newSet(t, pools[1+i], f, map[string]link.Staged{"mem0": other})
	}
	sets[0] = newSet(t, pools[0], table, ours)
	server, err := sets[0].NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, server.Bind(netip.MustParseAddrPort("0.0.0.0:7000")))
	dst := make([]ring.Completion, 16)
	for i := range 2 {
		to := netip.MustParseAddrPort(fmt.Sprintf("10.%d.0.1:7000", i))
		client, err := sets[1+i].NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		require.NoError(t, client.Connect(to))
		_, err = client.Send([]byte("ping"))
		require.NoError(t, err)
		answered := false
		for end := time.Now().Add(patience); !answered && time.Now().Before(end); {
			for _, set := range sets {
				n, err := set.Rings()[0].Poll(dst)
				require.NoError(t, err)
				for _, c := range dst[:n] {
					if c.Socket == server {
						require.Equal(t, to, c.Destination)
						require.Equal(t, uint32(10+i), c.IfIndex)
						_, err := server.SendTo([]byte("pong"), c.Source)
						require.NoError(t, err)
					} else {
						require.Same(t, client, c.Socket)
						require.Equal(t, to, c.Source)
						answered = true
					}
					require.NoError(t, c.Packet.Release())
				}
			}
		}
		require.True(t, answered)
	}
}

func newSet(t *testing.T, pool *buffers.DriverPool, f host.Facts, links map[string]link.Staged) *ring.Set {
	ns, err := offload.NewMemoryHost(f, func() uint64 { return 4 })
	require.NoError(t, err)
	set, err := ring.NewSet(ring.SetConfig{Pool: pool, Kind: "offload", Transport: ns, OneRing: offload.OneRing,
		Driver: offload.New(overLinks(t, ns, links))})
	require.NoError(t, err)
	_, err = set.NewRing()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return set
}

// Rings by allocation logic are one ring here, which the path of who asked for another says.
func TestOneRing(t *testing.T) {
	e := newEnds(t, memory.Config{})
	logic := ring.PerSocket
	a, b := e.udp(0, ring.Config{}), e.udp(0, ring.Config{Alloc: &logic})
	require.Same(t, a.Ring(), b.Ring())
	require.NotContains(t, a.Path().Explain(), "ring.no_steering")
	require.Contains(t, b.Path().Explain(), "ring.no_steering")
	require.Equal(t, "bypass", a.Path().Tier)
	require.Contains(t, a.Path().Explain(), "memory mem0")
	_, err := offload.New(offload.Config{})(ring.DriverConfig{Pool: e.pools[0]})
	require.Error(t, err)
}

// The links of a ring may go: a host without a kernel has no other way then, and its sockets say so.
func TestLinkGoes(t *testing.T) {
	e := newEnds(t, memory.Config{})
	a, b := e.connect(ring.Config{})
	p, err := e.pools[0].Alloc(1)
	require.NoError(t, err)
	_, err = a.Send([]byte("x"))
	require.NoError(t, err)
	c := e.next(1, b)
	require.NoError(t, c.Packet.Release())
	require.NoError(t, e.sets[1].Close())
	for end := time.Now().Add(patience); counter(a.Ring(), "offload.path_changes") == 0; e.poll(0) {
		require.True(t, time.Now().Before(end))
	}
	_, err = a.Send([]byte("x"))
	require.ErrorIs(t, err, unix.ENETUNREACH)
	require.NoError(t, a.SendPacket(p, netip.AddrPort{}, 1))
	sent := e.next0(a)
	require.ErrorIs(t, sent.Err, unix.ENETUNREACH)
	require.Contains(t, a.Path().Explain(), "link.detached")
}

func (e *ends) next0(s *ring.Socket) ring.Completion {
	for range 100 {
		for _, c := range e.poll(0) {
			if c.Socket == s {
				return c
			}
		}
	}
	require.FailNow(e.t, "nothing came")
	return ring.Completion{}
}

// Frames that the wire lost, doubled or changed: what is wrong is counted, what is right is delivered.
func TestFaultsOfTheWire(t *testing.T) {
	n := 0
	fault := func(b []byte) ([]byte, int) {
		if len(b) < 60 {
			return b, 1
		}
		switch n++; n % 4 {
		case 0:
			return b, 0
		case 1:
			return b, 2
		case 2:
			b[len(b)-1] ^= 1
		}
		return b, 1
	}
	e := newEnds(t, memory.Config{Faults: [2]memory.Fault{fault, nil}})
	a, b := e.connect(ring.Config{})
	const sends = 400
	got := 0
	for range sends {
		_, err := a.Send([]byte(strings.Repeat("x", 64)))
		require.NoError(t, err)
		e.poll(0)
		for _, c := range e.poll(1) {
			require.Same(t, b, c.Socket)
			require.NoError(t, c.Packet.Release())
			got++
		}
	}
	require.Equal(t, 3*sends/4, got)
	require.Equal(t, uint64(sends/4), counter(b.Ring(), "udp.sum"))
	require.Equal(t, uint64(got), counter(b.Ring(), "stack.delivered"))
}
