// Package iptest is one stack with UDP on it for tests: the frames that it is given, and those that it sends. Tests of internal/ip and udp
// use it; a test reads like a trace.
package iptest

import (
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
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Iface is the index of the stack's interface.
const Iface = 3

// Who is there: us, a neighbour, the gateway, a host behind it; our subnet's broadcast, a group, and no address.
var (
	Us      = wire.Addr{10, 0, 0, 1}
	Peer    = wire.Addr{10, 0, 0, 2}
	Gateway = wire.Addr{10, 0, 0, 254}
	Far     = wire.Addr{192, 0, 2, 7}
	Subnet  = wire.Addr{10, 0, 0, 255}
	Group   = wire.Addr{239, 1, 1, 1}
	None    = wire.Addr{}

	OurMAC     = wire.MAC{2, 0, 0, 0, 0, 1}
	PeerMAC    = wire.MAC{2, 0, 0, 0, 0, 2}
	GatewayMAC = wire.MAC{2, 0, 0, 0, 0, 254}
)

// Facts are the tables of the host.
func Facts() host.Facts {
	hop := []host.NextHop{{Interface: Iface, Weight: 1}}
	route := func(table uint32, typ host.RouteType, p string, scope uint8, hops []host.NextHop) host.Route {
		return host.Route{Table: table, Type: typ, Prefix: netip.MustParsePrefix(p), Scope: scope, Hops: hops}
	}
	return host.Facts{
		Links: []host.Link{{Index: Iface, Name: "mem0", Type: unix.ARPHRD_ETHER, MAC: OurMAC, MTU: 1500,
			Flags: unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_MULTICAST | unix.IFF_BROADCAST}},
		Addresses: []host.Address{{Interface: Iface, Local: Us.Netip(), Prefix: netip.MustParsePrefix("10.0.0.0/24"), Broadcast: Subnet.Netip()}},
		Routes: []host.Route{
			route(unix.RT_TABLE_LOCAL, host.Local, "10.0.0.1/32", unix.RT_SCOPE_HOST, hop),
			route(unix.RT_TABLE_LOCAL, host.Broadcast, "10.0.0.255/32", unix.RT_SCOPE_LINK, hop),
			route(unix.RT_TABLE_MAIN, host.Unicast, "10.0.0.0/24", unix.RT_SCOPE_LINK, hop),
			route(unix.RT_TABLE_MAIN, host.Unicast, "224.0.0.0/4", unix.RT_SCOPE_LINK, hop),
			route(unix.RT_TABLE_MAIN, host.Unicast, "192.0.2.0/24", unix.RT_SCOPE_UNIVERSE,
				[]host.NextHop{{Interface: Iface, Gateway: Gateway.Netip(), Weight: 1}}),
			{Table: unix.RT_TABLE_MAIN, Type: host.Unreachable, Prefix: netip.MustParsePrefix("198.51.100.0/24")},
		},
	}
}

// World is one stack, the frames that it is given and those that it sends. A test reads like a trace.
type World struct {
	*require.Assertions
	T         testing.TB
	Pool      *buffers.DriverPool
	LocalHost *ip.LocalHost // nil if the configuration was changed so
	IP        *ip.Stack
	UDP       *udp.Protocol
	Now       clock.Time
	Got       []udp.Delivery // by the last In or Loop
}

// NewWorld makes a stack without a kernel, unless its configuration is changed.
func NewWorld(t testing.TB, change ...func(*ip.Config)) *World {
	l := buffers.Layout{SmallSize: 2048, SmallCount: 256, LargeSize: 65536, LargeCount: 8, Headroom: 128}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	require.NoError(t, err)
	pool, err := buffers.New(region.Bytes(), l)
	require.NoError(t, err)
	local, err := ip.NewLocalHost(Facts())
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	c := ip.Config{Pool: pool, LocalHost: local, Interfaces: []ip.Interface{{Index: Iface, MAC: OurMAC, MTU: 1500}}, Random: r.Uint64}
	for _, f := range change {
		f(&c)
	}
	s, err := ip.New(c)
	require.NoError(t, err)
	u, err := udp.New(s, udp.Config{})
	require.NoError(t, err)
	w := &World{Assertions: require.New(t), T: t, Pool: pool, LocalHost: c.LocalHost, IP: s, UDP: u, Now: clock.Time(time.Hour)}
	t.Cleanup(func() {
		w.Release()
		u.Close()
		s.Close()
		ledger := pool.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, "ledger: %v", ledger)
		require.NoError(t, pool.Verify())
		require.NoError(t, region.Close())
	})
	return w
}

