// Package uring is the ring driver over io_uring: the kernel's sockets, received by multishot operations into buffers the kernel
// was given beforehand, without a system call per socket.
//
// # How bytes come
//
// Each stream has one multishot recv, each listener one multishot accept, each datagram socket one multishot recvmsg (but
// connections into large buffers and unix-domain ones have a multishot poll and are read, see hot.go). They stay armed; the kernel picks a
// buffer of the pool when data is there (two groups of provided buffers, one for each size class) and posts a completion. A stream's
// payload starts at the beginning of its buffer. A datagram's starts after the pool's headroom, which holds what the kernel says
// about it:
//
//	|<------------------ Layout.Headroom ------------------>|
//	| io_uring_recvmsg_out 16 | source 32 | control messages | payload ...
//
// Both kinds share a group, and a group has one address per buffer: hence the two offsets.
//
// The first four datagram sockets of a ring are read directly by recvmsg on each Reap as long as the ring spins: an empty one costs
// 180 ns, and a UDP round trip is 3.5 µs that way against 4.3 µs through the ring. See hot.go.
//
// # How bytes go
//
// Small sends are the core's: a plain system call. SendPacket goes through SENDMSG, copied, below 8 KiB, and through SENDMSG_ZC
// above; there the buffer is free when the kernel's notification comes. A stream has one operation under way at a time, because
// a second one behind a short first one would leave a hole. Sends never wait inside the kernel: a full socket answers EAGAIN, the
// packet is kept, and a poll for writability follows.
//
// # One thread
//
// The ring is made disabled, with SINGLE_ISSUER and DEFER_TASKRUN: set-up may come from any goroutine and only fills the
// submission queue; Bind, on the first Poll, makes the calling thread its issuer. Completions are made on that thread, inside
// io_uring_enter and nowhere else. A Reap that finds nothing costs two loads; it enters the kernel when there is something to
// submit, or when the kernel shows IORING_SQ_TASKRUN.
//
// The io_uring descriptor itself cannot be waited on in this mode. FD is an eventfd that the kernel signals when there is work; it
// is switched off except between Arm and Disarm, because it costs 70 to 110 ns a packet.
//
// # What has to be ended before it is closed
//
// close(2) of a socket with a multishot armed sends no FIN: the operation holds the file. So Detach cancels, waits for the last
// completion of each operation, and only then the core closes the descriptor.
//
// Needs Linux 6.1; Probe says what is missing.
package uring
