// Package repair moves TCP connections out of the kernel and into it, by TCP_REPAIR. The offloaded ring uses it when its path is gone for good,
// and when a connection of the kernel is to be its own.
//
// The state that moves is a [State]: what package tcp exports and imports ([tcp.Snapshot]), with the payload of both queues.
//
//	kernel to ring                                 ring to kernel
//	g.Claim(flow)       the guard drops            g.Claim(flow)
//	f, err := Freeze(fd)                           snapshot, queues, err := table.Export(now, id)
//	s := f.State                                   c, err := Create(&state)         any goroutine
//	f.Close()           nothing is sent            g.Pass(flow), or g.Release(flow)
//	table.Import(now, &s.Snapshot, queues, user)   c.Activate()
//	g.Release(flow)     the steering program       table.Discard(now, id)
//	                    has its claim
//
// The guard (package ring/link/guard) comes first. While a socket is in repair mode the kernel goes on receiving: a segment that arrives between
// two reads makes them contradict each other; one that arrives between two sockets is answered with a reset.
//
// In repair mode the kernel goes on sending by timers, and what it counts as announced may never reach the peer: [Freeze] and [Created.Activate]
// say in which order they do what.
//
// When a step fails, the connection can stay where it was: [Frozen.Resume], tcp.Table.Resume.
//
// # What is carried
//
// Both sequence numbers, the receive queue, what was sent and what was not sent, the peer's segment size, window scales, SACK, the clock of the
// timestamps, the windows, the sizes of the buffers, and the options of the socket. The states are ESTABLISHED, FIN-WAIT-1 and FIN-WAIT-2: in
// the latter two FIN is sent again. Others are refused ([ErrState]): a kernel cannot be told of a FIN that the peer will not send again.
//
// What is not: data beyond a gap, which the peer sends again (Reneged of [tcp.Snapshot]); ECN, which the kernel does not restore; the round trip
// and the congestion window, which a snapshot has and a new socket of the kernel measures anew; the peer's last timestamp when the kernel had
// the connection. [Created.Missing] names what a socket could not be given.
//
// # Privileges
//
// CAP_NET_ADMIN in the user namespace of the network namespace. Without it the error is [ErrNoCapability]. IPv4 only.
//
// Kernel interfaces: include/uapi/linux/tcp.h (TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, TCP_REPAIR_OPTIONS, TCP_REPAIR_WINDOW,
// TCP_TIMESTAMP); the order of the steps is that of CRIU's libsoccr.
package repair
