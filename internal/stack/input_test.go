package stack

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

func TestDatagramIsDeliveredInPlace(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Owner: 77, Local: us})
	frame := from(peer, us, "hello")
	got := w.in(append(frame, make([]byte, 60-len(frame))...)) // padded as on a cable
	w.Len(got, 1)
	d := &got[0]
	w.Equal("hello", string(d.Packet.Bytes()))
	w.Equal(1, d.Packet.NumBuffers())
	w.Equal(id, d.ID)
	w.Equal(uint64(77), d.Owner)
	w.Equal(udp.Flow{Source: peer, SourcePort: 9, Target: us, TargetPort: 53, Interface: iface}, d.Flow)
	w.Empty(w.reasons())
}

func TestWhatIsNotDeliveredIsCounted(t *testing.T) {
	flip := func(at int, x byte) func([]byte) []byte { return func(b []byte) []byte { b[at] ^= x; return b } }
	set := func(f func(*datagram)) []byte { return from(peer, us, "x", f) }
	for name, c := range map[string]struct {
		frame []byte
		then  func([]byte) []byte
		want  wire.Drop
	}{
		"for another station":          {frame: set(func(d *datagram) { d.eth.Target = gwMAC }), want: wire.EthernetNotOurs},
		"from a group address":         {frame: from(peer, us, "x"), then: flip(6, 1), want: wire.EthernetSource},
		"a tag that is not expected":   {frame: set(func(d *datagram) { d.eth.Tag = 5 }), want: wire.EthernetTag},
		"IPv6":                         {frame: set(func(d *datagram) { d.eth.Type = 0x86dd }), want: wire.EthernetType},
		"short":                        {frame: []byte{1, 2, 3}, want: wire.EthernetShort},
		"a wrong header sum":           {frame: from(peer, us, "x"), then: flip(24, 1), want: wire.IPv4Sum},
		"TTL 0":                        {frame: set(func(d *datagram) { d.ip.TTL = 0 }), want: wire.IPv4TTL},
		"from our own address":         {frame: from(us, subnet, "x"), want: wire.IPv4SourceOurs},
		"LAND":                         {frame: from(us, us, "x"), want: wire.IPv4Land},
		"from 127/8":                   {frame: from(wire.Addr{127, 0, 0, 1}, us, "x"), want: wire.IPv4SourceLoopback},
		"from a group":                 {frame: from(grp, us, "x"), want: wire.IPv4SourceMulticast},
		"for another host":             {frame: from(peer, gateway, "x"), want: wire.IPv4NotOurs},
		"unicast in a broadcast frame": {frame: set(func(d *datagram) { d.eth.Target = wire.Broadcast }), want: wire.IPv4LinkMulticast},
		"first fragment":               {frame: set(func(d *datagram) { d.ip.MoreFragments, d.payload = true, "12345678" }), want: wire.IPv4Fragment},
		"last fragment":                {frame: set(func(d *datagram) { d.ip.Offset = 8 }), want: wire.IPv4Fragment},
		"TCP":                          {frame: set(func(d *datagram) { d.ip.Protocol = wire.ProtocolTCP }), want: wire.IPv4Protocol},
		"UDP shorter than its header":  {frame: (&datagram{eth: wire.EthernetFields{Target: ourMAC, Source: peerMAC, Type: wire.TypeIPv4}, ip: wire.IPv4Fields{TTL: 1, Protocol: 17, Source: peer, Target: us}}).frame(make([]byte, 7)), want: wire.UDPShort},
		"UDP longer than its packet":   {frame: from(peer, us, "x"), then: flip(14+20+5, 0x40), want: wire.UDPLong},
		"UDP with length 0":            {frame: from(peer, us, "x"), then: flip(14+20+5, 9), want: wire.UDPLength},
		"a wrong sum":                  {frame: from(peer, us, "x"), then: flip(14+20+8, 1), want: wire.UDPSum},
		"a port that nobody has":       {frame: set(func(d *datagram) { d.udp.TargetPort = 54 }), want: wire.UDPNoSocket},
		"a connected socket's port":    {frame: set(func(d *datagram) { d.udp.TargetPort = 55 }), want: wire.UDPForeignPeer},
		"a group that nobody joined":   {frame: from(peer, grp, "x"), want: wire.UDPGroupNotJoined},
		"all systems, nobody joined":   {frame: from(peer, wire.AllSystems, "x"), want: wire.UDPGroupNotJoined},
		"ARP of another protocol":      {frame: arpFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us), then: flip(14+2, 1), want: wire.ARPProtocol},
		"ARP that claims our address":  {frame: arpFrame(wire.ARPReply, peerMAC, us, ourMAC, peer), want: wire.ARPConflict},
		"ARP that speaks for another":  {frame: arpFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us), then: flip(11, 9), want: wire.ARPSpoofed},
		"ICMP with a wrong sum":        {frame: icmpFrame((&wire.ICMPEcho{ID: 1}).Append(nil)), then: flip(14+20+4, 1), want: wire.ICMPSum},
		"ICMP redirect":                {frame: icmpFrame([]byte{5, 0, 0xfa, 0xff, 0, 0, 0, 0}), want: wire.ICMPType},
		"IGMP with a TTL above 1":      {frame: igmpFrame(2, none4, wire.Query{Version: 3}), want: wire.IGMPTTL},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.socket(udp.Endpoint{Local: us})
			w.socket(udp.Endpoint{Local: us, LocalPort: 55, Remote: gateway, RemotePort: 1})
			b := c.frame
			if c.then != nil {
				b = c.then(b)
			}
			w.drop(c.want, b)
			w.Len(w.reasons(), 1)
			w.drop(c.want, b)
		})
	}
}