// Socket puts a socket in, with Linux's options unless they are changed.
func (w *World) Socket(e udp.Endpoint, change ...func(*udp.Options)) udp.ID {
	w.T.Helper()
	o := udp.Options{TTL: 64, MulticastTTL: 1, ReceiveBuffer: 1 << 16}
	for _, f := range change {
		f(&o)
	}
	if e.LocalPort == 0 {
		e.LocalPort = 53
	}
	id, err := w.UDP.Add(e, o)
	w.NoError(err)
	return id
}

// In gives the stack frames as one burst and returns what UDP delivers.
func (w *World) In(frames ...[]byte) []udp.Delivery {
	w.T.Helper()
	w.Release()
	var list []ip.Frame
	for _, b := range frames {
		list = append(list, ip.Frame{Packet: w.Packet(b)})
	}
	w.IP.Refresh()
	w.IP.Input(w.Now, 0, list)
	return w.take()
}

// Loop returns what UDP has sent to itself.
func (w *World) Loop() []udp.Delivery {
	w.Release()
	w.UDP.Loop()
	return w.take()
}

func (w *World) take() []udp.Delivery {
	w.Got = append(w.Got, w.UDP.Deliveries()...)
	w.UDP.ClearDeliveries()
	return w.Got
}

// Packet is a received frame, in as many small buffers as it needs.
func (w *World) Packet(b []byte) (p buffers.Packet) {
	l := w.Pool.Layout()
	for {
		i, ok := w.Pool.Take(buffers.Small)
		w.True(ok)
		n := copy(w.Pool.Memory(i)[l.Headroom:l.Headroom+l.SmallSize], b)
		p = w.Pool.Append(p, w.Pool.Fill(i, l.Headroom, n, 0))
		if b = b[n:]; len(b) == 0 {
			return p
		}
	}
}

// Release ends what was delivered.
func (w *World) Release() {
	for i := range w.Got {
		w.NoError(w.Got[i].Packet.Release())
	}
	w.Got = w.Got[:0]
}

// Out takes the frames that were sent.
func (w *World) Out() (frames [][]byte) {
	w.T.Helper()
	for _, o := range w.IP.Output(0) {
		frames = append(frames, append([]byte(nil), o.Packet.Bytes()...))
		w.Pool.FreeTransmit(o.Packet)
	}
	w.IP.Took(0, len(frames))
	return frames
}

// Only is the one frame that was sent.
func (w *World) Only() []byte {
	w.T.Helper()
	frames := w.Out()
	w.Len(frames, 1)
	return frames[0]
}

// After lets time pass.
func (w *World) After(d time.Duration) {
	w.Now = w.Now.Add(d)
	w.IP.Advance(w.Now)
	w.IP.Refresh()
}

// Send sends a payload from a socket.
func (w *World) Send(id udp.ID, to wire.Addr, port uint16, payload string) (udp.Verdict, error) {
	w.T.Helper()
	p, err := w.Pool.Alloc(len(payload))
	w.NoError(err)
	copy(p.Room(), payload)
	p, err = w.Pool.Transmit(p)
	w.NoError(err)
	w.IP.Refresh()
	v, e := w.UDP.SendSlow(w.Now, id, 0, to, port, p, 0)
	if v != udp.Queued {
		w.Pool.FreeTransmit(p)
	}
	if e != 0 {
		return v, e
	}
	return v, nil
}

// Drop asserts that frames are dropped for this reason, and nothing else happens.
func (w *World) Drop(d wire.Drop, frame []byte) {
	w.T.Helper()
	before := w.IP.Drops()[d]
	w.Empty(w.In(frame))
	w.Equal(before+1, w.IP.Drops()[d], "not counted as %v: %v", d, w.Reasons())
}

