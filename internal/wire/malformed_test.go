package wire

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// parse takes a frame as far as a stack would, and says at what it stopped; loopback off, no tag expected.
func parse(frame []byte) Drop {
	eth, tag, typ, rest, d := ParseEthernet(frame)
	if d != Accept {
		return d
	}
	if d = tag.Expect(0); d != Accept {
		return d
	}
	switch typ {
	case TypeARP:
		_, d = ParseARP(rest, eth.Source())
		return d
	case TypeIPv4:
	default:
		return EthernetType
	}
	ip, _, rest, d := ParseIPv4(rest)
	if d != Accept {
		return d
	}
	if d = ip.Addresses(false, eth.Target().IsGroup()); d != Accept {
		return d
	}
	if ip.IsFragment() {
		return IPv4Fragment
	}
	switch ip.Protocol() {
	case ProtocolUDP:
		udp, payload, d := ParseUDP(rest)
		if d != Accept {
			return d
		}
		switch CheckUDP(ip, udp, payload) {
		case SumBad:
			return UDPSum
		case SumPartial:
			return UDPPartial
		}
		return Accept
	case ProtocolICMP:
		h, body, d := ParseICMP(rest)
		if d != Accept || !h.IsError() {
			return d
		}
		_, d = ParseQuote(h, body)
		return d
	case ProtocolIGMP:
		h, body, d := ParseIGMP(rest)
		if d != Accept {
			return d
		}
		switch h.Type() {
		case IGMPQuery:
			_, d = ParseQuery(h, body)
		case IGMPv3Report:
			for n := h.Records(); n > 0 && d == Accept; n-- {
				_, body, d = ParseRecord(body)
			}
		}
		return d
	}
	return IPv4Protocol
}

// frameOf is a good frame around an IPv4 payload.
func frameOf(t testing.TB, protocol uint8, payload []byte) []byte {
	t.Helper()
	eth := EthernetFields{Target: macB, Source: macA, Type: TypeIPv4}
	ip := IPv4Fields{TTL: 64, Protocol: protocol, Source: ipA, Target: ipB}
	b, err := ip.Append(eth.Append(nil), len(payload))
	require.NoError(t, err)
	return append(b, payload...)
}

// resum makes the header sum right again after an edit.
func resum(b []byte) []byte {
	ip := b[EthernetLen:]
	n := min(int(ip[0]&0xf)*4, len(ip))
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], Sum(0).Add(ip[:n]).Check())
	return b
}

// sealed makes the sum of an ICMP or IGMP message right.
func sealed(b []byte) []byte {
	if len(b) >= 4 {
		b[2], b[3] = 0, 0
		binary.BigEndian.PutUint16(b[2:], Sum(0).Add(b).Check())
	}
	return b
}