func TestChecksumPolicies(t *testing.T) {
	partial := from(peer, us, "x")
	sum := wire.Pseudo(peer, us, wire.ProtocolUDP, 9)
	partial[14+20+6], partial[14+20+7] = byte(sum>>8), byte(sum)
	policy := func(p udp.Policy) func(*Config) { return func(c *Config) { c.Interfaces[0].Checksum = p } }

	w := newWorld(t)
	w.socket(udp.Endpoint{Local: us})
	w.drop(wire.UDPPartial, partial)
	w = newWorld(t, policy(udp.AcceptPartial))
	w.socket(udp.Endpoint{Local: us})
	w.Len(w.in(partial), 1)
	w.Equal(uint64(1), w.s.Stats().Partial)
	bad := from(peer, us, "x")
	bad[len(bad)-1] ^= 1
	w.drop(wire.UDPSum, bad)
	w = newWorld(t, policy(udp.Off))
	w.socket(udp.Endpoint{Local: us})
	w.Len(w.in(bad), 1)
}

func TestTaggedInterface(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Interfaces[0].VLAN = 5 })
	id := w.socket(udp.Endpoint{Local: us})
	tagged := from(peer, us, "x", func(d *datagram) { d.eth.Tag = 3<<13 | 5 })
	w.Len(w.in(tagged), 1)
	w.drop(wire.EthernetTag, from(peer, us, "x"))
	_, err := w.send(id, peer, 9, "y")
	w.NoError(err)
	eth, _, typ, _, _ := wire.ParseEthernet(w.only())
	w.Equal(wire.TypeVLAN, eth.Type())
	w.Equal(wire.TypeARP, typ, "it asks for the peer first")
}

func TestMembersShareAPacket(t *testing.T) {
	w := newWorld(t)
	var ids []udp.ID
	for range 3 {
		id := w.socket(udp.Endpoint{Local: grp})
		w.NoError(w.s.Join(w.now, id, grp, iface, none4))
		ids = append(ids, id)
	}
	w.out()
	got := w.in(from(peer, grp, "to all"))
	w.Len(got, 3)
	for i := range got {
		w.Equal("to all", string(got[i].Packet.Bytes()))
		w.Equal(got[0].Packet, got[i].Packet)
		w.Contains(ids, got[i].ID)
	}
	w.Equal(255, w.pool.Ledger().Free-8, "one buffer for all")
	w.NoError(w.s.Leave(w.now, ids[1], grp, iface, none4))
	w.Len(w.in(from(peer, grp, "x")), 2)
	// 32 groups share a MAC address (RFC 1112 6.4): the group decides.
	same := wire.Addr{239, 129, 1, 1}
	w.drop(wire.UDPGroupNotJoined, from(peer, same, "x"))
}

func TestBroadcast(t *testing.T) {
	w := newWorld(t)
	w.socket(udp.Endpoint{})
	w.socket(udp.Endpoint{Local: subnet})
	w.socket(udp.Endpoint{Local: us})
	w.Len(w.in(from(peer, subnet, "x")), 2)
	w.Len(w.in(from(peer, wire.Addr{255, 255, 255, 255}, "x")), 1)
}

// A socket that does not read keeps what comes, copied, up to its receive buffer; then it is dropped and counted; the order stays.
func TestStoppedSocketKeeps(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us}, func(o *Options) { o.ReceiveBuffer = 4096 })
	w.s.Stop(id, true)
	n := 0
	for ; w.s.Dropped(id) == 0; n++ {
		w.Empty(w.in(from(peer, us, strings.Repeat("x", n))))
	}
	w.Equal(w.pool.Ledger().Total, w.pool.Ledger().Free, "no buffers are held")
	w.Equal(uint64(1), w.s.Drops()[wire.UDPBudget])
	w.Equal(n-1, w.s.Kept(id))
	w.s.Stop(id, false)
	w.True(w.s.udp.Stopped(id), "new ones queue behind those that are kept")
	for i := range n - 1 {
		d, ok := w.s.Next(id)
		w.True(ok)
		w.Equal(i, d.Packet.Len())
		w.Equal(udp.Flow{Source: peer, SourcePort: 9, Target: us, TargetPort: 53, Interface: iface}, d.Flow)
		w.NoError(d.Packet.Release())
	}
	w.s.Stop(id, false)
	w.Len(w.in(from(peer, us, "now")), 1)
}

