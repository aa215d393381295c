// Package wire is the formats of the offloaded path: Ethernet II with one 802.1Q tag, ARP, IPv4, UDP, TCP, ICMPv4, IGMP and the
// Internet checksum. It is pure: bytes in, values out; no I/O, no clock, no memory of its own.
//
// # Reading
//
// A parser proves once that a header is there and obeys its rules, and returns a pointer to an array of exactly that
// length. Its getters then need no further check:
//
//	eth, tag, typ, rest, drop := wire.ParseEthernet(frame)
//	ip, options, rest, drop := wire.ParseIPv4(rest)      // version, lengths, sum, TTL, flags, options
//	udp, payload, drop := wire.ParseUDP(rest)            // cut to the UDP length
//	switch wire.CheckUDP(ip, udp, payload) { ... }       // good, none, partial or bad sum
//
// Each way in which a frame can be malformed has its own Drop code, a byte that costs nothing to return and indexes a
// counter; its String is the stable name of that counter ("ipv4.sum"). Accept, zero, means the header is good.
// A parser that does not accept returns nil for the header, so that a forgotten check fails at once.
//
//	Ethernet   14 bytes                                        ParseEthernet
//	| destination 6 | source 6 | [0x8100 | tag 2] | type 2 |   one tag at most; 802.1ad and double tags are refused
//
// What needs knowledge of a host is not decided here: whether an address is ours, whether a tag is expected, whether a
// TTL proves a neighbour. The codes for those are here as well (EthernetTag, IPv4NotOurs …), so that one array counts them all.
//
// # Writing
//
// The Append methods of EthernetFields, ARPFields, IPv4Fields, UDPFields … write complete headers, sums included: for
// control packets, simulators and tests. The path of data uses templates: IPv4Template and UDPTemplate hold a flow's
// headers ready; per packet only lengths, identification and sums are patched.
//
//	t, err := wire.NewUDPTemplate(flow)
//	copy(frame[t.Len():], payload)
//	t.Put(frame[:t.Len()+len(payload)], id)              // frame is ready to send
//
// A TCP header differs from segment to segment: TCPFields.Put writes it in front of the payload.
//
// A transport that keeps a route's IPv4Template apart keeps a UDPHead beside it: the two are a UDPTemplate.
//
// # Sums
//
// Sum is a one's complement sum that can be added to, joined with others and turned into a checksum field. Received UDP
// sums are verified always; CheckUDP distinguishes a wrong sum from a partial one, which is only the pseudo-header's: what Linux
// leaves in a frame whose checksum a network card was to finish, and what therefore arrives over veth from a local peer.
// Whether that is accepted is the interface's policy, not this package's.
//
// All functions may be called from any goroutine; values are the caller's. The package imports the standard library only.
package wire
