// Package extraapi (folder extra_api) is VMA's Extra API for Go: receive callbacks, zero-copy receive, warm sends, the rings of a
// socket, rules and statistics. It is for programs that were written for libvma, whose names it keeps. Its sockets, packets and completions are
// those of package xtreme.
//
// # Seeing packets first
//
// A [Callback] sees each packet of a socket inside Poll, in order, before it is queued, and decides:
//
//	engine, err := xtreme.New(conf.FromEnvironment())
//	poller, err := engine.NewPoller("feed", xtreme.PollerConfig{})
//	callback := func(i extraapi.Info, p xtreme.Packet) xtreme.Verdict {
//		if !wanted(p.Bytes()) {
//			return extraapi.PacketDrop
//		}
//		l, err := p.Lend() // for another goroutine
//		if err != nil {
//			return extraapi.PacketDrop
//		}
//		work <- l // a buffered channel with room; its receiver calls l.Release
//		return extraapi.PacketHold
//	}
//	socket, err := poller.OpenUDP(address, xtreme.UDPConfig{SocketConfig: extraapi.RecvCallback(callback, false)})
//
//	PacketDrop  the packet is released at once
//	PacketRecv  the packet is delivered: by Poll's completions, or, in pull mode, by RecvFromZeroCopy
//	PacketHold  the packet belongs to the callback, and Poll and RecvFromZeroCopy do not deliver it; the program releases it later, by
//	            FreePackets on the poller's goroutine, or on another one after Packet.Lend
//
// What a callback may and may not do:
//
//	panic                   its socket is reset; Poll returns a *ring.CallbackPanic, after the completions of that Poll; other sockets go on
//	block                   the poller's goroutine waits, with all its sockets; nothing is lost; other pollers go on
//	close its socket        allowed; the packet is then dropped even with PacketRecv
//	release the packet      allowed with any verdict; the packet is then dropped even with PacketRecv
//	send, register          allowed; a callback that it registers sees the next packet
//	receive                 allowed in pull mode: it returns packets that arrived before this one
//	poll, close the ring    EDEADLK
//	call from elsewhere     ErrOwner on another goroutine than the poller's
//
// Connections have the callback of their listener, because early data comes with them; Info.Socket says which one it is. FIN and
// errors are no packets: they come as completions.
//
// # Pulling packets
//
// A socket is in completion mode, in which Poll delivers its packets, or in pull mode ([Pull], [SetPull]), in which they wait on it
// and Poll reports them with EventIn. The mode is fixed when the socket is bound, connected or listening; the calls of the other one
// return ring.ErrMode.
//
//	n, bytes, err := extraapi.RecvFromZeroCopy(socket, done[:], 0, 0)
//	for i := range done[:n] {
//		for piece := range done[i].Packet.Segments() {
//			hash.Write(piece)
//		}
//	}
//	extraapi.FreeCompletions(socket, done[:n])
//
// What RecvFromZeroCopy returns when there is no packet to return:
//
//	nothing is queued       EAGAIN; EventIn follows
//	the peer sent FIN       io.EOF, after the data, each time
//	reset, time-out         the error, each time
//	too little room         ENOBUFS with the length of the packet, which stays queued; Recv takes a part of a packet, by copying
//	MSG_PEEK, MSG_WAITALL   ErrNotSupported, with the reason; the data stays queued
//	ZeroCopyForce           EIO if the kernel carries the socket, or has received the first packet, which stays queued
//
// On kernel rings the kernel copies each packet once, into the ring's buffer. Nothing is copied after that.
//
// # One polled ring
//
// As with VMA, a program may poll the ring of its listener and nothing else ([Poll], by descriptor). Accepted connections stay on that ring,
// whatever the allocation logic: it delivers their packets and time-outs and does their sends. It also takes back packets that other
// goroutines release, and runs the functions of Poller.Post. The same holds for the ring of any other socket. Such a program sleeps by
// Ring.Wait: Poller.Wait and Poller.FD are for all of a poller's rings, and do not sleep while one of them was never polled.
//
// Sockets may have other rings (Socket.Ring): those of another interface, those with another logic, and on a poller of kind offload those that
// are offloaded (UDP over IPv4, with SX_OFFLOAD_TCP=1 TCP too), beside all others, which the kernel carries. A program that has such sockets
// polls each of the rings, as with VMA, or calls Poller.Poll, which polls all of a poller's rings fairly.
//
// # Giving packets back
//
// [FreePackets] and [FreeCompletions] check all packets first. If one belongs to another poller (buffers.ErrOtherPool) or was freed before
// (buffers.ErrStale), they free none, and the error says which it is. Packets may be freed after their socket and its ring were closed.
//
// # Warm sends
//
// A send after a millisecond of silence is slow, because its code and its tables have left the processor's caches. [DummySend] executes a send
// without sending anything, so that they stay there. What it executes depends on who carries the socket:
//
//	offloaded UDP   all of our send, up to the link's ring: buffer, copy, route, neighbour, headers
//	kernel UDP      system call, socket, route look-up and the socket's cached route (MSG_PROBE); the kernel's code after that stays cold
//	kernel TCP      refused: the kernel has no send that sends nothing
//	our own TCP     refused: it has none either
//
// If the link-layer address of the next hop is unknown it returns EAGAIN and asks nothing on the wire; [Prepare] asks. A dummy send uses up no
// IP identification, causes no event, is counted apart from sends, and is not paced.
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
//	get_ring_direct_descriptors               none: there are no descriptors of a card to give to the program
//	register_memory_on_ring, deregister_…     none: a ring has the memory of its poller's buffers from the start
//	ioctl VMA_IOCTL_USER_ALLOC                PollerConfig.Memory
//	SO_VMA_USER_DATA                          SocketConfig.UserData, Socket.SetUserData
//	SO_VMA_RING_ALLOC_LOGIC                   RingAttributes; SocketConfig.RingLogic, UserID
//	SO_VMA_RING_USER_MEMORY                   PollerConfig.Memory
//	SO_VMA_FLOW_TAG                           none: a socket is found without a search
//	SO_VMA_SHUTDOWN_RX                        Socket.Suspend, which Resume undoes
//	VMA_SND_FLAGS_DUMMY                       DummySend; Send with DummyFlag
//	MSG_VMA_ZCOPY, MSG_VMA_ZCOPY_FORCE        ZeroCopy, ZeroCopyForce
//
// The tests show where the two differ: TestConformance has VMA's own test cases under their names, TestOldBugs known defects of VMA's.
//
// # Goroutines
//
// A socket belongs to the goroutine that polls its ring. Calls from other goroutines return ring.ErrOwner, sends too; SocketRingsNum, which
// returns no error, returns 0. AddRule and the methods of xtreme.Lent are for any goroutine.
package extraapi
