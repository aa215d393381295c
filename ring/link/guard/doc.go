// Package guard keeps TCP segments that belong to our own stack away from the kernel's TCP. The offloaded ring uses it beside package xdp.
//
// The steering program gives claimed segments to our stack. A segment still reaches the kernel when it comes in on a queue without a socket of
// ours, while the steering program is off the interface, and while a connection moves. The kernel has no such connection, so it answers with a
// reset, and the peer's connection is lost. A guard is a second program, behind the steering program: it drops and counts those segments. The
// peer retransmits them, and the connection goes on when the path is back.
//
//	interface ──► XDP: claimed? ──yes──► our stack
//	                    │ no
//	                    ▼
//	              guard: ours? ──yes──► dropped, counted
//	                    │ no
//	                    ▼
//	              the kernel's TCP
//
// # Use
//
//	g, err := guard.Open(guard.Config{Index: index})
//	err = g.Claim(link.Flow{Protocol: link.TCP, Local: listener})      // a port
//	err = g.AcceptAfter(port, 3*time.Second)                           // the path is away: the kernel accepts later
//	err = g.Claim(link.Flow{Protocol: link.TCP, Local: a, Remote: b})  // one connection
//	err = g.Pass(connection)                                           // it is the kernel's now
//
// # What happens to a segment
//
// The most exact entry decides:
//
//	connection, claimed    dropped
//	connection, passed     the kernel takes it
//	port, SYN              dropped; passed once the time of AcceptAfter has come
//	port, other segment    passed where the kernel has a connection of these addresses, else dropped
//	no entry               the kernel takes it
//
// So a connection that the kernel has accepted meanwhile needs no entry here. The steering program needs one, before the port is claimed again.
//
// A port on no address is one on each address of AddAddr. The first fragment of a claimed segment is dropped: without it the kernel does not
// reassemble the rest. Only TCP over IPv4 is looked at.
//
// # Where it is attached, and what a killed process leaves behind
//
// TCX (Linux 6.6) where the kernel has it: the attachment is a link, which ends with the process. Below it is a filter of a clsact qdisc, which
// outlives the process. So that filter passes everything once a time in its map is older than a second, which a goroutine of the guard renews.
// The next Open on the interface removes such filters.
//
// Several guards of several processes may be on one interface: a segment is dropped when one of them drops it. The guards of one process and
// interface are one Guard, whose methods any goroutine may call.
//
// # Limits
//
// While the path is away and the kernel answers SYNs with cookies, the last segment of such a handshake belongs to no connection yet and is
// dropped: the client sends its data again until the flood is over.
//
// Kernel interfaces: Documentation/bpf, include/uapi/linux/bpf.h (struct __sk_buff, bpf_skc_lookup_tcp since Linux 5.2). Privileges: CAP_BPF and
// CAP_NET_ADMIN.
package guard