// TestMalformed has a line for each way to be malformed, and the code that counts it.
func TestMalformed(t *testing.T) {
	good := func() []byte { return raw(t, datagram) }
	// edit changes bytes of the good datagram, from the start of IPv4, and makes the header sum right.
	edit := func(at int, with ...byte) []byte {
		b := good()
		copy(b[EthernetLen+at:], with)
		return resum(b)
	}
	options := func(o ...byte) []byte {
		eth := EthernetFields{Target: macB, Source: macA, Type: TypeIPv4}
		ip := IPv4Fields{TTL: 64, Protocol: ProtocolUDP, Source: ipA, Target: ipB, Options: o}
		b, err := ip.Append(eth.Append(nil), 10)
		require.NoError(t, err)
		return append(b, raw(t, datagram)[34:]...)
	}
	udp := func(edit func(b []byte) []byte) []byte {
		return frameOf(t, ProtocolUDP, edit(raw(t, datagram)[34:]))
	}
	arp := func(at int, with ...byte) []byte {
		eth := EthernetFields{Target: Broadcast, Source: macA, Type: TypeARP}
		f := ARPFields{Operation: ARPRequest, SenderMAC: macA, SenderAddr: ipA, TargetAddr: ipB}
		b := f.Append(eth.Append(nil))
		copy(b[EthernetLen+at:], with)
		return b
	}
	icmp := func(b []byte) []byte { return frameOf(t, ProtocolICMP, b) }
	icmpError := func(kind, code byte, mtu uint16, quote []byte) []byte {
		b := append([]byte{kind, code, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu)}, quote...)
		return icmp(sealed(b))
	}
	quoted := raw(t, datagram)[14:]
	igmp := func(dump string) []byte { return frameOf(t, ProtocolIGMP, sealed(raw(t, dump))) }
	bare := func(typ string, rest ...byte) []byte {
		return append(raw(t, "02000000000b 02000000000a "+typ), rest...)
	}

	for _, c := range []struct {
		name  string
		want  Drop
		frame []byte
	}{
		{"the good one", Accept, good()},
		{"no bytes", EthernetShort, nil},
		{"13 bytes", EthernetShort, good()[:13]},
		{"source multicast", EthernetSource, raw(t, `02000000000b 03000000000a 0800`)},
		{"802.3 with LLC", EthernetLLC, bare("0026", 0x42, 0x42, 3)},
		{"type between length and Ethernet II", EthernetLLC, bare("05ff")},
		{"tag cut", EthernetShortTag, bare("8100", 0, 5, 8)},
		{"tag not expected", EthernetTag, append(bare("8100", 0, 5), good()[12:]...)},
		{"two tags", EthernetQinQ, bare("8100", 0, 5, 0x81, 0, 0, 6, 8, 0)},
		{"802.1ad", EthernetQinQ, bare("88a8", 0, 5, 8, 0)},
		{"802.1ad inside", EthernetQinQ, bare("8100", 0, 5, 0x88, 0xa8, 0, 6, 8, 0)},
		{"the older double tag", EthernetQinQ, bare("9100", 0, 5, 8, 0)},
		{"VLAN 4095", EthernetVLAN, bare("8100", 0x0f, 0xff, 8, 0)},
		{"LLC behind a tag", EthernetLLC, bare("8100", 0, 5, 0, 30)},
		{"IPv6", EthernetType, bare("86dd", 0x60)},
		{"priority tag on a good datagram", Accept, append(bare("8100", 0xe0, 0), good()[12:]...)},
		{"padding", Accept, append(good(), make([]byte, 16)...)},
		{"trailing garbage to 9000", Accept, append(good(), make([]byte, 9000-44)...)},

		{"ARP good", Accept, arp(0)},
		{"ARP cut", ARPShort, arp(0)[:EthernetLen+27]},
		{"ARP of token ring", ARPHardware, arp(0, 0, 6)},
		{"ARP hardware size", ARPHardware, arp(4, 7)},
		{"ARP of IPv6", ARPProtocol, arp(2, 0x86, 0xdd)},
		{"ARP protocol size", ARPProtocol, arp(5, 16)},
		{"ARP operation 0", ARPOperation, arp(6, 0, 0)},
		{"ARP operation 9", ARPOperation, arp(6, 0, 9)},
		{"ARP sender multicast", ARPSender, arp(8, 3)},
		{"ARP sender broadcast", ARPSender, arp(8, Broadcast[:]...)},
		{"ARP sender zero", ARPSender, arp(8, 0, 0, 0, 0, 0, 0)},
		{"ARP sender not the source", ARPSpoofed, arp(8, macB[:]...)},
		{"ARP sender address multicast", ARPAddress, arp(14, 224, 0, 0, 1)},
		{"ARP sender address broadcast", ARPAddress, arp(14, 255, 255, 255, 255)},
		{"ARP sender address loopback", ARPAddress, arp(14, 127, 0, 0, 1)},
		{"ARP probe", Accept, arp(14, 0, 0, 0, 0)},

		{"IPv4 of 0 bytes", IPv4Short, good()[:14]},
		{"IPv4 of 19 bytes", IPv4Short, good()[:33]},
		{"version 0", IPv4Version, edit(0, 0x05)},
		{"version 5", IPv4Version, edit(0, 0x55)},
		{"version 6", IPv4Version, edit(0, 0x65)},
		{"version 15", IPv4Version, edit(0, 0xf5)},
		{"IHL 0", IPv4HeaderLength, edit(0, 0x40)},
		{"IHL 4", IPv4HeaderLength, edit(0, 0x44)},
		{"IHL beyond the frame", IPv4HeaderLength, edit(0, 0x4f)},
		{"IHL beyond total length", IPv4TotalShort, append(edit(0, 0x4f), make([]byte, 60)...)},
		{"total length 0", IPv4TotalZero, edit(2, 0, 0)},
		{"total length 19", IPv4TotalShort, edit(2, 0, 19)},
		{"total length beyond the frame", IPv4TotalLong, edit(2, 0, 31)},
		{"total length 65535", IPv4TotalLong, edit(2, 0xff, 0xff)},
		{"header sum", IPv4Sum, func() []byte { b := good(); b[EthernetLen+11]++; return b }()},
		{"header sum over options", IPv4Sum, func() []byte { b := options(1, 1, 1, 1); b[EthernetLen+21] = 7; return b }()},
		{"TTL 0", IPv4TTL, edit(8, 0)},
		{"TTL 1", Accept, edit(8, 1)},
		{"reserved flag", IPv4ReservedFlag, edit(6, 0x80)},
		{"reserved flag and DF", IPv4ReservedFlag, edit(6, 0xc0)},
		{"DF and MF", IPv4DFMF, edit(6, 0x60)},
		{"fragment beyond 65535", IPv4FragmentEnd, edit(6, 0x1f, 0xff)},
		{"more fragments, 10 bytes", IPv4FragmentSize, edit(6, 0x20, 0)},
		{"more fragments, none here", IPv4FragmentSize, resum(func() []byte { b := edit(6, 0x20, 0); b[17] = 20; return b }())},
		{"first fragment of TCP too short", IPv4FragmentTiny,
			resum(func() []byte { b := edit(6, 0x20, 0); b[17] = 28; b[23] = ProtocolTCP; return b }())},
		{"first fragment of UDP with its header", IPv4Fragment, resum(func() []byte { b := edit(6, 0x20, 0); b[17] = 28; return b }())},
		{"TCP at offset 8", IPv4FragmentTCP, resum(func() []byte { b := edit(6, 0, 1); b[23] = ProtocolTCP; return b }())},
		{"last fragment", IPv4Fragment, edit(6, 0, 5)},
		{"option length 0", IPv4OptionLength, options(7, 0, 0, 0)},
		{"option length 1", IPv4OptionLength, options(7, 1, 0, 0)},
		{"option overrun", IPv4OptionOverrun, options(7, 5, 0, 0)},
		{"option without length", IPv4OptionOverrun, options(1, 1, 1, 7)},
		{"loose source route", IPv4SourceRoute, options(131, 3, 4, 0)},
		{"strict source route behind padding", IPv4SourceRoute, options(1, 137, 3, 4)},
		{"router alert", Accept, options(RouterAlert[:]...)},
		{"record route", Accept, options(7, 7, 4, 0, 0, 0, 0, 0)},
		{"garbage behind the end of options", Accept, options(0, 131, 0, 0)},
		{"source 0.0.0.0", IPv4SourceZero, edit(12, 0, 0, 0, 0)},
		{"source 0.1.2.3", IPv4SourceZero, edit(12, 0, 1, 2, 3)},
		{"source loopback", IPv4SourceLoopback, edit(12, 127, 0, 0, 1)},
		{"source multicast", IPv4SourceMulticast, edit(12, 239, 0, 0, 1)},
		{"source broadcast", IPv4SourceBroadcast, edit(12, 255, 255, 255, 255)},
		{"source reserved", IPv4SourceBroadcast, edit(12, 240, 0, 0, 1)},
		{"target zero", IPv4TargetZero, edit(16, 0, 0, 0, 0)},
		{"target loopback", IPv4TargetLoopback, edit(16, 127, 0, 0, 1)},
		{"target reserved", IPv4TargetReserved, edit(16, 240, 0, 0, 1)},
		{"LAND", IPv4Land, edit(16, ipA[:]...)},
		{"unicast in a group frame", IPv4LinkMulticast, append(append([]byte{}, Broadcast[:]...), good()[6:]...)},
		{"SCTP", IPv4Protocol, edit(9, 132)},

		{"UDP of 7 bytes", UDPShort, frameOf(t, ProtocolUDP, make([]byte, 7))},
		{"UDP length 0", UDPLength, udp(func(b []byte) []byte { b[5] = 0; return b })},
		{"UDP length 7", UDPLength, udp(func(b []byte) []byte { b[5] = 7; return b })},
		{"UDP length beyond", UDPLong, udp(func(b []byte) []byte { b[5]++; return b })},
		{"UDP length 65535", UDPLong, udp(func(b []byte) []byte { b[4], b[5] = 255, 255; return b })},
		{"UDP shorter than the IP payload", Accept, udp(func(b []byte) []byte { return append(b, 1, 2, 3) })},
		{"UDP sum 0", Accept, udp(func(b []byte) []byte { b[6], b[7] = 0, 0; return b })},
		{"UDP sum", UDPSum, udp(func(b []byte) []byte { b[7]++; return b })},
		{"UDP payload bit", UDPSum, udp(func(b []byte) []byte { b[9] ^= 1; return b })},
		{"UDP address", UDPSum, edit(12, 10, 0, 0, 9)},
		{"UDP partial sum", UDPPartial, udp(func(b []byte) []byte { b[6], b[7] = 0x14, 0x1e; return b })},
		{"UDP to port 0", UDPPort, udp(func(b []byte) []byte { b[2], b[3] = 0, 0; return b })},
		{"UDP from port 0", Accept, udp(func(b []byte) []byte { b[0], b[1], b[6], b[7] = 0, 0, 0, 0; return b })},

		{"ICMP of 7 bytes", ICMPShort, icmp(sealed([]byte{8, 0, 0, 0, 0, 0, 0}))},
		{"ICMP sum", ICMPSum, icmp([]byte{8, 0, 1, 1, 0, 0, 0, 0})},
		{"ICMP type 99", ICMPType, icmp(sealed([]byte{99, 0, 0, 0, 0, 0, 0, 0}))},
		{"ICMP redirect", ICMPType, icmpError(5, 0, 0, quoted)},
		{"ICMP source quench", ICMPType, icmpError(4, 0, 0, quoted)},
		{"ICMP echo with a code", ICMPCode, icmp(sealed([]byte{8, 1, 0, 0, 0, 0, 0, 0}))},
		{"ICMP unreachable code 16", ICMPCode, icmpError(3, 16, 0, quoted)},
		{"ICMP time exceeded code 2", ICMPCode, icmpError(11, 2, 0, quoted)},
		{"ICMP error without a quote", ICMPQuoteShort, icmpError(3, 3, 0, nil)},
		{"ICMP error quoting 7 bytes", ICMPQuoteShort, icmpError(3, 3, 0, quoted[:27])},
		{"ICMP error quoting options and 7 bytes", ICMPQuoteShort,
			icmpError(3, 3, 0, append([]byte{0x46}, append(quoted[1:20:20], make([]byte, 11)...)...))},
		{"ICMP error quoting IPv6", ICMPQuote, icmpError(3, 3, 0, append([]byte{0x65}, quoted[1:]...))},
		{"ICMP error quoting IHL 4", ICMPQuote, icmpError(3, 3, 0, append([]byte{0x44}, quoted[1:]...))},
		{"ICMP error about a later fragment", ICMPQuoteTail,
			icmpError(3, 3, 0, append(append(append([]byte{}, quoted[:6]...), 0, 5), quoted[8:]...))},
		{"ICMP fragmentation needed, MTU 0", ICMPMTU, icmpError(3, 4, 0, quoted)},
		{"ICMP fragmentation needed, MTU 1", ICMPMTU, icmpError(3, 4, 1, quoted)},
		{"ICMP fragmentation needed, MTU 67", ICMPMTU, icmpError(3, 4, 67, quoted)},
		{"ICMP fragmentation needed, MTU 65535", ICMPMTULarge, icmpError(3, 4, 65535, quoted)},
		{"ICMP fragmentation needed, good", Accept,
			icmpError(3, 4, 1400, append(append(append([]byte{}, quoted[:2]...), 5, 0xdc), quoted[4:]...))},
		{"ICMP port unreachable", Accept, icmpError(3, 3, 0, quoted)},
		{"ICMP parameter problem", Accept, icmpError(12, 0, 0, quoted)},

		{"IGMP of 7 bytes", IGMPShort, igmp(`11 00 0000 000000`)},
		{"IGMP sum", IGMPSum, frameOf(t, ProtocolIGMP, raw(t, `11 00 0001 00000000`))},
		{"IGMP type", IGMPType, igmp(`13 00 0000 00000000`)},
		{"IGMP query of 9 bytes", IGMPLength, igmp(`11 64 0000 00000000 00`)},
		{"IGMP query of 11 bytes", IGMPLength, igmp(`11 64 0000 00000000 000000`)},
		{"IGMP query of a unicast group", IGMPGroup, igmp(`11 64 0000 0a000001`)},
		{"IGMP query with sources of no group", IGMPGroup, igmp(`11 64 0000 00000000 00 00 0001 0a000001`)},
		{"IGMP query with a source missing", IGMPSources, igmp(`11 64 0000 ef010203 00 00 0002 0a000001`)},
		{"IGMP query with 65535 sources", IGMPSources, igmp(`11 64 0000 ef010203 00 00 ffff 0a000001`)},
		{"IGMP query with more behind it", Accept, igmp(`11 64 0000 ef010203 00 00 0001 0a000001 ffff`)},
		{"IGMP report of version 2 for a unicast group", IGMPGroup, igmp(`16 00 0000 0a000001`)},
		{"IGMP report of version 1", Accept, igmp(`12 00 0000 ef010203`)},
		{"IGMP leave", Accept, igmp(`17 00 0000 ef010203`)},
		{"IGMP report without its record", IGMPRecords, igmp(`22 00 0000 0000 0001`)},
		{"IGMP report with sources missing", IGMPRecords, igmp(`22 00 0000 0000 0001 04 00 0001 ef010203`)},
		{"IGMP report with auxiliary data missing", IGMPRecords, igmp(`22 00 0000 0000 0001 04 ff 0000 ef010203`)},
		{"IGMP report with 65535 sources", IGMPRecords, igmp(`22 00 0000 0000 0001 04 00 ffff ef010203`)},
		{"IGMP record of type 7", IGMPRecord, igmp(`22 00 0000 0000 0001 07 00 0000 ef010203`)},
		{"IGMP record of a unicast group", IGMPRecord, igmp(`22 00 0000 0000 0001 04 00 0000 0a000001`)},
		{"IGMP record with auxiliary data", Accept, igmp(`22 00 0000 0000 0001 04 01 0001 ef010203 0a000001 deadbeef`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want.String(), parse(c.frame).String())
			require.Zero(t, testing.AllocsPerRun(10, func() { _ = parse(c.frame) }), "no frame may cost memory")
		})
	}
}

