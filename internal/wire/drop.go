package wire

// Drop says what is wrong with a frame, and counts it: a stack keeps an array of NumDrops counters. Accept is zero. The codes
// below the line of each header that a parser cannot return are for the stack above, which knows addresses and state.
type Drop uint8

// Accept: nothing is wrong.
const Accept Drop = 0

// Ethernet (IEEE 802.3, 802.1Q).
const (
	EthernetShort    Drop = iota + 1 // shorter than the 14-byte header
	EthernetSource                   // the source is a group address (802.3 3.2.3)
	EthernetLLC                      // the type field is a length: 802.3 with LLC, or the undefined 1501 … 1535
	EthernetShortTag                 // an 802.1Q tag is announced and not there whole
	EthernetQinQ                     // 802.1ad, or a second tag: one 802.1Q tag is what this stack reads
	EthernetVLAN                     // VLAN 4095 is reserved (802.1Q 9.6)
	EthernetTag                      // the tag is not the one expected here: see Tag.Expect
	EthernetNotOurs                  // stack: for another station
	EthernetType                     // stack: a protocol that this stack does not speak
	EthernetInactive                 // stack: on a bond's member that carries no traffic now: for a group, or in active-backup
)

// ARP (RFC 826, RFC 1122 2.3.2).
const (
	ARPShort     Drop = iota + 20 // shorter than 28 bytes
	ARPHardware                   // hardware type or length is not Ethernet's
	ARPProtocol                   // protocol type or length is not IPv4's
	ARPOperation                  // neither request nor reply
	ARPSender                     // sender hardware address is a group address or zero
	ARPSpoofed                    // sender hardware address is not the frame's source
	ARPAddress                    // sender protocol address is multicast, broadcast or loopback
	ARPConflict                   // stack: sender claims an address of ours
)

// IPv4 (RFC 791, RFC 1122 3.2.1).
const (
	IPv4Short           Drop = iota + 40 // fewer than 20 bytes
	IPv4Version                          // version is not 4
	IPv4HeaderLength                     // IHL below 5, or beyond the frame
	IPv4TotalZero                        // total length 0: a segment that was to be cut by a card
	IPv4TotalShort                       // total length shorter than the header
	IPv4TotalLong                        // total length beyond the frame
	IPv4Sum                              // header checksum
	IPv4TTL                              // TTL 0
	IPv4ReservedFlag                     // the flag that must be zero is set
	IPv4DFMF                             // don't fragment and more fragments together
	IPv4FragmentEnd                      // fragment ends beyond 65535
	IPv4FragmentSize                     // more fragments follow and the length is no multiple of 8
	IPv4FragmentTiny                     // first fragment too short for the transport ports and flags (RFC 1858)
	IPv4FragmentTCP                      // fragment at offset 8 of TCP: would overwrite flags (RFC 3128)
	IPv4OptionLength                     // option with length 0 or 1
	IPv4OptionOverrun                    // option beyond the header
	IPv4SourceRoute                      // loose or strict source route (RFC 7126)
	IPv4SourceZero                       // source 0.x.x.x
	IPv4SourceLoopback                   // source 127.x.x.x off the loopback interface
	IPv4SourceMulticast                  // source multicast
	IPv4SourceBroadcast                  // source 255.255.255.255 or reserved 240/4
	IPv4TargetZero                       // destination 0.x.x.x
	IPv4TargetLoopback                   // destination 127.x.x.x off the loopback interface
	IPv4TargetReserved                   // destination in 240/4 and not the limited broadcast
	IPv4Land                             // source equals destination off the loopback interface (LAND)
	IPv4LinkMulticast                    // unicast destination in a link-layer group frame (RFC 1122 3.3.6)

	IPv4NotOurs    // stack: destination is not an address of ours, nor joined
	IPv4SourceOurs // stack: source is an address of ours
	IPv4Fragment   // stack: a fragment, which the kernel reassembles
	IPv4Protocol   // stack: a protocol that this stack does not speak
)

