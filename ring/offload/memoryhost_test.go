package offload_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

func TestWhatIsRefused(t *testing.T) {
	e := newEnds(t, memory.Config{})
	var missing *ring.FeatureError
	_, err := e.sets[0].NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "offload.no_tcp", missing.Code)
	_, err = e.sets[0].NewSocket(ring.KindDatagram, ring.IPv6, ring.Config{})
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "offload.no_ipv6", missing.Code)
	_, err = e.sets[0].NewUnix(ring.Config{})
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "offload.no_kernel", missing.Code)
	_, err = e.sets[0].Adopt(ring.Adopted{Conn: 3, Kind: ring.KindDatagram, Family: ring.IPv4}, ring.Config{}, nil)
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "offload.no_kernel", missing.Code)

	_, err = offload.New(offload.Config{})(ring.DriverConfig{})
	require.ErrorContains(t, err, "pool")
	good := overLinks(t, e.spaces[0], nil)
	on := []nic.Interface{{Name: "mem0"}}
	for name, c := range map[string]offload.Config{
		"Exchange":    {},
		"Interfaces":  {Exchange: good.Exchange},
		"ShadowEvery": {Exchange: good.Exchange, Interfaces: on, ShadowEvery: -1},
	} {
		_, err := offload.New(c)(ring.DriverConfig{Pool: e.pools[0]})
		require.ErrorIs(t, err, unix.EINVAL)
		require.ErrorContains(t, err, name)
	}
	good.Interfaces = on
	_, err = offload.New(good)(ring.DriverConfig{Pool: e.pools[0]})
	require.ErrorIs(t, err, unix.EBUSY, "the host has a ring")
	alone, err := offload.NewMemoryHost(facts(0, 1500), rand.Uint64)
	require.NoError(t, err)
	none := overLinks(t, alone, nil)
	none.Interfaces = on
	for range 2 { // the first leaves the host without a ring
		_, err = offload.New(none)(ring.DriverConfig{Pool: e.pools[0]})
		require.ErrorIs(t, err, unix.ENODEV, "no link was made for it")
	}
	open := nic.OpenLinks(alone, nil)
	for name, c := range map[string]offload.ExchangeConfig{
		"Host and MemoryHost are nil": {Open: open},
		"Open":                        {MemoryHost: alone},
		"a Host or a System beside":   {MemoryHost: alone, Open: open, System: &offload.System{}},
	} {
		_, err := offload.NewExchange(c)
		require.ErrorIs(t, err, unix.EINVAL)
		require.ErrorContains(t, err, name)
	}
}

func TestMemoryHost(t *testing.T) {
	e := newEnds(t, memory.Config{})
	bind := func(a string, change ...func(*ring.Socket)) error {
		s, err := e.sets[0].NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		for _, f := range change {
			f(s)
		}
		return s.Bind(netip.MustParseAddrPort(a))
	}
	reuse := func(s *ring.Socket) { require.NoError(t, s.SetReusePort(true)) }
	require.NoError(t, bind("10.9.0.1:700"))
	require.ErrorIs(t, bind("10.9.0.1:700"), unix.EADDRINUSE)
	require.ErrorIs(t, bind("0.0.0.0:700"), unix.EADDRINUSE)
	require.NoError(t, bind("10.9.0.77:700"))
	require.ErrorIs(t, bind("10.9.0.2:701"), unix.EADDRNOTAVAIL)
	require.ErrorIs(t, bind("127.0.0.1:701"), unix.EADDRNOTAVAIL)
	require.NoError(t, bind("10.9.0.1:702", reuse))
	require.NoError(t, bind("10.9.0.1:702", reuse))
	seen := map[uint16]bool{}
	for range 50 {
		s := e.udp(0, ring.Config{})
		require.False(t, seen[s.LocalAddr().Port()])
		seen[s.LocalAddr().Port()] = true
	}
	s := e.udp(0, ring.Config{})
	port := s.LocalAddr().Port()
	require.NoError(t, s.Close())
	require.Equal(t, ring.EventClosed, e.next(0, s).Events)
	require.NoError(t, bind(fmt.Sprint("10.9.0.1:", port)), "a closed socket's port is free")

	s, err := e.sets[0].NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Connect(netip.MustParseAddrPort("10.9.0.2:9")))
	require.Equal(t, "10.9.0.1", s.LocalAddr().Addr().String(), "the address that its packets have")
	g := netip.MustParseAddr("233.252.0.1")
	require.NoError(t, s.JoinGroup(g, "mem0", netip.Addr{}))
	require.ErrorIs(t, s.JoinGroup(g, "", netip.Addr{}), unix.EADDRINUSE, "the routing table says the same interface")
	require.ErrorIs(t, s.LeaveGroup(g, "mem0", subnets[1][0].Addr()), unix.EADDRNOTAVAIL)
	require.NoError(t, s.JoinGroup(g, "mem0", subnets[1][0].Addr()), "a source narrows the membership")
	require.ErrorIs(t, s.JoinGroup(g, "mem0", subnets[1][0].Addr()), unix.EADDRNOTAVAIL)
	require.ErrorIs(t, s.JoinGroup(g, "nosuchif", netip.Addr{}), unix.ENODEV)
	require.NoError(t, s.LeaveGroup(g, "mem0", netip.Addr{}))
	require.ErrorIs(t, s.SetNoDelay(true), unix.ENOPROTOOPT)
	require.ErrorIs(t, bind("0.0.0.0:703", func(s *ring.Socket) { require.ErrorIs(t, s.BindToDevice("x"), unix.ENODEV) }), nil)
}
