package ip_test

import (
	"strings"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

func TestWhatIsNotDeliveredIsCounted(t *testing.T) {
	flip := func(at int, x byte) func([]byte) []byte { return func(b []byte) []byte { b[at] ^= x; return b } }
	set := func(f func(*iptest.Datagram)) []byte { return iptest.From(peer, us, "x", f) }
	for name, c := range map[string]struct {
		frame []byte
		then  func([]byte) []byte
		want  wire.Drop
	}{
		"for another station":          {frame: set(func(d *iptest.Datagram) { d.Eth.Target = gwMAC }), want: wire.EthernetNotOurs},
		"from a group address":         {frame: iptest.From(peer, us, "x"), then: flip(6, 1), want: wire.EthernetSource},
		"a tag that is not expected":   {frame: set(func(d *iptest.Datagram) { d.Eth.Tag = 5 }), want: wire.EthernetTag},
		"IPv6":                         {frame: set(func(d *iptest.Datagram) { d.Eth.Type = 0x86dd }), want: wire.EthernetType},
		"short":                        {frame: []byte{1, 2, 3}, want: wire.EthernetShort},
		"a wrong header sum":           {frame: iptest.From(peer, us, "x"), then: flip(24, 1), want: wire.IPv4Sum},
		"TTL 0":                        {frame: set(func(d *iptest.Datagram) { d.IP.TTL = 0 }), want: wire.IPv4TTL},
		"from our own address":         {frame: iptest.From(us, subnet, "x"), want: wire.IPv4SourceOurs},
		"LAND":                         {frame: iptest.From(us, us, "x"), want: wire.IPv4Land},
		"from 127/8":                   {frame: iptest.From(wire.Addr{127, 0, 0, 1}, us, "x"), want: wire.IPv4SourceLoopback},
		"from a group":                 {frame: iptest.From(grp, us, "x"), want: wire.IPv4SourceMulticast},
		"for another host":             {frame: iptest.From(peer, gateway, "x"), want: wire.IPv4NotOurs},
		"unicast in a broadcast frame": {frame: set(func(d *iptest.Datagram) { d.Eth.Target = wire.Broadcast }), want: wire.IPv4LinkMulticast},
		"first fragment":               {frame: set(func(d *iptest.Datagram) { d.IP.MoreFragments, d.Payload = true, "12345678" }), want: wire.IPv4Fragment},
		"last fragment":                {frame: set(func(d *iptest.Datagram) { d.IP.Offset = 8 }), want: wire.IPv4Fragment},
		"TCP":                          {frame: set(func(d *iptest.Datagram) { d.IP.Protocol = wire.ProtocolTCP }), want: wire.IPv4Protocol},
		"UDP shorter than its header":  {frame: (&iptest.Datagram{Eth: wire.EthernetFields{Target: ourMAC, Source: peerMAC, Type: wire.TypeIPv4}, IP: wire.IPv4Fields{TTL: 1, Protocol: 17, Source: peer, Target: us}}).Frame(make([]byte, 7)), want: wire.UDPShort},
		"UDP longer than its packet":   {frame: iptest.From(peer, us, "x"), then: flip(14+20+5, 0x40), want: wire.UDPLong},
		"UDP with length 0":            {frame: iptest.From(peer, us, "x"), then: flip(14+20+5, 9), want: wire.UDPLength},
		"a wrong sum":                  {frame: iptest.From(peer, us, "x"), then: flip(14+20+8, 1), want: wire.UDPSum},
		"a port that nobody has":       {frame: set(func(d *iptest.Datagram) { d.UDP.TargetPort = 54 }), want: wire.UDPNoSocket},
		"a connected socket's port":    {frame: set(func(d *iptest.Datagram) { d.UDP.TargetPort = 55 }), want: wire.UDPForeignPeer},
		"a group that nobody joined":   {frame: iptest.From(peer, grp, "x"), want: wire.UDPGroupNotJoined},
		"all systems, nobody joined":   {frame: iptest.From(peer, wire.AllSystems, "x"), want: wire.UDPGroupNotJoined},
		"ARP of another protocol":      {frame: iptest.ARPFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us), then: flip(14+2, 1), want: wire.ARPProtocol},
		"ARP that claims our address":  {frame: iptest.ARPFrame(wire.ARPReply, peerMAC, us, ourMAC, peer), want: wire.ARPConflict},
		"ARP that speaks for another":  {frame: iptest.ARPFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us), then: flip(11, 9), want: wire.ARPSpoofed},
		"ICMP with a wrong sum":        {frame: iptest.ICMPFrame((&wire.ICMPEcho{ID: 1}).Append(nil)), then: flip(14+20+4, 1), want: wire.ICMPSum},
		"ICMP redirect":                {frame: iptest.ICMPFrame([]byte{5, 0, 0xfa, 0xff, 0, 0, 0, 0}), want: wire.ICMPType},
		"IGMP with a TTL above 1":      {frame: igmpFrame(2, none4, wire.Query{Version: 3}), want: wire.IGMPTTL},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Socket(udp.Endpoint{Local: us})
			w.Socket(udp.Endpoint{Local: us, LocalPort: 55, Remote: gateway, RemotePort: 1})
			b := c.frame
			if c.then != nil {
				b = c.then(b)
			}
			w.Drop(c.want, b)
			w.Len(w.Reasons(), 1)
			w.Drop(c.want, b)
		})
	}
}