// UDP (RFC 768).
const (
	UDPShort  Drop = iota + 80 // fewer than 8 bytes
	UDPLength                  // length field below 8
	UDPLong                    // length field beyond the IP payload
	UDPSum                     // checksum wrong
	UDPPort                    // destination port 0

	UDPPartial        // stack: the sum is the pseudo header's only (SumPartial) and the policy is strict
	UDPNoSocket       // stack: nobody has the port
	UDPBudget         // stack: the socket's receive budget is spent
	UDPForeignPeer    // stack: the socket is connected to another peer
	UDPGroupNotJoined // stack: multicast to a group, interface or source that the socket did not join
)

// ICMPv4 (RFC 792, RFC 1122 3.2.2, RFC 1191).
const (
	ICMPShort      Drop = iota + 100 // fewer than 8 bytes
	ICMPSum                          // checksum wrong
	ICMPType                         // type unknown, or a type that hosts do not act on
	ICMPCode                         // code unknown for the type
	ICMPQuoteShort                   // an error that quotes less than an IPv4 header and 8 bytes
	ICMPQuote                        // the quoted header is not IPv4, or its lengths contradict
	ICMPQuoteTail                    // the quoted packet is a later fragment: there are no ports in it
	ICMPMTU                          // fragmentation needed with a next-hop MTU below 68, or none
	ICMPMTULarge                     // fragmentation needed with an MTU that the quoted packet fits into

	ICMPGroup    // stack: a request or error to a group or broadcast address
	ICMPNoSocket // stack: an error about a flow that is not ours
	ICMPRate     // stack: an answer not sent, the limit is reached
)

// IGMP (RFC 1112, RFC 2236, RFC 9776).
const (
	IGMPShort   Drop = iota + 120 // fewer than 8 bytes
	IGMPSum                       // checksum wrong
	IGMPType                      // type unknown
	IGMPLength                    // a query of 9 to 11 bytes (RFC 9776 7.1)
	IGMPSources                   // more sources announced than there are bytes
	IGMPGroup                     // the group is neither zero (general query) nor multicast
	IGMPRecords                   // a report's records do not end inside the message
	IGMPRecord                    // a record of unknown type or without a group

	IGMPTTL // stack: TTL is not 1
)

// TCP (RFC 9293).
const (
	TCPShort  Drop = iota + 140 // fewer than 20 bytes
	TCPOffset                   // data offset below 5
	TCPLong                     // data offset beyond the segment
	TCPSum                      // checksum wrong
	TCPPort                     // port 0 on either side

	TCPPartial      // stack: the sum is the pseudo header's only (SumPartial) and the policy is strict
	TCPGroup        // stack: addressed to a group or a broadcast, or from one (RFC 9293 MUST-57, MUST-63)
	TCPNoConnection // stack: no connection and no listener has it; answered with a reset, within a limit
	TCPBacklog      // stack: a SYN, or the end of a handshake, for a listener that is full
	TCPUnacceptable // stack: outside the window, or acknowledges what was not sent
	TCPOld          // stack: its timestamp is older than the last one (RFC 7323 section 5: PAWS)
	TCPBudget       // stack: no room to keep out-of-order data
	TCPFlagsBad     // stack: flags that no state takes: none of SYN, ACK, RST; SYN with FIN
	TCPMoving       // stack: its connection moves between this stack and another one; the peer sends it again
)

// NumDrops is the length of an array that any Drop indexes.
const NumDrops = 160

// String is the stable name of the code, as counters and events show it. Any goroutine.
func (d Drop) String() string {
	if int(d) < len(dropNames) && dropNames[d] != "" {
		return dropNames[d]
	}
	return "unknown"
}

