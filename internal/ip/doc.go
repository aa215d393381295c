// Package ip is the network layer of an offloaded ring: everything between a link and the transport protocols. It reads Ethernet and IPv4,
// answers ARP, ICMP and IGMP, finds routes, and queues frames for the links. Packages udp and ring/transport/stream
// (TCP) stand on it; package ring/offload drives it.
//
// It is an engine: frames in, frames out; time and randomness are arguments, so that a simulated world repeats itself. A [Stack] belongs to
// one ring and its goroutine.
//
// # A received frame
//
//	driver      n := link.Receive(frames)
//	            stack.Input(now, i, frames[:n])              input.go
//	input.go      parse each frame of the burst              Ethernet, tag, IPv4, addresses: Parsed (burst.go)
//	              each protocol's Input, once for the burst  looks all its packets up, then processes them (protocol.go)
//	              what is left: icmp.go, igmp.go, arp.go, or a drop with its reason
//
// A burst is walked in passes, so that its cache misses overlap: first the headers of all frames, then the lookups of each protocol, then
// the processing. A protocol is called once for a burst, never per packet. The frame, what was found in its headers and the packet's memory
// are the same values from the link to the protocol: nothing is copied into another type. What is not
// delivered is released and counted under the name of its reason ([Stack.Drops]). Frames that span buffers are gathered into a large one:
// a protocol sees a packet in one piece.
//
// # A sent packet
//
//	protocol    if !stack.IsCurrent(&route)
//	              stack.FindRoute(&route, query)             route.go: once for a flow
//	                the host's tables                        interface, gateway, source, MTU: localhost.go, or the kernel's
//	                pathmtu.go                               what routers said of the path's MTU
//	                nexthop.go                               the neighbour's station, or the route waits for it: arp.go asks, or the kernel
//	            route.Header.Put(frame, …), its own header
//	            stack.SendFragments                          fragment.go: what is longer than the MTU
//	            stack.SendFrame(now, &route, packet, token)  output.go: queued on its link, or waiting for the station
//	driver      link.Send(stack.Output(i)), stack.Took
//
// In this order the files refer downwards only: stack, link, input, icmp, igmp, arp, fragment, output, route, pathmtu, nexthop, localhost,
// protocol, burst, interface, address.
//
// A [Route] is a value without pointers that the protocol keeps beside its flow. It is stale when the host's tables, a link or a path MTU
// have changed, or its own next hop: nexthop.go has the table. [Stack.RouteGeneration] moves with any of these, so that a holder of many
// routes compares one number.
//
// # The seam
//
// A transport is a [Protocol] that registers its number ([Stack.Register]): it gets its packets burst by burst, the ICMP errors that quote
// a packet of it, and notice of what changes under its flows. It tells the stack what its sockets want of multicast groups
// ([Memberships]), which IGMP reports.
//
// # Two kinds of interface
//
// Where the kernel has the interface too (AF_XDP), it stays the authority: it answers ARP, ICMP and IGMP, and [Host] mirrors its
// tables. What only the kernel can deliver goes through the socket's descriptor, which RouteViaKernel says: destinations on this host,
// groups that sockets of the kernel receive as well, interfaces that are no link of this stack.
//
// On a link without a kernel the stack is the host: [LocalHost] has its addresses and routes, and the stack answers ARP (RFC 826, 1122),
// ICMP echo and unreachable ports (RFC 792, 1122), and speaks IGMPv3 (RFC 9776) as a member. Queries of versions 1 and 2 are answered
// with version 3 reports, since both ends of such a link are ours.
//
// # Fragments
//
// Fragments are not reassembled here: over AF_XDP they pass to the kernel and come through the socket's descriptor; on links without
// a kernel they are dropped and counted. A packet longer than the MTU, or than what a router said of the path (RFC 1191), is for the
// protocol to refuse, to leave to the kernel, or to send with SendFragments (Route.FragmentsHere), which cuts it once the neighbour is known
// and gives the sender's token to each fragment. Whatever is not a fragment leaves with DF set.
package ip