func TestTaggedInterface(t *testing.T) {
	w := newWorld(t, func(c *ip.Config) { c.Interfaces[0].VLAN = 5 })
	id := w.Socket(udp.Endpoint{Local: us})
	tagged := iptest.From(peer, us, "x", func(d *iptest.Datagram) { d.Eth.Tag = 3<<13 | 5 })
	w.Len(w.In(tagged), 1)
	w.Drop(wire.EthernetTag, iptest.From(peer, us, "x"))
	_, err := w.Send(id, peer, 9, "y")
	w.NoError(err)
	eth, _, typ, _, _ := wire.ParseEthernet(w.Only())
	w.Equal(wire.TypeVLAN, eth.Type())
	w.Equal(wire.TypeARP, typ, "it asks for the peer first")
}

func TestFramesOfSeveralBuffersAreGathered(t *testing.T) {
	w := newWorld(t, func(c *ip.Config) { c.Interfaces[0].MTU = 9000 })
	w.Socket(udp.Endpoint{Local: us})
	big := strings.Repeat("0123456789", 600)
	got := w.In(iptest.From(peer, us, big))
	w.Len(got, 1)
	w.Equal(big, string(got[0].Packet.Bytes()))
	w.Equal(1, got[0].Packet.NumBuffers())
	w.Equal(uint64(1), w.IP.Stats().Gathered)
}

// A frame that is lost because no large buffer is free is counted once: it was not its sender who cut it.
func TestFrameWithoutALargeBufferIsCountedOnce(t *testing.T) {
	w := newWorld(t, func(c *ip.Config) { c.Interfaces[0].MTU = 9000 })
	w.Socket(udp.Endpoint{Local: us})
	for i, ok := w.Pool.Take(buffers.Large); ok; i, ok = w.Pool.Take(buffers.Large) {
		defer w.Pool.Return(i)
	}
	w.Empty(w.In(iptest.From(peer, us, strings.Repeat("0123456789", 600))))
	w.Equal(uint64(1), w.IP.Stats().NoBuffer)
	w.Empty(w.Reasons())
}

func TestEcho(t *testing.T) {
	w := newWorld(t)
	echo := wire.ICMPEcho{ID: 7, Sequence: 9, Data: []byte("ping")}
	w.In(iptest.ICMPFrame(echo.Append(nil)))
	s := w.Parse(w.Only())
	w.Equal(peerMAC, s.Eth.Target())
	w.Equal(peer, s.IP.Target())
	h, body, d := wire.ParseICMP(s.Segment)
	w.Equal(wire.Accept, d)
	w.Equal(wire.ICMPEchoReply, h.Type())
	w.Equal("ping", string(body))
	w.Equal(uint16(7), h.ID())
	// No more than a thousand answers a second, whatever comes.
	for range 3 * ip.AnswerLimit / 2 {
		w.In(iptest.ICMPFrame(echo.Append(nil)))
		w.Out()
	}
	w.NotZero(w.IP.Drops()[wire.ICMPRate])
	w.After(time.Second)
	w.In(iptest.ICMPFrame(echo.Append(nil)))
	w.Only()
}

func TestClosedPortIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.In(iptest.From(peer, us, "anybody?"))
	s := w.Parse(w.Only())
	h, body, d := wire.ParseICMP(s.Segment)
	w.Equal(wire.Accept, d)
	w.Equal(wire.ICMPUnreachable, h.Type())
	w.Equal(wire.ICMPPort, h.Code())
	q, d := wire.ParseQuote(h, body)
	w.Equal(wire.Accept, d)
	w.Equal(uint16(53), q.TargetPort())
	// Not to groups and broadcasts (RFC 1122 3.2.2), and not about a wrong sum.
	w.In(iptest.From(peer, subnet, "x"))
	w.In(iptest.From(peer, grp, "x"))
	bad := iptest.From(peer, us, "x")
	bad[len(bad)-1] ^= 1
	w.In(bad)
	w.Empty(w.Out())
}
