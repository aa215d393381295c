package malformed

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// udp adds datagrams with a bad UDP header.
func (f *frames) udp() {
	edit := func(at int, with ...byte) []byte { return edited(f.good(), udp+at, with...) }
	f.class = "length of UDP"
	f.add("7 bytes of it", wire.UDPShort, f.packet(wire.ProtocolUDP, f.segment(text)[:7]))
	f.add("0", wire.UDPLength, edit(4, 0, 0))
	f.add("7", wire.UDPLength, edit(4, 0, 7))
	f.add("beyond the packet", wire.UDPLong, edit(4, 0, 17))
	f.add("65535", wire.UDPLong, edit(4, 0xff, 0xff))
	f.legal("shorter than the packet", text, f.packet(wire.ProtocolUDP, append(f.segment(text), "behind it"...)))
	f.class = "sum of UDP"
	f.add("one bit of the payload", wire.UDPSum, edit(8, text[0]^1))
	f.add("one bit of the source address", wire.UDPSum, f.edit(15, f.from.Addr[3]^0x40))
	f.legal("none", text, edit(6, 0, 0))
	f.class = "port 0"
	to0 := wire.UDPFields{SourcePort: f.from.Port, TargetPort: 1}
	zero := must(to0.Append(nil, f.from.Addr, f.to.Addr, []byte(text)))
	f.add("destination", wire.UDPPort, f.packet(wire.ProtocolUDP, edited(zero, 2, 0, 0, 0, 16, 0, 0)))
	f.legal("source", text, edited(edit(0, 0, 0), udp+6, 0, 0))
}

// arp adds bad ARP packets.
func (f *frames) arp() {
	request := func(at int, with ...byte) []byte {
		e := wire.EthernetFields{Target: wire.Broadcast, Source: f.from.MAC, Type: wire.TypeARP}
		a := wire.ARPFields{Operation: wire.ARPRequest, SenderMAC: f.from.MAC, SenderAddr: f.from.Addr, TargetAddr: f.to.Addr}
		return edited(a.Append(e.Append(nil)), wire.EthernetLen+at, with...)
	}
	f.class = "ARP"
	f.add("27 bytes", wire.ARPShort, request(0)[:wire.EthernetLen+27])
	f.add("hardware of token ring", wire.ARPHardware, request(0, 0, 6))
	f.add("hardware size 7", wire.ARPHardware, request(4, 7))
	f.add("of IPv6", wire.ARPProtocol, request(2, 0x86, 0xdd))
	f.add("protocol size 16", wire.ARPProtocol, request(5, 16))
	f.add("operation 0", wire.ARPOperation, request(6, 0, 0))
	f.add("operation 9", wire.ARPOperation, request(6, 0, 9))
	f.add("sender's MAC multicast", wire.ARPSender, request(8, 3))
	f.add("sender's MAC broadcast", wire.ARPSender, request(8, wire.Broadcast[:]...))
	f.add("sender's MAC not the frame's", wire.ARPSpoofed, request(8, 2, 0xee, 0xee, 0xee, 0xee, 0xee))
	f.add("sender's address multicast", wire.ARPAddress, request(14, 224, 0, 0, 1))
	f.add("sender's address broadcast", wire.ARPAddress, request(14, 255, 255, 255, 255))
	f.add("sender's address ours", wire.ARPConflict, request(14, f.to.Addr[:]...))
}

// icmp adds bad ICMP messages, and errors with a bad quote.
func (f *frames) icmp() {
	about := func(kind, code byte, mtu uint16, quote []byte) []byte {
		return f.packet(wire.ProtocolICMP, withMessageSum(append([]byte{kind, code, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu)}, quote...)...))
	}
	// What the other end claims to have had from us: a datagram of a socket that we do not have.
	ours := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolUDP, Source: f.to.Addr, Target: f.from.Addr}
	quote := append(must(ours.Append(nil, 1400)), 0xff, 0xfe, 0, 9, 5, 0x78, 0, 0)
	f.class = "ICMP"
	f.add("7 bytes", wire.ICMPShort, f.packet(wire.ProtocolICMP, withMessageSum(8, 0, 0, 0, 0, 0, 0)))
	f.add("wrong sum", wire.ICMPSum, f.packet(wire.ProtocolICMP, []byte{8, 0, 1, 1, 0, 0, 0, 0}))
	f.add("unknown type", wire.ICMPType, about(99, 0, 0, nil))
	f.add("redirect", wire.ICMPType, about(5, 0, 0, quote))
	f.add("source quench", wire.ICMPType, about(4, 0, 0, quote))
	f.add("unknown code", wire.ICMPCode, about(3, 16, 0, quote))
	f.class = "ICMP error and its quote"
	f.add("no quote", wire.ICMPQuoteShort, about(3, 3, 0, nil))
	f.add("7 bytes behind the header", wire.ICMPQuoteShort, about(3, 3, 0, quote[:27]))
	f.add("of version 6", wire.ICMPQuote, about(3, 3, 0, append([]byte{0x65}, quote[1:]...)))
	f.add("of a later fragment", wire.ICMPQuoteTail, about(3, 3, 0, append(append(quote[:6:6], 0, 5), quote[8:]...)))
	f.add("of a flow that is not ours", wire.ICMPNoSocket, about(3, 3, 0, quote))
	for _, mtu := range []uint16{0, 1, 67} {
		f.add(fmt.Sprint("fragmentation needed, MTU ", mtu), wire.ICMPMTU, about(3, 4, mtu, quote))
	}
	f.add("fragmentation needed, MTU 65535", wire.ICMPMTULarge, about(3, 4, 65535, quote))
}

// igmp adds bad IGMP messages.
func (f *frames) igmp() {
	message := func(b ...byte) []byte {
		m := f.packet(wire.ProtocolIGMP, withMessageSum(b...))
		all := wire.GroupMAC(wire.AllSystems)
		return fixHeaderSum(edited(edited(edited(m, ip+8, 1), ip+16, wire.AllSystems[:]...), 0, all[:]...))
	}
	f.class = "IGMP"
	f.add("7 bytes", wire.IGMPShort, message(0x11, 0, 0, 0, 0, 0, 0))
	f.add("wrong sum", wire.IGMPSum, edited(message(0x11, 0, 0, 0, 0, 0, 0, 0), udp+3, 0x55))
	f.add("unknown type", wire.IGMPType, message(0x13, 0, 0, 0, 0, 0, 0, 0))
	f.add("TTL 2", wire.IGMPTTL, fixHeaderSum(edited(message(0x11, 0, 0, 0, 0, 0, 0, 0), ip+8, 2)))
	f.class = "IGMP query"
	f.add("11 bytes", wire.IGMPLength, message(0x11, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	f.add("of a unicast group", wire.IGMPGroup, message(0x11, 100, 0, 0, 10, 0, 0, 1))
	f.add("a source missing", wire.IGMPSources, message(0x11, 100, 0, 0, 239, 1, 2, 3, 0, 0, 0, 2, 10, 0, 0, 1))
	f.add("65535 sources", wire.IGMPSources, message(0x11, 100, 0, 0, 239, 1, 2, 3, 0, 0, 0xff, 0xff, 10, 0, 0, 1))
	f.add("Max Resp 0", wire.Accept, message(0x11, 0, 0, 0, 239, 1, 2, 3, 0, 0, 0, 0))
}
