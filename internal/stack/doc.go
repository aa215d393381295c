// Package stack is the protocols between a link and UDP sockets: Ethernet with one 802.1Q tag, IPv4, ARP, ICMP, IGMP, and the choice of
// route and neighbour for what is sent. It is an engine: frames in, datagrams out; time and randomness are arguments, so that a
// simulated world repeats itself. A [Stack] belongs to one ring and its goroutine.
//
// # Receiving
//
//	n := link.Receive(frames)                        // by the ring's driver
//	out = s.Input(now, i, frames[:n], out[:0])       // interface i
//	for i := range out { … }                         // each is a datagram for a socket, in place
//
// Input looks the whole burst up first and processes it afterwards: the cache misses of its flows overlap. What is not delivered is
// released and counted under the name of its reason ([Stack.Drops]). Frames that span buffers are gathered into a large one: the
// application sees a datagram in one piece.
//
// A multicast datagram with several members is one packet with a reference for each. A socket that does not read keeps what comes for
// it in a backlog as large as its receive buffer.
//
// # Sending
//
// [Stack.Prepare] finds route, neighbour and headers for a destination of a socket and keeps them in a cache; one compare with
// [Stack.Stamp] tells whether that is still good. [Stack.Send] pushes the headers in front of a payload and queues the frame on its
// interface, where the driver fetches it (Output). Datagrams whose neighbour is not known wait in a bounded queue.
//
// # Two kinds of interface
//
// Where the kernel has the interface too (AF_XDP), it stays the authority: it answers ARP, ICMP and IGMP, and [Host] mirrors its
// tables. What only the kernel can deliver goes through the socket's descriptor, which the verdict ViaKernel says: destinations on this host,
// groups that are to be looped back, interfaces that are no link of this stack.
//
// On a link without a kernel the stack is the host: [Own] has its addresses and routes, and the stack answers ARP (RFC 826, 1122),
// ICMP echo and unreachable ports (RFC 792, 1122), and speaks IGMPv3 (RFC 9776) as a member. Queries of versions 1 and 2 are answered
// with version 3 reports, since both ends of such a link are ours.
//
// Fragments are not reassembled here: over AF_XDP they pass to the kernel and come through the socket's descriptor; on links without
// a kernel they are dropped and counted. A datagram longer than the MTU, or than what a router said of the way (RFC 1191), is refused with
// EMSGSIZE; with Config.Cut it is left to the kernel, which cuts it, or on links without one it leaves in fragments made here. Whatever
// is not a fragment leaves with DF set.
package stack