func TestIGMPMayComeFromNobody(t *testing.T) {
	b := frameOf(t, ProtocolIGMP, sealed(raw(t, `11 64 0000 00000000`)))
	copy(b[EthernetLen+12:], []byte{0, 0, 0, 0})
	require.Equal(t, Accept, parse(resum(b)))
	copy(b[EthernetLen+12:], []byte{0, 0, 0, 1})
	require.Equal(t, IPv4SourceZero, parse(resum(b)))
}

func TestLoopbackHasItsOwnRules(t *testing.T) {
	h := &IPv4{12: 127, 15: 1, 16: 127, 19: 1}
	require.Equal(t, Accept, h.Addresses(true, false))
	require.Equal(t, IPv4SourceLoopback, h.Addresses(false, false))
}

func TestBroadcastInAGroupFrame(t *testing.T) {
	h := &IPv4{12: 10, 16: 255, 17: 255, 18: 255, 19: 255}
	require.Equal(t, Accept, h.Addresses(false, true))
	h = &IPv4{12: 10, 16: 239}
	require.Equal(t, Accept, h.Addresses(false, true))
}

// TestEachDropHasAName: names are counters; each is there once.
func TestEachDropHasAName(t *testing.T) {
	seen := map[string]Drop{}
	for d := range Drop(NumDrops) {
		name := d.String()
		if name == "unknown" {
			continue
		}
		other, twice := seen[name]
		require.False(t, twice, "%s is %d and %d", name, other, d)
		seen[name] = d
	}
	require.Len(t, seen, 1+10+8+30+10+12+9+14)
	require.Equal(t, "unknown", Drop(255).String())
	for _, last := range []Drop{EthernetInactive, ARPConflict, IPv4Protocol, UDPGroupNotJoined, ICMPRate, IGMPTTL, TCPFlagsBad} {
		require.NotEqual(t, "unknown", last.String())
		require.Less(t, int(last), NumDrops)
	}
}

func TestMayAnswer(t *testing.T) {
	ask := func(f IPv4Fields, payload []byte, group bool) bool {
		b, err := f.Append(nil, len(payload))
		require.NoError(t, err)
		ip, _, rest, d := ParseIPv4(append(b, payload...))
		require.Equal(t, Accept, d)
		return MayAnswer(ip, rest, group)
	}
	f := IPv4Fields{TTL: 1, Protocol: ProtocolUDP, Source: ipA, Target: ipB}
	require.True(t, ask(f, make([]byte, 8), false))
	require.False(t, ask(f, make([]byte, 8), true), "a broadcast frame")
	g := f
	g.Target = Addr{239, 0, 0, 1}
	require.False(t, ask(g, make([]byte, 8), false))
	g = f
	g.Offset = 64
	require.False(t, ask(g, make([]byte, 8), false))
	g = f
	g.Source = Addr{}
	require.False(t, ask(g, make([]byte, 8), false))
	g = f
	g.Protocol = ProtocolICMP
	require.True(t, ask(g, []byte{ICMPEchoRequest}, false))
	require.False(t, ask(g, []byte{ICMPUnreachable}, false))
	require.False(t, ask(g, []byte{5}, false))
	require.False(t, ask(g, nil, false))
}
