// Package kernel is the ring.Transport of the kernel's sockets: it makes the system calls that open, bind, connect, set up, send on and close
// those that an application asks for. The drivers for kernel sockets (ring/uring, ring/epoll) and the kernel's side of offloaded ones stand on
// it. Sockets that the offloaded ring opens for itself are its own: shadows, connections that move, reports of ICMP errors.
//
//	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "epoll", Driver: epoll.New})
//
// A socket's ring.Conn is its descriptor. The drivers receive; they report with Writable and Accepted of this package where the kernel's
// answer must be interpreted first.
package kernel
