package ip_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/udp"
)

// experimental is protocol 253, which RFC 3692 leaves to experiments: a second transport beside UDP, as small as one can be. One flow, whose
// packets are numbered:
//
//	| source port 2 | destination port 2 | number 4 | payload |
//
// It uses all of the seam that TCP will need: bursts, a route of its own, errors that it proves by their number, notices of changes.
type experimental struct {
	stack *ip.Stack
	peer  wire.Addr
	route ip.Route
	sent  uint32 // packets, and the number of the next

	got     []string
	inputs  int // calls of Input
	changes []ip.Change
	errors  []ip.ICMPError
}

const (
	protocolExperimental = 253
	experimentalPort     = 700
	experimentalLen      = 8
)

func (x *experimental) Input(_ clock.Time, b *ip.Burst) {
	x.inputs++
	for n := range b.Packets { // the lookup, for the whole burst first
		if p := &b.Packets[n]; p.Protocol == protocolExperimental {
			h := p.Payload()
			p.Flow.SourcePort, p.Flow.TargetPort = binary.BigEndian.Uint16(h), binary.BigEndian.Uint16(h[2:])
			if p.First = 1; p.To != ip.AddressLocal || p.Flow.TargetPort != experimentalPort {
				p.First = 0
			}
		}
	}
	for n := range b.Packets {
		if p := &b.Packets[n]; p.Protocol == protocolExperimental {
			if p.First == 1 {
				x.got = append(x.got, string(p.Payload()[experimentalLen:]))
			}
			b.Release(n)
		}
	}
}

// Error accepts only what quotes a number that was sent (compare RFC 5927): a stranger who knows the addresses alone changes nothing.
func (x *experimental) Error(_ clock.Time, e ip.ICMPError) wire.Drop {
	number := binary.BigEndian.Uint32(e.Quote.Transport[4:])
	if e.Flow.Source != x.peer || e.Flow.TargetPort != experimentalPort || number >= x.sent {
		return wire.ICMPNoSocket
	}
	x.errors = append(x.errors, e)
	return wire.Accept
}

func (x *experimental) Changed(c ip.Change) { x.changes = append(x.changes, c) }

func (x *experimental) send(now clock.Time, payload string) ip.Errno {
	if !x.stack.IsCurrent(&x.route) {
		if e := x.stack.FindRoute(&x.route, &ip.Query{Target: x.peer, Protocol: protocolExperimental, TTL: 64}); e != 0 {
			return e
		}
	}
	head := x.route.Header.Len()
	if n := wire.IPv4Len + experimentalLen + len(payload); n > int(x.route.MTU) {
		return ip.EMSGSIZE
	}
	p, err := x.stack.Pool().Alloc(head + experimentalLen + len(payload))
	if err != nil {
		return ip.ENOBUFS
	}
	frame := p.Room()[:head+experimentalLen+len(payload)]
	h := frame[head:]
	binary.BigEndian.PutUint16(h, experimentalPort)
	binary.BigEndian.PutUint16(h[2:], experimentalPort)
	binary.BigEndian.PutUint32(h[4:], x.sent)
	copy(h[experimentalLen:], payload)
	x.route.Header.Put(frame, x.stack.NextID(), wire.Atomic)
	if p, err = x.stack.Pool().Transmit(p); err != nil {
		return ip.ENOBUFS
	}
	x.sent++
	x.stack.SendFrame(now, &x.route, p, 0)
	return 0
}

// machine is a host with both transports on one end of a memory link.
type machine struct {
	*require.Assertions
	pool  *buffers.DriverPool
	local *ip.LocalHost
	ip    *ip.Stack
	udp   *udp.Protocol
	exp   *experimental
	link  *memory.End
	id    udp.ID // a socket on port 53
	got   []string
}