// Reasons are those for which frames were dropped so far.
func (w *World) Reasons() (list []string) {
	for d, n := range w.IP.Drops() {
		if n > 0 {
			list = append(list, wire.Drop(d).String())
		}
	}
	return list
}

// Datagram is a frame to build.
type Datagram struct {
	Eth     wire.EthernetFields
	IP      wire.IPv4Fields
	UDP     wire.UDPFields
	Payload string
}

// From is a datagram of the Peer's for port 53.
func From(source, target wire.Addr, payload string, change ...func(*Datagram)) []byte {
	d := Datagram{Eth: wire.EthernetFields{Target: OurMAC, Source: PeerMAC, Type: wire.TypeIPv4},
		IP:  wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolUDP, Source: source, Target: target},
		UDP: wire.UDPFields{SourcePort: 9, TargetPort: 53}, Payload: payload}
	if target.IsMulticast() {
		d.Eth.Target = wire.GroupMAC(target)
	}
	if target == Subnet || target.IsBroadcast() {
		d.Eth.Target = wire.Broadcast
	}
	for _, f := range change {
		f(&d)
	}
	segment, err := d.UDP.Append(nil, d.IP.Source, d.IP.Target, []byte(d.Payload))
	if err != nil {
		panic(err)
	}
	return d.Frame(segment)
}

// Frame is the frame with this segment.
func (d *Datagram) Frame(segment []byte) []byte {
	b, err := d.IP.Append(d.Eth.Append(nil), len(segment))
	if err != nil {
		panic(err)
	}
	return append(b, segment...)
}

// Sent is a frame that the stack sent, taken apart; the checksums are verified.
type Sent struct {
	Eth     *wire.Ethernet
	Tag     wire.Tag
	IP      *wire.IPv4
	Options []byte
	Segment []byte
}

// Parse takes a frame apart that the stack has sent.
func (w *World) Parse(frame []byte) (s Sent) {
	w.T.Helper()
	eth, tag, typ, rest, d := wire.ParseEthernet(frame)
	w.Equal(wire.Accept, d)
	w.Equal(wire.TypeIPv4, typ)
	s.Eth, s.Tag = eth, tag
	s.IP, s.Options, s.Segment, d = wire.ParseIPv4(rest)
	w.Equal(wire.Accept, d, "%v", d)
	return s
}

// ParseUDP takes a datagram apart that the stack has sent.
func (w *World) ParseUDP(frame []byte) (s Sent, h *wire.UDP, payload string) {
	w.T.Helper()
	s = w.Parse(frame)
	h, b, _, d := udp.Parse(s.IP, s.Segment, udp.Strict)
	w.Equal(wire.Accept, d, "%v", d)
	return s, h, string(b)
}

// ParseARP takes an ARP packet apart that the stack has sent.
func (w *World) ParseARP(frame []byte) (*wire.Ethernet, *wire.ARP) {
	w.T.Helper()
	eth, _, typ, rest, d := wire.ParseEthernet(frame)
	w.Equal(wire.Accept, d)
	w.Equal(wire.TypeARP, typ)
	a, d := wire.ParseARP(rest, eth.Source())
	w.Equal(wire.Accept, d)
	return eth, a
}

// ICMPFrame is an ICMP message of the peer's as a frame.
func ICMPFrame(message []byte) []byte {
	d := Datagram{Eth: wire.EthernetFields{Target: OurMAC, Source: PeerMAC, Type: wire.TypeIPv4},
		IP: wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolICMP, Source: Peer, Target: Us}}
	return d.Frame(message)
}

// ARPFrame is an ARP packet as a frame.
func ARPFrame(op uint16, mac wire.MAC, sender wire.Addr, to wire.MAC, target wire.Addr) []byte {
	eth := wire.EthernetFields{Target: to, Source: mac, Type: wire.TypeARP}
	if op == wire.ARPRequest {
		eth.Target = wire.Broadcast
	}
	f := wire.ARPFields{Operation: op, SenderMAC: mac, SenderAddr: sender, TargetMAC: to, TargetAddr: target}
	return f.Append(eth.Append(nil))
}

// KnowPeer makes the Peer's address known.
func (w *World) KnowPeer() {
	w.In(ARPFrame(wire.ARPRequest, PeerMAC, Peer, wire.MAC{}, Us))
	w.Out()
}
