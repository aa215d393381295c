// Package offload is the ring driver with a protocol stack of its own: frames from links (package ring/link) go through internal/ip and
// udp to sockets, without the kernel's stack.
//
//	driver := offload.New(offload.Config{Exchange: exchange, Interfaces: …})
//	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "offload", Driver: driver, OneRing: offload.OneRing})
//
// # A socket and its shadow
//
// An offloaded socket keeps a kernel socket, its shadow, made, bound, joined and connected by the same calls as on any ring. The shadow
// reserves the port, so that nobody else gets it; it holds the multicast memberships, so that cards and switches let the groups
// through; and what the kernel still gets for the socket arrives there: fragments, packets from this very host, packets that
// came before the flow was claimed. The driver reads it too, before newer frames of the link, and marks those packets (Completion.ViaKernel).
//
//	link ──► frames ──► internal/ip ──► udp ──► datagrams ──┐
//	                                                        ├──► completions
//	kernel ─► shadow socket ─► recvmsg ─► ViaKernel ────────┘
//
// A descriptor may have net.ipv4.igmp_max_memberships groups (20 by default) and net.ipv4.igmp_max_msf sources of each. For more the
// driver opens further descriptors, which are not bound and only hold memberships (package shadow); the shadow receives what they
// joined, and the stack's filter is put on it.
//
// The shadow's receive buffer is 8 MiB as the kernel counts, unless the application has set one (SO_RCVBUFFORCE; without CAP_NET_ADMIN
// up to net.core.rmem_max, with the reason offload.small_shadow). When more is ready at the shadows than a Poll has room for,
// they and the links take turns.
//
// Of the turns in which frames come, every Config.ShadowEvery-th looks at the shadows (VMA_RX_UDP_POLL_OS_RATIO). Of the others every 16th
// does while there is something, or while no frames have come for 16,384 turns; between frames, when 64 looks in a row found nothing, the
// next 16th turn that is 50 µs after the last look. So what the kernel has waits 50 µs and 16 turns at the longest while a ring spins, and
// 16 turns when it is not alone; a ring that never spins as many as 16 turns between frames looks after 16 × ShadowEvery turns at the
// latest. After a sleep it is at once. Turns that take long (tens of microseconds since the clock was read) count for 16.
//
// What a socket sends goes over a link when the route leads there. It goes through the shadow when only the kernel can deliver it:
// to an address of this host, to a group that sockets of the kernel on this host receive as well (IP_MULTICAST_LOOP, which is on by default
// and which a sender of market data turns off), to broadcast addresses, and by interfaces that are no link of the ring.
//
//	destination                          way
//	this host, any socket                shadow; received by the kernel's sockets, and by ours through their shadows, marked ViaKernel
//	a group, IP_MULTICAST_LOOP on        where sockets of the kernel receive it: shadow; the kernel sends the frame and loops it to this
//	                                     host's members. Else link; the stack loops it to members on the exchange's rings (groupsend.go)
//	a group, IP_MULTICAST_LOOP off       link; no socket of this host receives it, in any process
//	another host                         link
//
// # Links without a kernel
//
// On memory links and in simulated worlds there is no kernel to have a shadow in. There a [MemoryHost] gives sockets their addresses and
// ports, the stack answers ARP, ICMP and IGMP itself, and what a socket sends to its own host or group is looped inside the stack. The links are
// devices of its exchange, on which one ring is:
//
//	x, err := offload.NewExchange(offload.ExchangeConfig{MemoryHost: h, Open: nic.OpenLinks(h, map[string]link.Staged{"mem0": end})})
//
// # Sends
//
// Send copies the payload into a buffer of the pool and queues it; it leaves at the next Poll or Flush, many with one system call. What a
// receive callback sends, over UDP or TCP, leaves at the end of the Poll that called it. What UDP had to queue on its socket (SendPacket, a
// datagram behind one of those) leaves with the next Poll. A loop that polls on can let answers wait for each other for some microseconds
// ([Config].Gather). A full queue is ErrWouldBlock, and OUT follows. SendPacket sends the buffer itself. Datagrams longer than the MTU are
// refused with EMSGSIZE, or cut with Config.Fragment.
//
// # Several rings on one interface
//
// An [Exchange] lets the drivers of several goroutines, each with a pool of its own, share interfaces:
//
//	x, err := offload.NewExchange(offload.ExchangeConfig{Host: mirror, Open: nic.XDP(xdp.Config{})})
//	driver := offload.New(offload.Config{Exchange: x, Interfaces: []nic.Interface{{Name: "eth0", Queues: []int{0, 1}}}})
//	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "offload", Driver: driver, OneRing: offload.OneRing})
//
// There is one device for each interface, closed with its last driver. Each of its queues belongs to one driver: those of nic.Interface.Queues,
// or, without a list, all that nobody has, so that the first driver takes all. A claim is inserted by the first driver that makes it
// and removed with the last.
//
// A frame may come in on a queue of ring A for a socket of ring B. A looks it up among the sockets of all rings, proves its checksum,
// and puts the datagram into a bounded queue from A to B (package handoff), one for each ordered pair of rings: no lock, no allocation. B
// copies it into its own pool at its next Poll, and the place to which it has come gives A its buffers back; why it copies is said at
// handoff.Queue, what that costs by handoff's BenchmarkQueue. A wakes B only if B sleeps. Members of a group on several rings all receive;
// sockets that share a port share it over all rings, by one hash. Datagrams of one flow keep their order as long as they come in on one
// queue.
//
//	card, queue 0 ──► ring A ──► sockets of A
//	                    │ handoff
//	card, queue 1 ──► ring B ──► sockets of B         and the other way round
//
// What a reader too slow does not take is lost and counted (handover.full), as are datagrams under way to a socket or a ring that is
// closed (handover.no_socket, handover.closed: what a closed ring took with it is counted by the one that it was for). A ring that is not
// polled holds back what comes in on its queues for the others. When it is closed its queues' frames go to the kernel, and so to the shadows,
// until another driver has those queues: one whose nic.Interface.Queues is nil takes them over, for the others the path
// says ring.queue_left. Each socket that is concerned gets an EventPath.
//
// A flow is claimed on the interfaces that a socket is on: of one that is tied to an interface, or bound to an address, on that one, a
// group on the one that it was joined on. What comes for the same address and port elsewhere is the kernel's, which may have other sockets
// for it.
//
// A ring without a queue, because the interface has one and another ring serves it, receives by hand-over alone and sends through its
// shadows; its sockets' paths have the reason ring.no_queue.
//
// # When an interface goes, and comes back
//
// A driver on an exchange notices within a second, or as soon as the mirror reports it, that the steering program was taken off, or that
// the interface is down (link.down) or was deleted (link.gone). The kernel then has the traffic, so the sockets live on through
// their shadows. Each gets an EventPath, and its Path the reason. What the interface's rings held is lost. The interface is tried again
// after 10 ms, then after twice as long each time, once a second at the most, for as long as the driver lives; while another program is on
// it the reason is xdp.busy, and tries are down to one in 30 s unless that program ends or the mirror reports that it was taken off. Tries are
// made on another goroutine (package nic), since they take milliseconds, hundreds when the kernel is busy; the owner polls its shadows
// meanwhile, and takes the links over at a turn. When one succeeds the flows are claimed again, and a second EventPath tells. An interface
// that was deleted and made again counts as the same if it has the same name: memberships and SO_BINDTODEVICE are made again on it.
//
// Links that the caller made, as those of a MemoryHost are, cannot be made again: a lost one stays lost.
//
// # What Poll does not do
//
// Poll makes no call that may wait for the lock of the kernel's configuration (rtnl_lock), nor for a goroutine that does:
//
//	what                                                     who does it
//	links, addresses, routes, neighbours                     the mirror of package host
//	asking for neighbours, keeping them alive                its keeper
//	whether the steering program is still there              the prober of package xdp, every half second
//	opening and closing devices and queues                   jobs of package nic
//	ties and memberships of an interface that was made again jobs of the driver
//	members of groups that are not ours                      a goroutine of the exchange
//
// What Poll asks of the kernel's configuration are entries of the steering program's maps, which have locks of their own. A change of links,
// addresses, routes or rules makes it look at its attachments and find its routes again; a change of a neighbour concerns the routes to
// that neighbour alone, and wakes a ring only if datagrams wait for it.
//
// # VLANs and bonds
//
// Interfaces with the name of one device and different tags share its links: an interface beside its VLANs. nic.Interface.Bond attaches the
// ring to each member of a bond, and follows the host's tables from then on.
//
// # What it does not carry
//
// Unix-domain sockets are refused with the reason offload.no_unix, and TCP with offload.no_tcp, except with [Config].TCP, where package stream
// carries it: on a [MemoryHost], or beside a kernel with [KernelPorts]. IPv6 sockets of UDP and adopted ones live on their shadow alone,
// with the reasons offload.no_ipv6 and offload.adopted in their path. Adopted sockets of TCP are refused with offload.adopted.
//
// # TCP on an exchange
//
// Each ring on an exchange may carry TCP ([OpenTCP]), with tables of its own. The flows of its listeners and connections are claimed at each
// interface of which it has a queue, also at one that is opened later or comes back. Which ring has a connection, or listens, stands in a
// directory of the exchange (tcp.Directory). A segment that comes in on a queue of another ring is verified there, and its IPv4 packet goes
// through the same queues as datagrams do (segments.go).
//
// # TCP beside a kernel
//
// A listener is two: the stack accepts what the steering program redirects, and the kernel, which listens at the same address, all else.
// Both kinds of connection are accepted on one socket and used by the same calls; the path of the kernel's has the tier kernel, and why:
//
//	client                                                 connection of      reason
//	of an interface that is a link of the ring             the stack
//	of another interface                                   the kernel         tcp.kernel_child
//	of this host                                           the kernel         tcp.same_host
//	over IPv6, of a listener on all addresses of both      the kernel         offload.no_ipv6
//
// An outgoing connection is the kernel's for the same reasons, and with tcp.no_link where the route leads over an interface that is no link. The
// ring looks at the kernel's connections when it looks at the shadows.
//
// ICMP errors about the stack's connections reach the kernel, which knows nothing of them: a raw socket of the ring receives a copy
// (icmperrors.go). Without CAP_NET_RAW paths have the reason tcp.no_icmp.
package offload
