// Package epoll is the ring driver for kernels and containers without io_uring: plain non-blocking system calls on the kernel's
// sockets, told by epoll which ones are ready.
//
//	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "epoll", Driver: epoll.New})
//
// It needs nothing beyond what every Linux since 2.6.27 has; waits are exact to the nanosecond (epoll_pwait2, and
// ppoll before Linux 5.11). Programs normally let package xtreme choose the driver; Probe is what it asks.
//
// # How it works
//
// One epoll list holds the ring's sockets, an eventfd (Wake) and a timerfd (the deadline of Arm). Its descriptor is FD: epoll
// lists nest. The list is level-triggered, so that what one turn leaves behind is reported again by the next, and nothing must
// be remembered but the events already fetched:
//
//	Reap ── epoll_wait(0) ──► batch of events ──► recvfrom / recv / accept4 / sendmsg ──► facts to the sink
//	  │                          ▲ kept while the sink is full
//	  └── up to four hot sockets: read directly on every turn, and epoll_wait on every 8th only
//
// Reading that is stopped (suspended, over budget, no buffers, FIN seen) leaves the list lazily: when an event that nobody wants
// is reported, or before the ring sleeps. A socket that is stopped and soon starts again costs no epoll_ctl. What stays in the
// list then is edge-triggered: an error or hang-up is seen once and does not keep FD readable.
//
// Sends go out at once with sendmsg from the packet's own memory. The kernel copies them, hence no CapZeroCopySend.
//
// # Who may call what
//
// Any thread, but one goroutine: the ring's owner. Wake and FD are for everybody.
package epoll
