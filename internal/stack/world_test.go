package stack

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
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

const iface = 3

var (
	us      = wire.Addr{10, 0, 0, 1}
	peer    = wire.Addr{10, 0, 0, 2}
	gateway = wire.Addr{10, 0, 0, 254}
	far     = wire.Addr{192, 0, 2, 7}
	subnet  = wire.Addr{10, 0, 0, 255}
	grp     = wire.Addr{239, 1, 1, 1}
	none4   = wire.Addr{}

	ourMAC  = wire.MAC{2, 0, 0, 0, 0, 1}
	peerMAC = wire.MAC{2, 0, 0, 0, 0, 2}
	gwMAC   = wire.MAC{2, 0, 0, 0, 0, 254}
)

func ownFacts() host.Facts {
	hop := []host.NextHop{{Interface: iface, Weight: 1}}
	route := func(table uint32, typ host.RouteType, p string, scope uint8, hops []host.NextHop) host.Route {
		return host.Route{Table: table, Type: typ, Prefix: netip.MustParsePrefix(p), Scope: scope, Hops: hops}
	}
	return host.Facts{
		Links: []host.Link{{Index: iface, Name: "mem0", Type: unix.ARPHRD_ETHER, MAC: ourMAC, MTU: 1500,
			Flags: unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_MULTICAST | unix.IFF_BROADCAST}},
		Addresses: []host.Address{{Interface: iface, Local: us.Netip(), Prefix: netip.MustParsePrefix("10.0.0.0/24"), Broadcast: subnet.Netip()}},
		Routes: []host.Route{
			route(unix.RT_TABLE_LOCAL, host.Local, "10.0.0.1/32", unix.RT_SCOPE_HOST, hop),
			route(unix.RT_TABLE_LOCAL, host.Broadcast, "10.0.0.255/32", unix.RT_SCOPE_LINK, hop),
			route(unix.RT_TABLE_MAIN, host.Unicast, "10.0.0.0/24", unix.RT_SCOPE_LINK, hop),
			route(unix.RT_TABLE_MAIN, host.Unicast, "224.0.0.0/4", unix.RT_SCOPE_LINK, hop),
			route(unix.RT_TABLE_MAIN, host.Unicast, "192.0.2.0/24", unix.RT_SCOPE_UNIVERSE,
				[]host.NextHop{{Interface: iface, Gateway: gateway.Netip(), Weight: 1}}),
			{Table: unix.RT_TABLE_MAIN, Type: host.Unreachable, Prefix: netip.MustParsePrefix("198.51.100.0/24")},
		},
	}
}

// world is one stack, the frames that it is given and those that it sends. A test reads like a trace.
type world struct {
	*require.Assertions
	t    testing.TB
	pool *buffers.Pool
	s    *Stack
	now  clock.Time
	got  []Delivery
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	l := buffers.Layout{SmallSize: 2048, SmallCount: 256, LargeSize: 65536, LargeCount: 8, Headroom: 128}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	require.NoError(t, err)
	pool, err := buffers.New(region.Bytes(), l)
	require.NoError(t, err)
	own, err := NewOwn(ownFacts())
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	c := Config{Pool: pool, Own: own, Interfaces: []Interface{{Index: iface, MAC: ourMAC, MTU: 1500}}, Random: r.Uint64}
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	require.NoError(t, err)
	w := &world{Assertions: require.New(t), t: t, pool: pool, s: s, now: clock.Time(time.Hour)}
	t.Cleanup(func() {
		w.release()
		s.Close()
		ledger := pool.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, "ledger: %v", ledger)
		require.NoError(t, pool.Verify())
		require.NoError(t, region.Close())
	})
	return w
}

// socket puts a socket in, with Linux's options unless they are changed.
func (w *world) socket(e udp.Endpoint, change ...func(*Options)) udp.ID {
	w.t.Helper()
	o := Options{TTL: 64, MulticastTTL: 1, ReceiveBuffer: 1 << 16}
	for _, f := range change {
		f(&o)
	}
	if e.LocalPort == 0 {
		e.LocalPort = 53
	}
	id, err := w.s.Add(e, o)
	w.NoError(err)
	return id
}

// in gives the stack frames as one burst and returns what it delivers.
func (w *world) in(frames ...[]byte) []Delivery {
	w.t.Helper()
	w.release()
	var list []Frame
	for _, b := range frames {
		list = append(list, Frame{Packet: w.packet(b)})
	}
	w.s.Refresh()
	w.got = w.s.Input(w.now, 0, list, w.got[:0])
	return w.got
}

// packet is a received frame, in as many small buffers as it needs.
func (w *world) packet(b []byte) (p buffers.Packet) {
	l := w.pool.Layout()
	for {
		i, ok := w.pool.Take(buffers.Small)
		w.True(ok)
		n := copy(w.pool.Memory(i)[l.Headroom:l.Headroom+l.SmallSize], b)
		p = w.pool.Append(p, w.pool.Fill(i, l.Headroom, n, 0))
		if b = b[n:]; len(b) == 0 {
			return p
		}
	}
}

