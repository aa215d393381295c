// Package extraapi (folder extra_api) is VMA's Extra API for Go: receive callbacks, zero-copy receive, warm sends, the rings of a
// socket, rules and statistics, by names that code written for libvma finds again. It adds no rings and no buffers: sockets are
// package xtreme's, and what it does is done by packages ring and buffers.
//
// # Seeing packets first
//
// A [Callback] sees each packet of a socket inside Poll, in order, before it is queued, and decides:
//
//	engine, err := xtreme.New(conf.FromEnvironment())
//	poller, err := engine.NewPoller("feed", xtreme.PollerConfig{})
//	callback := func(i extraapi.Info, p buffers.Packet) ring.Verdict {
//		if !wanted(p.Bytes()) {
//			return extraapi.PacketDrop
//		}
//		l, err := p.Lend() // for another goroutine
//		if err != nil {
//			return extraapi.PacketDrop
//		}
//		work <- l          // which calls l.Release; here there must be room
//		return extraapi.PacketHold
//	}
//	socket, err := poller.OpenUDP(address, xtreme.UDPConfig{SocketConfig: extraapi.RecvCallback(callback, false)})
//
//	PacketDrop  released at once
//	PacketRecv  goes on: to Poll's completions, or, in pull mode, to where RecvFromZeroCopy takes it
//	PacketHold  the callback's: FreePackets on the poller's goroutine, Lend for others; Poll and RecvFromZeroCopy do not see it
//
// What a callback may and may not do, and what comes of it:
//
//	panics                  its socket is reset; Poll returns a *ring.CallbackPanic, after the completions of that Poll; other sockets go on
//	blocks                  its owner waits, with all its sockets; nothing is lost; other pollers go on
//	closes its socket       yes; a packet that it keeps is dropped
//	releases the packet     yes, with any verdict; a kept one is then dropped
//	sends, registers        yes; a callback that it registers sees the next packet
//	receives                in pull mode, what waited before the packet in hand
//	polls, closes the ring  EDEADLK
//	registers elsewhere     from another goroutine than the poller's: ErrOwner
//
// Connections have the callback of their listener, because early data comes with them; Info.Socket says which one it is. FIN and
// errors are no packets: they come as completions.
//
// # Pulling packets
//
// A socket is in completion mode, in which Poll delivers its packets, or in pull mode ([Pull], [SetPull]), in which they wait on it
// and Poll reports them with EventIn. The mode is fixed when the socket is bound, connected or listening; the calls of the other one
// answer ring.ErrMode.
//
//	n, bytes, err := extraapi.RecvFromZeroCopy(socket, done[:], 0, 0)
//	for i := range done[:n] {
//		for piece := range done[i].Packet.Segments() {
//			hash.Write(piece)
//		}
//	}
//	extraapi.FreeCompletions(socket, done[:n])
//
//	nothing waits           EAGAIN; EventIn follows
//	the peer's FIN          io.EOF, after the data, each time
//	reset, time-out         the error, each time
//	too little room         ENOBUFS with the length of the packet; it stays. Recv takes part of a packet, by copying
//	MSG_PEEK, MSG_WAITALL   ErrNotSupported, with the reason; the data stays
//	ZeroCopyForce           EIO where the kernel's stack carries the socket, or has received the first packet; it stays
//
// On kernel rings the kernel copies each packet once, into the ring's buffer; nothing after that is a copy.
//
// # One polled ring
//
// As with VMA, a program may poll the ring of its listener and nothing else ([Poll], by descriptor). Accepted connections stay on that ring,
// whatever the allocation logic. Their packets, sends and time-outs come by it, and so do packets that other goroutines return and what
// Poller.Post brings. The same holds for the ring of any other socket. Such a program sleeps by Ring.Wait: Poller.Wait and Poller.FD are for all
// of a poller's rings, and do not sleep while one of them was never polled.
//
// One ring is not enough for sockets that have others (Socket.Ring): those of another interface, or by another logic, and on a poller of kind
// offload UDP over IPv4 beside everything else, which the kernel carries. Then poll each of them, as with VMA, or Poller.Poll, which polls
// all of a poller's rings fairly.
//
// # Giving packets back
//
// [FreePackets] and [FreeCompletions] look at all packets first: with one that is another poller's (buffers.ErrOtherPool) or was freed before
// (ErrStale) none is freed, and the error says which. Packets may be freed after their socket, and after its ring, was closed.
//
// # Warm sends
//
// A path that was not used for a millisecond is cold: its code and its tables have left the caches. [DummySend] walks it without sending
// anything. What is walked depends on who sends:
//
//	offloaded UDP   the whole of our path, up to the link's ring: buffer, copy, route, neighbour, headers
//	kernel UDP      system call, socket, route look-up and the route's place in the socket (MSG_PROBE); in the kernel what follows stays cold
//	kernel TCP      refused: the kernel has no send that sends nothing
//
// Where the neighbour is unknown the answer is EAGAIN, and nothing is asked on the wire: [Prepare] asks. A warm send uses up no
// identification, raises no event, and is counted apart from sends. It does not go through a socket's pacing.
//
// # Line by line
//
//	VMA                                       here
//	vma_get_api                               import
//	vma_extra_supported_mask                  Query, Capabilities
//	register_recv_callback                    RegisterRecvCallback, RecvCallback
//	recvfrom_zcopy                            RecvFromZeroCopy; recv: Recv
//	free_packets                              FreePackets, FreeCompletions
//	add_conf_rule                             AddRule
//	thread_offload                            ThreadOffload; of one socket: SocketConfig.RequireOffload, KernelOnly
//	dump_fd_stats                             DumpStats, DumpSocket
//	socketxtreme_poll                         Poller.Poll, Ring.Poll; by descriptor: Poll
//	socketxtreme_free_vma_packets             FreePackets, or Packet.Release
//	socketxtreme_ref_vma_buff                 buffers.Buffer.Retain
//	socketxtreme_free_vma_buff                buffers.Buffer.Release, which frees at once
//	get_socket_rings_num                      SocketRingsNum
//	get_socket_rings_fds                      SocketRingsFDs
//	get_socket_tx_ring_fd                     SocketTxRing
//	get_socket_network_header                 SocketNetworkHeader
//	vma_add_ring_profile                      none: profiles describe rings of the card's own kinds
//	vma_modify_ring                           ModifyRing
//	get_ring_direct_descriptors               none: there are no descriptors of a card to hand out
//	register_memory_on_ring, deregister_…     none: a ring's memory is given to it when it is made
//	ioctl VMA_IOCTL_USER_ALLOC                PollerConfig.Memory
//	SO_VMA_USER_DATA                          SocketConfig.UserData, Socket.SetUserData
//	SO_VMA_RING_ALLOC_LOGIC                   RingAttributes; SocketConfig.RingLogic, UserID
//	SO_VMA_RING_USER_MEMORY                   PollerConfig.Memory
//	SO_VMA_FLOW_TAG                           none: a socket is found without a search
//	SO_VMA_SHUTDOWN_RX                        Socket.Suspend, which Resume undoes
//	VMA_SND_FLAGS_DUMMY                       Warm; with the flag: Send
//	MSG_VMA_ZCOPY, MSG_VMA_ZCOPY_FORCE        ZeroCopy, ZeroCopyForce
//
// Where the two differ, VMA's test cases under their names (TestConformance) and its known defects (TestOldBugs) say how.
//
// # Whose calls
//
// A socket belongs to the goroutine that polls its ring; calls from others answer ring.ErrOwner, those that send included. AddRule and the
// methods of buffers.Lent are for any goroutine. SocketRingsNum has no error to answer with: it is 0 for others.
package extraapi