// machines are two hosts with a wire between them.
func machines(t *testing.T) (m [2]*machine, now clock.Time) {
	addrs, macs := [2]wire.Addr{us, peer}, [2]wire.MAC{ourMAC, peerMAC}
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 256, LargeSize: 65536, LargeCount: 4, Headroom: 192}
	for i := range m {
		pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
		require.NoError(t, err)
		m[i] = &machine{Assertions: require.New(t), pool: pool}
	}
	var err error
	m[0].link, m[1].link, err = memory.Pair(m[0].pool, m[1].pool, memory.Config{Addrs: [2][6]byte{macs[0], macs[1]}})
	require.NoError(t, err)
	for i, x := range m {
		f := iptest.Facts()
		f.Links[0].MAC, f.Addresses[0].Local = macs[i], addrs[i].Netip()
		f.Routes[0].Prefix = netip.PrefixFrom(addrs[i].Netip(), 32)
		x.local, err = ip.NewLocalHost(f)
		x.NoError(err)
		x.ip, err = ip.New(ip.Config{Pool: x.pool, LocalHost: x.local, Random: rand.New(rand.NewPCG(1, uint64(i))).Uint64,
			Interfaces: []ip.Interface{{Index: iface, MAC: macs[i], MTU: 1500}}})
		x.NoError(err)
		x.udp, err = udp.New(x.ip, udp.Config{})
		x.NoError(err)
		x.exp = &experimental{stack: x.ip, peer: addrs[1-i]}
		x.NoError(x.ip.Register(protocolExperimental, x.exp, nil))
		x.id, err = x.udp.Add(udp.Endpoint{Local: addrs[i], LocalPort: 53, Remote: addrs[1-i], RemotePort: 53}, udp.Options{TTL: 64, ReceiveBuffer: 1 << 16})
		x.NoError(err)
		t.Cleanup(func() {
			x.udp.Close()
			x.ip.Close()
			x.NoError(x.link.Close())
			x.Equal(x.pool.Ledger().Total, x.pool.Ledger().Free, "%v", x.pool.Ledger())
		})
	}
	return m, clock.Time(time.Hour)
}

// turn is what a ring's driver does in a turn.
func (m *machine) turn(now clock.Time) {
	m.ip.Refresh()
	var frames [ip.MaxBurst]ip.Frame
	m.ip.Input(now, 0, frames[:m.link.Receive(frames[:])])
	for _, d := range m.udp.Deliveries() {
		m.got = append(m.got, string(d.Packet.Bytes()))
		m.NoError(d.Packet.Release())
	}
	m.udp.ClearDeliveries()
	m.ip.Took(0, m.link.Send(m.ip.Output(0)))
	m.NoError(m.link.Flush())
	m.link.Complete(nil)
}

func (m *machine) sendUDP(now clock.Time, to wire.Addr, payload string) {
	p, err := m.pool.Alloc(len(payload))
	m.NoError(err)
	copy(p.Room(), payload)
	p, err = m.pool.Transmit(p)
	m.NoError(err)
	v, e := m.udp.SendSlow(now, m.id, 0, to, 53, p, 0)
	m.Zero(e)
	m.Equal(udp.Queued, v)
}

// exchangeFrames lets both take turns until nothing is on its way.
func exchangeFrames(m [2]*machine, now clock.Time) {
	for range 8 {
		m[0].turn(now)
		m[1].turn(now)
	}
}

// Both transports send to one neighbour and through one link, mixed in one burst: each gets its own, in order, by one call for the burst.
func TestTwoTransports(t *testing.T) {
	m, now := machines(t)
	a, b := m[0], m[1]
	var want []string
	for i := range 20 {
		text := fmt.Sprint(i)
		want = append(want, text)
		a.sendUDP(now, peer, text)
		a.Zero(a.exp.send(now, text))
	}
	a.Equal(1, a.ip.Queued(), "one question for the neighbour of both")
	exchangeFrames(m, now)
	b.Equal(want, b.got)
	b.Equal(want, b.exp.got)
	b.Equal(1, b.exp.inputs, "one call for the burst of 40")
	a.Equal([]ip.Change{{Kind: ip.NextHopChanged, Addr: peer, Interface: iface}}, a.exp.changes, "the neighbour became known")
	a.False(a.ip.IsCurrent(&a.exp.route), "the route was one that waits")
	a.Zero(a.exp.send(now, "now"))
	a.Equal(ip.RouteOverLink, a.exp.route.Kind)
	a.True(a.ip.IsCurrent(&a.exp.route))
	exchangeFrames(m, now)
	b.Equal("now", b.exp.got[20])
	b.Equal(2, b.exp.inputs)

	// Without a protocol of its number a packet is dropped and counted.
	c := newWorld(t)
	c.Drop(wire.IPv4Protocol, iptest.From(peer, us, "x", func(d *iptest.Datagram) { d.IP.Protocol = protocolExperimental }))
}