func (w *world) release() {
	for i := range w.got {
		w.NoError(w.got[i].Packet.Release())
	}
	w.got = w.got[:0]
}

// out takes the frames that were sent.
func (w *world) out() (frames [][]byte) {
	w.t.Helper()
	for _, o := range w.s.Output(0) {
		frames = append(frames, append([]byte(nil), o.Packet.Bytes()...))
		w.s.giveBack(o.Packet)
	}
	w.s.Took(0, len(frames))
	return frames
}

// only is the one frame that was sent.
func (w *world) only() []byte {
	w.t.Helper()
	frames := w.out()
	w.Len(frames, 1)
	return frames[0]
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	w.now = w.now.Add(d)
	w.s.Advance(w.now)
	w.s.Refresh()
}

// send sends a payload from a socket.
func (w *world) send(id udp.ID, to wire.Addr, port uint16, payload string) (Verdict, error) {
	w.t.Helper()
	p, err := w.pool.Alloc(len(payload))
	w.NoError(err)
	copy(p.Room(), payload)
	p, err = w.pool.Transmit(p)
	w.NoError(err)
	w.s.Refresh()
	v, e := w.s.Send(w.now, id, 0, to, port, p, 0)
	if v != Queued {
		w.s.giveBack(p)
	}
	if e != 0 {
		return v, e
	}
	return v, nil
}

// drop asserts that frames are dropped for this reason, and nothing else happens.
func (w *world) drop(d wire.Drop, frame []byte) {
	w.t.Helper()
	before := w.s.Drops()[d]
	w.Empty(w.in(frame))
	w.Equal(before+1, w.s.Drops()[d], "not counted as %v: %v", d, w.reasons())
}

func (w *world) reasons() (list []string) {
	for d, n := range w.s.Drops() {
		if n > 0 {
			list = append(list, wire.Drop(d).String())
		}
	}
	return list
}

// datagram is a frame to build.
type datagram struct {
	eth     wire.EthernetFields
	ip      wire.IPv4Fields
	udp     wire.UDPFields
	payload string
}

// from is a datagram of the peer's for port 53.
func from(source, target wire.Addr, payload string, change ...func(*datagram)) []byte {
	d := datagram{eth: wire.EthernetFields{Target: ourMAC, Source: peerMAC, Type: wire.TypeIPv4},
		ip:  wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolUDP, Source: source, Target: target},
		udp: wire.UDPFields{SourcePort: 9, TargetPort: 53}, payload: payload}
	if target.IsMulticast() {
		d.eth.Target = wire.GroupMAC(target)
	}
	if target == subnet || target.IsBroadcast() {
		d.eth.Target = wire.Broadcast
	}
	for _, f := range change {
		f(&d)
	}
	segment, err := d.udp.Append(nil, d.ip.Source, d.ip.Target, []byte(d.payload))
	if err != nil {
		panic(err)
	}
	return d.frame(segment)
}

func (d *datagram) frame(segment []byte) []byte {
	b, err := d.ip.Append(d.eth.Append(nil), len(segment))
	if err != nil {
		panic(err)
	}
	return append(b, segment...)
}

// sent is a frame that the stack sent, taken apart; the sums are proven.
type sent struct {
	eth     *wire.Ethernet
	tag     wire.Tag
	ip      *wire.IPv4
	options []byte
	segment []byte
}

func (w *world) parse(frame []byte) (s sent) {
	w.t.Helper()
	eth, tag, typ, rest, d := wire.ParseEthernet(frame)
	w.Equal(wire.Accept, d)
	w.Equal(wire.TypeIPv4, typ)
	s.eth, s.tag = eth, tag
	s.ip, s.options, s.segment, d = wire.ParseIPv4(rest)
	w.Equal(wire.Accept, d, "%v", d)
	return s
}

func (w *world) udp(frame []byte) (s sent, h *wire.UDP, payload string) {
	w.t.Helper()
	s = w.parse(frame)
	h, b, _, d := udp.Parse(s.ip, s.segment, udp.Strict)
	w.Equal(wire.Accept, d, "%v", d)
	return s, h, string(b)
}

func (w *world) arp(frame []byte) (*wire.Ethernet, *wire.ARP) {
	w.t.Helper()
	eth, _, typ, rest, d := wire.ParseEthernet(frame)
	w.Equal(wire.Accept, d)
	w.Equal(wire.TypeARP, typ)
	a, d := wire.ParseARP(rest, eth.Source())
	w.Equal(wire.Accept, d)
	return eth, a
}

func arpFrame(op uint16, mac wire.MAC, sender wire.Addr, to wire.MAC, target wire.Addr) []byte {
	eth := wire.EthernetFields{Target: to, Source: mac, Type: wire.TypeARP}
	if op == wire.ARPRequest {
		eth.Target = wire.Broadcast
	}
	f := wire.ARPFields{Operation: op, SenderMAC: mac, SenderAddr: sender, TargetMAC: to, TargetAddr: target}
	return f.Append(eth.Append(nil))
}

// known makes the peer's address known.
func (w *world) known() {
	w.in(arpFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us))
	w.out()
}
