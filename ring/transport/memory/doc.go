// Package memory is a stream transport for rings without the kernel: hosts of one process, with a protocol of their own between them
// (package protocol, a small TCP). It shows that package ring needs no descriptor of the kernel, and is a model for a transport over a
// stack. It carries streams over IPv4; it is made for tests, not for speed.
//
//	network := memory.NewNetwork(seed)
//	link, err := network.NewLink(memory.LinkConfig{Addrs: …})
//	host, err := memory.New(memory.Config{Link: link, …})
//	set, err := ring.NewSet(ring.SetConfig{Pool: pool, Transport: host, Driver: host.Driver, OneRing: memory.OneRing, …})
//
// # Where the bytes are
//
// What Send takes is copied into buffers of the pool, what SendPacket takes lies in its packet. A buffer is transmitting while a descriptor of
// the link refers to it, then unacknowledged, then free: a retransmission is put off while the link still holds the frame. What arrives
// is copied from the link into a buffer of the pool when it is in order; the window opens when the application releases that buffer, on any
// goroutine.
//
// # Turns
//
// Reap takes frames from the link, lets the protocol's deadlines expire, and reports facts as far as the sink has room.
// Acknowledgements leave with the next Reap, Flush, Arm or Wait, unless data carried them before. The ring's only descriptor is an eventfd:
// a frame that arrives signals it, and so does a timer of the Go runtime at the earliest deadline.
//
// # Ends
//
// A record may outlive its socket: Close leaves what was taken for sending, FIN and TIME-WAIT to it, and Arm and Wait honour its deadlines.
// Data for a socket that was closed is answered with a reset. When the ring is closed, the records that are left are forgotten, their peers are
// sent a reset, and their buffers are back in the pool.
//
// # Another transport
//
// A host may have a spare, with a link of its own that the same ring polls. Host.MoveTo makes its connections go on there, in mid-stream: see
// move.go.
package memory