func TestFramesOfSeveralBuffersAreGathered(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Interfaces[0].MTU = 9000 })
	w.socket(udp.Endpoint{Local: us})
	big := strings.Repeat("0123456789", 600)
	got := w.in(from(peer, us, big))
	w.Len(got, 1)
	w.Equal(big, string(got[0].Packet.Bytes()))
	w.Equal(1, got[0].Packet.NumBuffers())
	w.Equal(uint64(1), w.s.Stats().Gathered)
}

func TestBurstKeepsItsOrder(t *testing.T) {
	w := newWorld(t)
	a, b := w.socket(udp.Endpoint{Local: us}), w.socket(udp.Endpoint{Local: us, LocalPort: 54})
	var frames [][]byte
	for i := range MaxBurst {
		frames = append(frames, from(peer, us, string(rune('a'+i%26)), func(d *datagram) { d.udp.TargetPort = uint16(53 + i%2) }))
	}
	got := w.in(frames...)
	w.Len(got, MaxBurst)
	for i := range got {
		w.Equal(string(rune('a'+i%26)), string(got[i].Packet.Bytes()))
		w.Equal([]udp.ID{a, b}[i%2], got[i].ID)
	}
}

func icmpFrame(message []byte) []byte {
	d := datagram{eth: wire.EthernetFields{Target: ourMAC, Source: peerMAC, Type: wire.TypeIPv4},
		ip: wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolICMP, Source: peer, Target: us}}
	return d.frame(message)
}

func TestEcho(t *testing.T) {
	w := newWorld(t)
	echo := wire.ICMPEcho{ID: 7, Sequence: 9, Data: []byte("ping")}
	w.in(icmpFrame(echo.Append(nil)))
	s := w.parse(w.only())
	w.Equal(peerMAC, s.eth.Target())
	w.Equal(peer, s.ip.Target())
	h, body, d := wire.ParseICMP(s.segment)
	w.Equal(wire.Accept, d)
	w.Equal(wire.ICMPEchoReply, h.Type())
	w.Equal("ping", string(body))
	w.Equal(uint16(7), h.ID())
	// No more than a thousand answers a second, whatever comes.
	for range 3 * answerLimit / 2 {
		w.in(icmpFrame(echo.Append(nil)))
		w.out()
	}
	w.NotZero(w.s.Drops()[wire.ICMPRate])
	w.after(time.Second)
	w.in(icmpFrame(echo.Append(nil)))
	w.only()
}

func TestClosedPortIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.in(from(peer, us, "anybody?"))
	s := w.parse(w.only())
	h, body, d := wire.ParseICMP(s.segment)
	w.Equal(wire.Accept, d)
	w.Equal(wire.ICMPUnreachable, h.Type())
	w.Equal(wire.ICMPPort, h.Code())
	q, d := wire.ParseQuote(h, body)
	w.Equal(wire.Accept, d)
	w.Equal(uint16(53), q.TargetPort())
	// Not to groups and broadcasts (RFC 1122 3.2.2), and not about a wrong sum.
	w.in(from(peer, subnet, "x"))
	w.in(from(peer, grp, "x"))
	bad := from(peer, us, "x")
	bad[len(bad)-1] ^= 1
	w.in(bad)
	w.Empty(w.out())
}

func TestErrorsReachConnectedSockets(t *testing.T) {
	w := newWorld(t)
	w.socket(udp.Endpoint{Owner: 5, Local: us, Remote: peer, RemotePort: 9})
	w.socket(udp.Endpoint{Owner: 6, Local: us, LocalPort: 54})
	quoted := func(port uint16) []byte {
		return from(us, peer, "what was sent", func(d *datagram) { d.udp = wire.UDPFields{SourcePort: port, TargetPort: 9} })[14:]
	}
	unreachable := func(code uint8, mtu uint16, packet []byte) []byte {
		b, err := (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: code, MTU: mtu, Packet: packet}).Append(nil)
		w.NoError(err)
		return icmpFrame(b)
	}
	w.in(unreachable(wire.ICMPPort, 0, quoted(53)))
	w.Equal([]Event{{Owner: 5, Errno: unix.ECONNREFUSED}}, w.s.Events())
	w.s.Clear()
	w.in(unreachable(wire.ICMPPort, 0, quoted(54))) // not connected: it sends to many
	w.in(unreachable(wire.ICMPHost, 0, quoted(53))) // passing
	w.Empty(w.s.Events())
	w.drop(wire.ICMPNoSocket, unreachable(wire.ICMPPort, 0, quoted(99)))
	w.Empty(w.s.Events())
}
