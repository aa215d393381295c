// Package stack is the ring.Transport of sockets that the library's own protocol stack carries. It stands over the transport that the socket was
// made by (the kernel, or a host without one), which keeps its port, its options and its memberships. The driver of an offloaded ring gives it
// to the sockets that its stack can carry:
//
//	Send ──► route of the destination, kept by socket ──► SendFast   a frame that lacks nothing but its headers
//	                                                  ├─► queue      behind what waits on the socket: ring.Driver.Transmit
//	                                                  └─► below      what only the transport below can deliver
//
// What Send has taken leaves with the ring's next Poll or Flush.
package stack