// An ICMP error goes to the protocol of the packet that it quotes, which proves it; only then a path MTU is believed.
func TestErrorsOfASecondTransport(t *testing.T) {
	m, now := machines(t)
	a := m[0]
	exchangeFrames(m, now)
	a.Zero(a.exp.send(now, "first"))
	exchangeFrames(m, now)
	a.Zero(a.exp.send(now, string(make([]byte, 1400))))
	a.exp.changes = nil
	quote := func(protocol uint8, port uint16, number uint32) []byte {
		h := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, port), port)
		h = append(binary.BigEndian.AppendUint32(h, number), make([]byte, 1400)...)
		packet, err := (&wire.IPv4Fields{TTL: 64, Protocol: protocol, Source: us, Target: peer}).Append(nil, len(h))
		a.NoError(err)
		return append(packet, h...)
	}
	receive := func(code uint8, mtu uint16, packet []byte) {
		b, err := (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: code, MTU: mtu, Packet: packet}).Append(nil)
		a.NoError(err)
		frame := iptest.ICMPFrame(b)
		p, err := a.pool.Alloc(len(frame))
		a.NoError(err)
		copy(p.Room(), frame)
		a.ip.Input(now, 0, []ip.Frame{{Packet: p}})
	}
	receive(wire.ICMPPort, 0, quote(protocolExperimental, experimentalPort, 1))
	a.Len(a.exp.errors, 1)
	a.Equal(unix.ECONNREFUSED, a.exp.errors[0].Errno)
	a.Equal(peer, a.exp.errors[0].Flow.Source, "the flow of the answers")
	a.Empty(a.udp.Errors(), "it is not UDP's")

	receive(wire.ICMPFragmentation, 1000, quote(protocolExperimental, experimentalPort, 99))
	a.Len(a.exp.errors, 1, "such a packet was never sent")
	a.Equal(uint64(1), a.ip.Drops()[wire.ICMPNoSocket])
	a.Empty(a.exp.changes)
	a.True(a.ip.IsCurrent(&a.exp.route))

	receive(wire.ICMPFragmentation, 1000, quote(protocolExperimental, experimentalPort, 1))
	a.Equal(1000, a.exp.errors[1].MTU)
	a.Equal([]ip.Change{{Kind: ip.PathMTUChanged, Addr: peer}}, a.exp.changes)
	a.False(a.ip.IsCurrent(&a.exp.route))
	a.Equal(ip.EMSGSIZE, a.exp.send(now, string(make([]byte, 1400))))
	a.Equal(int32(1000), a.exp.route.MTU)

	receive(wire.ICMPPort, 0, quote(wire.ProtocolUDP, 53, 0))
	a.Equal([]udp.SocketError{{Owner: 0, Errno: unix.ECONNREFUSED}}, a.udp.Errors())
	a.Len(a.exp.errors, 2, "and that is UDP's alone")
	receive(wire.ICMPPort, 0, quote(wire.ProtocolTCP, 53, 0))
	a.Equal(uint64(2), a.ip.Drops()[wire.ICMPNoSocket], "nothing here speaks TCP")
}