var dropNames = [NumDrops]string{
	Accept: "accept",

	EthernetShort: "eth.short", EthernetSource: "eth.source", EthernetLLC: "eth.llc", EthernetShortTag: "eth.short_tag",
	EthernetQinQ: "eth.qinq", EthernetVLAN: "eth.vlan", EthernetTag: "eth.tag", EthernetNotOurs: "eth.not_ours",
	EthernetType: "eth.type", EthernetInactive: "eth.inactive",

	ARPShort: "arp.short", ARPHardware: "arp.hardware", ARPProtocol: "arp.protocol", ARPOperation: "arp.operation",
	ARPSender: "arp.sender", ARPSpoofed: "arp.spoofed", ARPAddress: "arp.address", ARPConflict: "arp.conflict",

	IPv4Short: "ipv4.short", IPv4Version: "ipv4.version", IPv4HeaderLength: "ipv4.header_length",
	IPv4TotalZero: "ipv4.total_zero", IPv4TotalShort: "ipv4.total_short", IPv4TotalLong: "ipv4.total_long",
	IPv4Sum: "ipv4.sum", IPv4TTL: "ipv4.ttl", IPv4ReservedFlag: "ipv4.reserved_flag", IPv4DFMF: "ipv4.df_mf",
	IPv4FragmentEnd: "ipv4.fragment_end", IPv4FragmentSize: "ipv4.fragment_size", IPv4FragmentTiny: "ipv4.fragment_tiny",
	IPv4FragmentTCP: "ipv4.fragment_tcp", IPv4OptionLength: "ipv4.option_length", IPv4OptionOverrun: "ipv4.option_overrun",
	IPv4SourceRoute: "ipv4.source_route", IPv4SourceZero: "ipv4.source_zero", IPv4SourceLoopback: "ipv4.source_loopback",
	IPv4SourceMulticast: "ipv4.source_multicast", IPv4SourceBroadcast: "ipv4.source_broadcast",
	IPv4TargetZero: "ipv4.target_zero", IPv4TargetLoopback: "ipv4.target_loopback",
	IPv4TargetReserved: "ipv4.target_reserved", IPv4Land: "ipv4.land", IPv4LinkMulticast: "ipv4.link_multicast",
	IPv4NotOurs: "ipv4.not_ours", IPv4SourceOurs: "ipv4.source_ours", IPv4Fragment: "ipv4.fragment",
	IPv4Protocol: "ipv4.protocol",

	UDPShort: "udp.short", UDPLength: "udp.length", UDPLong: "udp.long", UDPSum: "udp.sum", UDPPort: "udp.port",
	UDPPartial: "udp.partial_sum", UDPNoSocket: "udp.no_socket", UDPBudget: "udp.budget",
	UDPForeignPeer: "udp.foreign_peer", UDPGroupNotJoined: "udp.group_not_joined",

	ICMPShort: "icmp.short", ICMPSum: "icmp.sum", ICMPType: "icmp.type", ICMPCode: "icmp.code",
	ICMPQuoteShort: "icmp.quote_short", ICMPQuote: "icmp.quote", ICMPQuoteTail: "icmp.quote_tail", ICMPMTU: "icmp.mtu",
	ICMPMTULarge: "icmp.mtu_large", ICMPGroup: "icmp.group", ICMPNoSocket: "icmp.no_socket", ICMPRate: "icmp.rate",

	IGMPShort: "igmp.short", IGMPSum: "igmp.sum", IGMPType: "igmp.type", IGMPLength: "igmp.length",
	IGMPSources: "igmp.sources", IGMPGroup: "igmp.group", IGMPRecords: "igmp.records", IGMPRecord: "igmp.record",
	IGMPTTL: "igmp.ttl",

	TCPShort: "tcp.short", TCPOffset: "tcp.offset", TCPLong: "tcp.long", TCPSum: "tcp.sum", TCPPort: "tcp.port",
	TCPPartial: "tcp.partial_sum", TCPGroup: "tcp.group", TCPNoConnection: "tcp.no_connection", TCPBacklog: "tcp.backlog",
	TCPUnacceptable: "tcp.unacceptable", TCPOld: "tcp.old", TCPBudget: "tcp.budget", TCPFlagsBad: "tcp.flags", TCPMoving: "tcp.moving",
}
