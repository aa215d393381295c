package stats

import "github.com/socketxtreme/socketxtreme/internal/wire"

// dropCounters are the words of an offloaded ring's drops: one for each code of package wire, those that no code has included.
func dropCounters() []Counter {
	list := make([]Counter, wire.NumDrops)
	for i := range list {
		name := wire.Drop(i).String()
		if name == "unknown" || i == 0 {
			list[i] = Counter{Unit: "frames", Type: Total} // no reason has the code
			continue
		}
		list[i] = Counter{Name: name, Unit: "frames", Type: Total, Loss: !harmless[wire.Drop(i)], Help: dropTexts[wire.Drop(i)], Kernel: dropKernel[name]}
	}
	return list
}

// harmless are the drops that are nothing lost: of frames that were for others, or that the kernel handles.
var harmless = map[wire.Drop]bool{wire.EthernetNotOurs: true, wire.EthernetType: true, wire.EthernetInactive: true, wire.IPv4NotOurs: true,
	wire.IPv4Fragment: true, wire.IPv4Protocol: true, wire.ICMPRate: true}

// dropKernel is what the kernel calls the same.
var dropKernel = map[string]string{
	"udp.no_socket": "NoPorts", "udp.budget": "RcvbufErrors", "udp.sum": "InCsumErrors", "udp.short": "InErrors", "udp.length": "InErrors",
	"udp.long": "InErrors", "ipv4.sum": "InHdrErrors", "ipv4.short": "InTruncatedPkts", "ipv4.version": "InHdrErrors",
	"ipv4.header_length": "InHdrErrors", "ipv4.total_short": "InHdrErrors", "ipv4.total_long": "InTruncatedPkts", "ipv4.ttl": "InHdrErrors",
	"ipv4.not_ours": "InAddrErrors", "ipv4.protocol": "InUnknownProtos", "icmp.sum": "IcmpInCsumErrors", "icmp.short": "IcmpInErrors",
	"tcp.sum": "TcpInCsumErrors", "tcp.backlog": "ListenOverflows", "tcp.old": "PAWSEstab", "tcp.budget": "TCPOFODrop",
}