// What a raw socket beside a kernel has received: an error about the one protocol that it is asked for reaches it, all else changes nothing.
func TestErrorViaKernel(t *testing.T) {
	m, now := machines(t)
	a := m[0]
	exchangeFrames(m, now)
	a.Zero(a.exp.send(now, "first"))
	exchangeFrames(m, now)
	a.Zero(a.exp.send(now, "second"))
	quote := func(protocol uint8) []byte {
		h := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, experimentalPort), experimentalPort)
		h = append(binary.BigEndian.AppendUint32(h, 1), make([]byte, 100)...)
		packet, err := (&wire.IPv4Fields{TTL: 64, Protocol: protocol, Source: us, Target: peer}).Append(nil, len(h))
		a.NoError(err)
		return append(packet, h...)
	}
	message := func(protocol uint8) []byte {
		b, err := (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPPort, Packet: quote(protocol)}).Append(nil)
		a.NoError(err)
		return iptest.ICMPFrame(b)[wire.EthernetLen:]
	}
	a.Equal(wire.Accept, a.ip.ErrorViaKernel(now, message(protocolExperimental), protocolExperimental))
	a.Len(a.exp.errors, 1)
	a.Equal(unix.ECONNREFUSED, a.exp.errors[0].Errno)

	good := message(protocolExperimental)
	for n := range good { // cut, and with each byte spoiled
		a.NotEqual(wire.Accept, a.ip.ErrorViaKernel(now, good[:n], protocolExperimental))
		bad := append([]byte(nil), good...)
		bad[n] ^= 1
		a.NotEqual(wire.Accept, a.ip.ErrorViaKernel(now, bad, protocolExperimental), "byte %d", n)
	}
	a.Equal(wire.ICMPNoSocket, a.ip.ErrorViaKernel(now, message(wire.ProtocolUDP), protocolExperimental), "UDP's")
	a.Len(a.exp.errors, 1)
	a.Empty(a.udp.Errors())
}

// A protocol learns at once what changes under its flows: addresses and routes, a neighbour's station.
func TestChangesUnderASecondTransport(t *testing.T) {
	m, now := machines(t)
	a, b := m[0], m[1]
	a.Zero(a.exp.send(now, "x"))
	exchangeFrames(m, now)
	a.Zero(a.exp.send(now, "x"))
	a.exp.changes = nil
	generation := *a.ip.RouteGeneration()

	other := wire.MAC{2, 0, 0, 0, 0, 0x22}
	f := b.local.Facts()
	f.Links = append([]host.Link(nil), f.Links...)
	f.Links[0].MAC = other
	b.local.Set(f)
	b.ip.Refresh()
	b.Zero(b.exp.send(now, "from another station")) // to a neighbour that is known: what teaches is the answer to the next request
	for range 62 {
		now = now.Add(time.Second)
		a.Zero(a.exp.send(now, "x"))
		for _, x := range m {
			x.ip.Advance(now)
			x.turn(now)
		}
	}
	exchangeFrames(m, now)
	a.Contains(a.exp.changes, ip.Change{Kind: ip.NextHopChanged, Addr: peer, Interface: iface})
	a.NotEqual(generation, *a.ip.RouteGeneration())
	b.exp.got = nil
	a.Zero(a.exp.send(now, "to the new station"))
	a.Equal(other, a.exp.route.Header.Target())
	exchangeFrames(m, now)
	b.Equal([]string{"to the new station"}, b.exp.got)

	a.exp.changes = nil
	f = a.local.Facts()
	f.Addresses = append([]host.Address(nil), f.Addresses...)
	f.Addresses[0].Local = far.Netip()
	a.local.Set(f)
	a.ip.Refresh()
	a.Equal([]ip.Change{{Kind: ip.TablesChanged}}, a.exp.changes)
	a.False(a.ip.IsCurrent(&a.exp.route))
	a.Zero(a.exp.send(now, "x"))
	a.Equal(far, a.exp.route.Source)
}

func TestRegisterRefuses(t *testing.T) {
	w := newWorld(t)
	x := &experimental{}
	for _, c := range []struct {
		number  uint8
		p       ip.Protocol
		members ip.Memberships
		want    string
	}{
		{protocolExperimental, nil, nil, "Protocol is nil"},
		{0, x, nil, "the number is the stack's own"},
		{wire.ProtocolICMP, x, nil, "the number is the stack's own"},
		{wire.ProtocolIGMP, x, nil, "the number is the stack's own"},
		{wire.ProtocolUDP, x, nil, "protocol 17: it is registered"},
		{protocolExperimental, x, udp.NewTable([2]uint64{}), "another protocol has the memberships"},
	} {
		w.ErrorContains(w.IP.Register(c.number, c.p, c.members), c.want)
	}
	for n := range uint8(5) {
		w.NoError(w.IP.Register(200+n, x, nil))
	}
	w.ErrorContains(w.IP.Register(210, x, nil), "6 are registered, which is the most")
}
