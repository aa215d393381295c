// Package kernel is the ring.Transport of the kernel's sockets: the only place that makes system calls which open, bind, connect, set up,
// send on or close them. The drivers for kernel sockets (ring/uring, ring/epoll) and the kernel's side of offloaded ones stand on it:
//
//	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Transport: kernel.New(), Kind: "epoll", Driver: epoll.New})
//
// A socket's ring.Conn is its descriptor. Receiving is the drivers'; what they find out in the kernel's words they report with Writable and
// Accepted of this package.
package kernel