// dropTexts are the help texts of all reasons, for operators: what was wrong with the frame, in the words of the protocol.
var dropTexts = map[wire.Drop]string{
	wire.EthernetShort:    "shorter than an Ethernet header",
	wire.EthernetSource:   "the source is a group address, which no station has",
	wire.EthernetLLC:      "802.3 with LLC in place of a type, as spanning tree sends it",
	wire.EthernetShortTag: "the frame ends within its VLAN tag",
	wire.EthernetQinQ:     "two VLAN tags (802.1ad): one is read",
	wire.EthernetVLAN:     "VLAN 4095, which is reserved",
	wire.EthernetTag:      "the VLAN tag is not the one expected here",
	wire.EthernetNotOurs:  "for another station",
	wire.EthernetType:     "a protocol other than IPv4 and ARP",
	wire.EthernetInactive: "came by a member of a bond that carries no traffic now",

	wire.ARPShort:     "shorter than an ARP packet",
	wire.ARPHardware:  "ARP for other hardware than Ethernet",
	wire.ARPProtocol:  "ARP for another protocol than IPv4",
	wire.ARPOperation: "neither an ARP request nor a reply",
	wire.ARPSender:    "the sender's station address in ARP is a group or zero",
	wire.ARPSpoofed:   "the sender's station address in ARP is not the frame's source",
	wire.ARPAddress:   "the sender's IPv4 address in ARP is multicast, broadcast or loopback",
	wire.ARPConflict:  "another station claims an IPv4 address of this host by ARP",

	wire.IPv4Short:           "shorter than an IPv4 header",
	wire.IPv4Version:         "the version in the IPv4 header is not 4",
	wire.IPv4HeaderLength:    "the IPv4 header length is below 20 bytes, or beyond the frame",
	wire.IPv4TotalZero:       "the IPv4 total length is 0: a segment that a card was to cut (TSO)",
	wire.IPv4TotalShort:      "the IPv4 total length is shorter than the header",
	wire.IPv4TotalLong:       "the IPv4 total length is beyond the end of the frame: the packet was cut",
	wire.IPv4Sum:             "the checksum of the IPv4 header is wrong",
	wire.IPv4TTL:             "the time to live is 0",
	wire.IPv4ReservedFlag:    "the reserved flag of the IPv4 header is set",
	wire.IPv4DFMF:            "a fragment that is not to be fragmented: both flags are set",
	wire.IPv4FragmentEnd:     "a fragment that ends beyond 65,535 bytes",
	wire.IPv4FragmentSize:    "a fragment before the last one whose length is no multiple of 8",
	wire.IPv4FragmentTiny:    "a first fragment too short for ports and flags (RFC 1858)",
	wire.IPv4FragmentTCP:     "a TCP fragment at offset 8, which would overwrite flags (RFC 3128)",
	wire.IPv4OptionLength:    "an IPv4 option with a length below 2",
	wire.IPv4OptionOverrun:   "an IPv4 option beyond the header",
	wire.IPv4SourceRoute:     "a source route among the IPv4 options",
	wire.IPv4SourceZero:      "the source is in 0.0.0.0/8",
	wire.IPv4SourceLoopback:  "the source is in 127.0.0.0/8, on another interface than loopback",
	wire.IPv4SourceMulticast: "the source is a multicast address",
	wire.IPv4SourceBroadcast: "the source is the broadcast address, or in the reserved 240.0.0.0/4",
	wire.IPv4TargetZero:      "the destination is in 0.0.0.0/8",
	wire.IPv4TargetLoopback:  "the destination is in 127.0.0.0/8, on another interface than loopback",
	wire.IPv4TargetReserved:  "the destination is in the reserved 240.0.0.0/4",
	wire.IPv4Land:            "source and destination are the same address (LAND)",
	wire.IPv4LinkMulticast:   "a unicast IPv4 packet in a frame for a group (RFC 1122 3.3.6)",
	wire.IPv4NotOurs:         "the destination is no address of this host, and no group that was joined",
	wire.IPv4SourceOurs:      "the source is an address of this host",
	wire.IPv4Fragment:        "a fragment, which the kernel reassembles",
	wire.IPv4Protocol:        "an IPv4 protocol that the stack does not handle",

	wire.UDPShort:          "shorter than a UDP header",
	wire.UDPLength:         "the UDP length is below 8 bytes",
	wire.UDPLong:           "the UDP length is beyond the end of the packet",
	wire.UDPSum:            "the UDP checksum is wrong",
	wire.UDPPort:           "the UDP destination port is 0",
	wire.UDPPartial:        "the checksum is that of the pseudo header only, as local peers send it, and the policy is strict",
	wire.UDPNoSocket:       "no socket of this ring or of another one has the port",
	wire.UDPBudget:         "the socket's receive budget is spent: it does not read, or the application does not release",
	wire.UDPForeignPeer:    "the socket is connected to another peer",
	wire.UDPGroupNotJoined: "multicast to a group, interface or source that no socket has joined",

	wire.ICMPShort:      "shorter than an ICMP header",
	wire.ICMPSum:        "the ICMP checksum is wrong",
	wire.ICMPType:       "an ICMP type that is unknown, or on which hosts do not act",
	wire.ICMPCode:       "an ICMP code that its type does not have",
	wire.ICMPQuoteShort: "an ICMP error that quotes less than an IPv4 header and 8 bytes",
	wire.ICMPQuote:      "an ICMP error whose quoted header is not IPv4, or contradicts itself",
	wire.ICMPQuoteTail:  "an ICMP error about a later fragment, which has no ports",
	wire.ICMPMTU:        "a path MTU below 68 bytes, or none, in an ICMP error (fragmentation needed)",
	wire.ICMPMTULarge:   "a path MTU, in an ICMP error, that the quoted packet fits into",
	wire.ICMPGroup:      "an ICMP request or error to a group or broadcast address",
	wire.ICMPNoSocket:   "an ICMP error about a flow that no socket has",
	wire.ICMPRate:       "an ICMP answer that was not sent, because the limit of answers was reached",

	wire.IGMPShort:   "shorter than an IGMP message",
	wire.IGMPSum:     "the IGMP checksum is wrong",
	wire.IGMPType:    "an IGMP type that is unknown",
	wire.IGMPLength:  "an IGMP query of 9 to 11 bytes, which no version has",
	wire.IGMPSources: "an IGMP query with more sources announced than bytes for them",
	wire.IGMPGroup:   "an IGMP query for an address that is no group",
	wire.IGMPRecords: "an IGMP report whose records end beyond the message",
	wire.IGMPRecord:  "an IGMP report with a record of an unknown type, or without a group",
	wire.IGMPTTL:     "an IGMP message whose time to live is not 1: it came through a router",

	wire.TCPShort:        "shorter than a TCP header",
	wire.TCPOffset:       "the TCP data offset is below 20 bytes",
	wire.TCPLong:         "the TCP data offset is beyond the end of the segment",
	wire.TCPSum:          "the TCP checksum is wrong",
	wire.TCPPort:         "a TCP port is 0",
	wire.TCPPartial:      "the checksum is that of the pseudo header only, as local peers send it, and the policy is strict",
	wire.TCPGroup:        "a TCP segment to a group or broadcast address, or from one",
	wire.TCPNoConnection: "no connection and no listener has the segment; the answer is a reset, within a limit",
	wire.TCPBacklog:      "a SYN, or the end of a handshake, for a listener whose backlog is full",
	wire.TCPUnacceptable: "the segment is outside of the window, or acknowledges what was not sent",
	wire.TCPOld:          "the segment's time stamp is older than the last one (PAWS)",
	wire.TCPBudget:       "no room to keep data beyond a gap",
	wire.TCPFlagsBad:     "TCP flags that no state takes: none of SYN, ACK and RST, or SYN with FIN",
	wire.TCPMoving:       "the connection moves between this stack and another one: the peer sends the segment again",
}
