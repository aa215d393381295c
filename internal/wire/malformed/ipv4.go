package malformed

import (
	"bytes"
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// ethernet adds frames with a bad Ethernet header, and legal ones with padding.
func (f *frames) ethernet() {
	f.class = "frame shorter than 14 bytes"
	f.add("1 byte", wire.EthernetShort, f.good()[:1])
	f.add("13 bytes", wire.EthernetShort, f.good()[:13])
	f.class = "tag where none is expected"
	tagged := func(b ...byte) []byte { return append(append(f.good()[:12:12], b...), f.good()[12:]...) }
	f.add("802.1Q", wire.EthernetTag, tagged(0x81, 0, 0, 5))
	f.add("802.1Q twice", wire.EthernetQinQ, tagged(0x81, 0, 0, 5, 0x81, 0, 0, 6))
	f.add("802.1ad", wire.EthernetQinQ, tagged(0x88, 0xa8, 0, 5))
	f.add("VLAN 4095", wire.EthernetVLAN, tagged(0x81, 0, 0x0f, 0xff))
	f.add("cut in the tag", wire.EthernetShortTag, tagged(0x81, 0, 0, 5)[:17])
	f.legal("priority only", text, tagged(0x81, 0, 0xe0, 0))
	f.class = "addresses and types of Ethernet"
	f.add("from a group", wire.EthernetSource, edited(f.good(), 6, 3))
	f.add("for another station", wire.EthernetNotOurs, edited(f.good(), 0, 2, 0xee, 0xee, 0xee, 0xee, 0xee))
	f.add("a length for a type", wire.EthernetLLC, edited(f.good(), 12, 0, 46))
	f.add("IPv6", wire.EthernetType, edited(f.good(), 12, 0x86, 0xdd))
	f.class = "trailing garbage"
	f.legal("18 bytes", text, padded(f.good(), 18))
	f.legal("to the longest frame", text, append(f.good(), bytes.Repeat([]byte{0xa5}, 1514-len(f.good()))...))
}

// lengths adds packets whose IPv4 version or length fields are bad.
func (f *frames) lengths() {
	f.class = "type IPv4 and 0 to 19 bytes"
	for _, n := range []int{0, 1, 19} {
		f.add(fmt.Sprint(n, " bytes"), wire.IPv4Short, f.good()[:ip+n])
	}
	f.class = "version"
	for _, v := range []byte{0, 5, 6, 15} {
		f.add(fmt.Sprint(v), wire.IPv4Version, f.edit(0, v<<4|5))
	}
	f.class = "header length below 5"
	f.add("0", wire.IPv4HeaderLength, f.edit(0, 0x40))
	f.add("4", wire.IPv4HeaderLength, f.edit(0, 0x44))
	f.class = "header longer than the packet"
	f.add("beyond the frame", wire.IPv4HeaderLength, fixHeaderSum(edited(f.good(), ip, 0x4f))[:ip+40])
	f.add("beyond the total length", wire.IPv4TotalShort, fixHeaderSum(edited(padded(f.good(), 60), ip, 0x4f)))
	f.class = "total length beyond the frame"
	f.add("by one", wire.IPv4TotalLong, f.edit(2, 0, 37))
	f.add("65535", wire.IPv4TotalLong, f.edit(2, 0xff, 0xff))
	f.class = "total length below the header"
	f.add("0", wire.IPv4TotalZero, f.edit(2, 0, 0))
	f.add("19", wire.IPv4TotalShort, f.edit(2, 0, 19))
}

// header adds packets with a bad IPv4 checksum, TTL or protocol.
func (f *frames) header() {
	f.class = "header sum"
	f.add("one bit", wire.IPv4Sum, edited(f.good(), ip+10, f.good()[ip+10]^1))
	f.add("over options", wire.IPv4Sum, edited(f.packet(wire.ProtocolUDP, f.segment(text), 1, 1, 1, 0), udp, 2))
	f.class = "TTL 0"
	f.add("0", wire.IPv4TTL, f.edit(8, 0))
	f.legal("1", text, f.edit(8, 1))
	f.class = "protocol"
	f.add("TCP", wire.IPv4Protocol, f.packet(wire.ProtocolTCP, make([]byte, 20)))
	f.add("SCTP", wire.IPv4Protocol, f.packet(132, make([]byte, 20)))
}

// addresses adds packets with IPv4 addresses that no packet may have.
func (f *frames) addresses() {
	f.class = "source is the destination"
	f.add("ours", wire.IPv4Land, f.edit(12, f.to.Addr[:]...))
	f.class = "source address"
	f.add("0.0.0.0", wire.IPv4SourceZero, f.edit(12, 0, 0, 0, 0))
	f.add("0.1.2.3", wire.IPv4SourceZero, f.edit(12, 0, 1, 2, 3))
	f.add("127.0.0.1", wire.IPv4SourceLoopback, f.edit(12, 127, 0, 0, 1))
	f.add("224.0.0.1", wire.IPv4SourceMulticast, f.edit(12, 224, 0, 0, 1))
	f.add("255.255.255.255", wire.IPv4SourceBroadcast, f.edit(12, 255, 255, 255, 255))
	f.add("240.0.0.1", wire.IPv4SourceBroadcast, f.edit(12, 240, 0, 0, 1))
	f.class = "destination address"
	f.add("0.0.0.0", wire.IPv4TargetZero, f.edit(16, 0, 0, 0, 0))
	f.add("127.0.0.1", wire.IPv4TargetLoopback, f.edit(16, 127, 0, 0, 1))
	f.add("240.0.0.1", wire.IPv4TargetReserved, f.edit(16, 240, 0, 0, 1))
	f.add("of another host", wire.IPv4NotOurs, f.edit(16, 192, 0, 2, 99))
	f.add("unicast in a broadcast frame", wire.IPv4LinkMulticast, edited(f.good(), 0, wire.Broadcast[:]...))
	f.class = "TCP to a group or to all"
	tcp := func(target wire.Addr, mac wire.MAC) []byte {
		return fixHeaderSum(edited(edited(f.packet(wire.ProtocolTCP, make([]byte, 20)), ip+16, target[:]...), 0, mac[:]...))
	}
	f.add("to a group", wire.IPv4Protocol, tcp(wire.AllSystems, wire.GroupMAC(wire.AllSystems)))
	f.add("to all", wire.IPv4Protocol, tcp(wire.Addr{255, 255, 255, 255}, wire.Broadcast))
}

// fragment returns a fragment with n bytes of payload.
func (f *frames) fragment(protocol uint8, flags uint16, offset, n int) []byte {
	b := f.packet(protocol, append(f.segment(text), make([]byte, 48)...)[:n])
	at := flags | uint16(offset/8)
	return fixHeaderSum(edited(b, ip+6, byte(at>>8), byte(at)))
}

// fragments adds bad fragments, and fragments of datagrams that never become whole.
func (f *frames) fragments() {
	const df, mf, reserved = 0x4000, 0x2000, 0x8000
	f.class = "flags"
	f.add("the reserved one", wire.IPv4ReservedFlag, f.fragment(wire.ProtocolUDP, reserved, 0, 16))
	f.add("don't fragment and more fragments", wire.IPv4DFMF, f.fragment(wire.ProtocolUDP, df|mf, 0, 16))
	f.class = "fragment beyond 65535"
	f.add("by its offset", wire.IPv4FragmentEnd, f.fragment(wire.ProtocolUDP, 0, 8191*8, 16))
	f.class = "overlapping fragments"
	f.add("the first", wire.IPv4Fragment, f.fragment(wire.ProtocolUDP, mf, 0, 32))
	f.add("once more", wire.IPv4Fragment, f.fragment(wire.ProtocolUDP, mf, 0, 32))
	f.add("over it", wire.IPv4Fragment, f.fragment(wire.ProtocolUDP, mf, 16, 32))
	f.class = "last fragment twice"
	f.add("with one length", wire.IPv4Fragment, f.fragment(wire.ProtocolUDP, 0, 48, 16))
	f.add("with another", wire.IPv4Fragment, f.fragment(wire.ProtocolUDP, 0, 48, 9))
	f.class = "length of a fragment"
	f.add("no multiple of 8", wire.IPv4FragmentSize, f.fragment(wire.ProtocolUDP, mf, 0, 17))
	f.add("none", wire.IPv4FragmentSize, f.fragment(wire.ProtocolUDP, mf, 8, 0))
	f.class = "first fragment too short for ports and flags"
	f.add("of TCP", wire.IPv4FragmentTiny, f.fragment(wire.ProtocolTCP, mf, 0, 8))
	f.add("over TCP's flags", wire.IPv4FragmentTCP, f.fragment(wire.ProtocolTCP, 0, 8, 16))
}

// options adds packets with bad IPv4 options.
func (f *frames) options() {
	with := func(o ...byte) []byte { return f.packet(wire.ProtocolUDP, f.segment(text), o...) }
	f.class = "options of IPv4"
	f.add("length 0", wire.IPv4OptionLength, with(7, 0, 0, 0))
	f.add("length 1", wire.IPv4OptionLength, with(7, 1, 0, 0))
	f.add("overrun", wire.IPv4OptionOverrun, with(7, 5, 0, 0))
	f.add("without a length", wire.IPv4OptionOverrun, with(1, 1, 1, 7))
	f.add("loose source route", wire.IPv4SourceRoute, with(131, 7, 4, 10, 0, 0, 9, 0))
	f.add("strict source route", wire.IPv4SourceRoute, with(1, 137, 3, 4))
	f.legal("record route", text, with(7, 7, 4, 0, 0, 0, 0, 0))
	f.legal("padding", text, with(1, 1, 1, 0))
}
