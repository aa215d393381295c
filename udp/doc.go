// Package udp is UDP over IPv4 as an engine: which socket a datagram belongs to, and whether it is one. It has no I/O, no clock, no
// goroutine and no lock; package internal/stack feeds it and ring/offload delivers what it decides.
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
// (SO_REUSEADDR). Sockets that share an address by SO_REUSEPORT share its flows by a hash of the four addresses.
//
// A multicast datagram goes to every socket that would take it: bound to the group or to the wildcard, and member of the group on the
// interface with a filter that lets the source pass ([Table.Join], [Table.Block]), or not a member at all and IP_MULTICAST_ALL on. A
// broadcast goes to every socket bound to that address or to the wildcard.
//
// # Cost
//
// The tables are flat, open-addressed and free of pointers, so that a garbage collection passes them by. A lookup is one to three
// probes of some nanoseconds; sockets are added, and tables grow, in calls of the application only. A burst is looked up first as
// a whole and processed afterwards, so that the cache misses of its datagrams overlap: callers keep to that. Memberships are divided into
// 64 such tables by their group, so that a table that others look into ([Table.Snapshot]) is copied in small parts.
//
// # What else is here
//
// [Parse] proves a datagram's lengths and checksum under a policy; [Backlog] keeps the datagrams of a socket that is not reading, in
// as many bytes as its receive buffer has; [Conflict] says whether two sockets may have the same address.
package udp
