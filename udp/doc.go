// Package udp is UDP over IPv4: whose a received datagram is, and how a datagram is sent. Package ring/offload gives it sockets and takes
// its deliveries; package internal/ip below gives it packets and takes its frames. It has no I/O, no clock, no goroutine and no lock.
//
// A [Protocol] is UDP on one stack: it registers with the stack as every transport does (ip.Protocol), and belongs to the ring's owner.
//
// # A received datagram
//
//	internal/ip   calls Protocol.Input with a burst          input.go
//	input.go        looks up the sockets of all its datagrams    table.go, members.go: one to three probes each
//	                then proves each (Parse) and delivers it
//	                  to a socket of another ring: handoff.go makes a Delivery with the ring's number, directory.go knows it
//	                  to a socket that reads: delivery.go, the packet in place
//	                  to one that does not: stopped.go copies it into the socket's backlog.go
//	ring/offload  takes Deliveries, kept ones by NextBacklogged, those of other rings by TakeHandoff
//
// A multicast datagram with several members is one packet with a reference for each.
//
// # A sent datagram
//
//	ring/offload  Prepare                                   destination.go: route, neighbour and headers, kept in a cache
//	              SendFast, once a destination is ready      send.go: headers in front of the payload, and the frame is queued
//	              SendSlow, for everything else              send.go: waits for the neighbour, is fragmented, looped (loop.go), or is the
//	                                                         kernel's
//	internal/ip   has the frame from then on
//
// One compare with the generation of the stack's routes reports whether what Prepare found is still good.
//
// In this order the files call downwards: protocol, fastflow, input, warm, send, loop, handoff, errors, delivery, stopped, backlog, directory,
// destination, table, members, snapshot, shards, flow, endpoint.
//
// # Whose datagram
//
// A [Table] holds the sockets of one ring. For a unicast datagram it gives the kernel's answer (net/ipv4/udp.c, __udp4_lib_lookup):
//
//	connected   local and remote address and port match        wins
//	bound       local address and port match                   then
//	wildcard    port matches, address was 0.0.0.0              then
//
// Within one of these a socket tied to the interface comes before one that is tied to none, and the newest before older ones
// (SO_REUSEADDR). Sockets that share an address by SO_REUSEPORT share its flows by a hash of the four addresses. [Conflict] says whether
// two sockets may have the same address.
//
// A multicast datagram goes to every socket that would take it: bound to the group or to the wildcard, and member of the group on the
// interface with a filter that lets the source pass ([Table.Join], [Table.Block]), or not a member at all and IP_MULTICAST_ALL on. A
// broadcast goes to every socket bound to that address or to the wildcard.
//
// The tables are flat, open-addressed and free of pointers, so that a garbage collection passes them by. Sockets are added, and tables
// grow, in calls of the application only. Memberships are divided into 64 such tables by their group, so that a table that others look
// into ([Table.Snapshot]) is copied in small parts.
package udp
