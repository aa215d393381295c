// Package offload is the ring driver with a protocol stack of its own: frames from links (package ring/link) go through internal/stack
// to UDP sockets, without the kernel's stack.
//
//	driver := offload.New(offload.Config{Links: …, Host: mirror})
//	set, err := ring.NewSet(ring.SetConfig{Pool: pool, Kind: "offload", Driver: driver, OneRing: offload.OneRing})
//
// # A socket and its shadow
//
// An offloaded socket keeps a kernel socket, its shadow, made, bound, joined and connected by the same calls as on any ring. The shadow
// reserves the port, so that nobody else gets it; it holds the multicast memberships, so that cards and switches let the groups
// through; and what the kernel still gets for the socket arrives there: fragments, packets from this very host, packets that
// came before the flow was claimed. The driver reads it too, before newer frames of the link, and marks those packets (Completion.OS).
//
//	link ──► frames ──► internal/stack ──► datagrams ──┐
//	                                                   ├──► completions
//	kernel ─► shadow socket ─► recvmsg ─► marked OS ───┘
//
// While frames come, the shadows are looked at on every Config.ShadowEvery-th turn (VMA_RX_UDP_POLL_OS_RATIO); when none come, on every
// 16th, and at once after a sleep.
//
// What a socket sends goes over a link when the route leads there. It goes through the shadow when only the kernel can deliver it:
// to an address of this host, to a group that members on this host are to hear as well (IP_MULTICAST_LOOP, which is on by default and which a
// sender of market data turns off), to broadcast addresses, and by interfaces that are no link of the ring.
//
//	destination                          way
//	this host, any socket                shadow; received by the kernel's sockets, and by ours through their shadows, marked OS
//	a group, IP_MULTICAST_LOOP on        shadow; the kernel sends the frame and loops it to this host's members
//	a group, IP_MULTICAST_LOOP off       link; no socket of this host hears it, in any process
//	another host                         link
//
// # Links without a kernel
//
// On memory links and in simulated worlds there is no kernel to have a shadow in. There a [Namespace] gives sockets their addresses and
// ports, the stack answers ARP, ICMP and IGMP itself, and what a socket sends to its own host or group is looped inside the stack.
//
// # Sends
//
// Send copies the payload into a buffer of the pool and queues it; it leaves at the next Poll or Flush, many with one system call. A
// full queue is ErrWouldBlock, and OUT follows. SendPacket sends the buffer itself. Datagrams longer than the MTU are refused with
// EMSGSIZE.
//
// # What it does not carry
//
// TCP and unix-domain sockets are refused with the reason offload.no_tcp. IPv6 sockets and adopted ones live on their shadow alone,
// with the reasons offload.no_ipv6 and offload.adopted in their path.
package offload
