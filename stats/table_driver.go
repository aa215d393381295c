package stats

import "slices"

// driverCounters are what can be said of the counters that drivers name themselves. Of a frame that is lost one counter is a loss: the one with
// the most exact reason. The sums rx_lost and tx_lost are none.
var driverCounters = slices.Concat(linkCounters, deviceCounters, stackCounters, streamCounters)

// total is a row of a total; lost one of what is lost.
func total(name, unit, help, kernel string) Counter {
	return Counter{Name: name, Unit: unit, Type: Total, Help: help, Kernel: kernel}
}

func lost(name, unit, help, kernel string) Counter {
	c := total(name, unit, help, kernel)
	c.Loss = true
	return c
}

// linkCounters are those of each link, behind its interface and queue: "eth0/2.rx_frames".
var linkCounters = ofLinks([]Counter{
	total("rx_frames", "frames", "frames that the link received", "rx_packets"),
	total("rx_lost", "frames", "frames that the link lost: the sum of the counters with the reasons", "rx_dropped"),
	total("tx_frames", "frames", "frames that the link sent", "tx_packets"),
	total("tx_lost", "frames", "frames that the link could not send: the sum of the counters with the reasons", "tx_dropped"),
	total("kicks", "calls", "system calls that made the link send or fill", ""),

	lost("xdp.rx_dropped", "frames", "frames for which no buffer lay ready in the fill ring, or that were too long for one", "XDP_STATISTICS rx_dropped"),
	lost("xdp.rx_ring_full", "frames", "frames that found the receive ring full: the loop did not poll", "XDP_STATISTICS rx_ring_full"),
	total("xdp.rx_fill_ring_empty_descs", "frames", "times that the kernel found the fill ring empty: the poller's buffers are used up or held",
		"XDP_STATISTICS rx_fill_ring_empty_descs"),
	total("xdp.rx_invalid_descs", "entries", "entries of the fill ring that the kernel refused; it takes the next one: no frame is lost",
		"XDP_STATISTICS rx_invalid_descs"),
	lost("xdp.tx_invalid_descs", "frames", "entries of the transmit ring that the kernel refused", "XDP_STATISTICS tx_invalid_descs"),
	total("xdp.tx_ring_empty_descs", "calls", "times that the kernel found the transmit ring empty", "XDP_STATISTICS tx_ring_empty_descs"),
	lost("xdp.tx_too_long", "frames", "frames to be sent that were longer than the link carries", ""),
	lost("xdp.tx_no_carrier", "frames", "frames to be sent that the interface discarded for want of a carrier", "tx_carrier_errors"),
	lost("xdp.tx_closed", "frames", "frames that had not left when the link was closed", ""),
	lost("xdp.bad_numbers", "frames", "addresses from the kernel that are no buffer of the pool", ""),
	total("xdp.no_buffer", "calls", "times that the pool had too few buffers to fill the fill ring", ""),

	lost("memory.rx_ring_full", "frames", "frames that found the memory link full", ""),
	total("memory.rx_no_buffer", "calls", "times that the receiver of a memory link had no buffer for a frame, which waits", ""),
	total("memory.tx_fault", "frames", "frames that a fault of the test discarded or changed", ""),
	lost("memory.tx_peer_closed", "frames", "frames to a memory link whose other end was closed", ""),
	lost("memory.tx_too_long", "frames", "frames longer than the memory link carries", ""),

	total("capture.written", "frames", "frames written into the capture's file", ""),
	total("capture.no_room", "frames", "frames written over in the recorder's memory before the capture read them: they are missing in the file alone", ""),
	total("capture.over_limit", "frames", "frames beyond the capture's limit of bytes", ""),
	total("capture.failed", "frames", "frames that could not be written", ""),
})

// ofLinks marks rows as those of links.
func ofLinks(list []Counter) []Counter {
	for i := range list {
		list[i].ofLink = true
	}
	return list
}

// deviceCounters are those of the steering program of an interface, behind its name: "eth0.steer.hit". What does not hit is the kernel's.
var deviceCounters = ofLinks([]Counter{
	total("steer.hit", "frames", "frames that the steering program gave to a ring", "XDP_REDIRECT"),
	total("steer.miss", "frames", "frames that no flow claims: the kernel has them", "XDP_PASS"),
	total("steer.no_queue", "frames", "frames of claimed flows that came by a queue that no ring serves: the kernel has them", "XDP_PASS"),
	total("steer.fragment", "frames", "fragments: the kernel has them", "XDP_PASS"),
	total("steer.truncated", "frames", "frames too short for their headers: the kernel has them", "XDP_PASS"),
	total("steer.malformed", "frames", "frames with IPv4 headers that contradict themselves: the kernel has them", "XDP_PASS"),
	total("steer.not_ipv4", "frames", "frames of another protocol than IPv4: the kernel has them", "XDP_PASS"),
	total("steer.other_protocol", "frames", "IPv4 packets that are neither UDP nor TCP: the kernel has them", "XDP_PASS"),
	total("steer.kernel", "frames", "frames of the kernel's connections on claimed ports: the kernel has them", "XDP_PASS"),
	total("steer.oversize", "frames", "frames longer than a link takes: the kernel has them", "XDP_PASS"),
	total("guard.segment", "segments", "segments of connections of the stack that were kept from the kernel, as while the steering program is off", ""),
	total("guard.syn", "segments", "SYNs to ports of the stack that were kept from the kernel", ""),
	total("guard.fragment", "packets", "first fragments of such segments that were kept from the kernel", ""),
	total("guard.kernel", "segments", "segments to ports of the stack that were passed: the kernel has the connection", ""),
	total("guard.accept", "segments", "SYNs to ports of the stack that were passed to the kernel", ""),
	total("guard.stale", "packets", "packets that the guard of a killed process has passed", ""),
})

// stackCounters are those of the stack, of the driver and of the queues between rings.
var stackCounters = []Counter{
	lost("neighbour.time", "packets", "packets whose next hop did not answer ARP in time", "neigh unresolved_discards"),
	lost("neighbour.failed", "packets", "packets whose next hop the kernel says cannot be reached", "neigh res_failed"),
	lost("neighbour.oldest", "packets", "packets that made room for newer ones while their next hop was looked for", "neigh unresolved_discards"),
	lost("neighbour.full", "packets", "packets that found no room to wait for their next hop", "neigh table_fulls"),
	lost("neighbour.closed", "packets", "packets that waited for their next hop when the ring was closed, or their interface went down", ""),
	total("stack.delivered", "datagrams", "datagrams delivered to sockets", "InDatagrams"),
	total("stack.partial_sums", "datagrams", "datagrams taken with the checksum of the pseudo header only", ""),
	total("stack.kept", "datagrams", "datagrams kept for a socket that does not read", ""),
	total("stack.discarded", "datagrams", "datagrams kept for a socket that was closed before it read them", ""),
	total("stack.gathered", "frames", "frames of several buffers that were copied into one", ""),
	lost("stack.no_buffer", "frames", "frames lost for want of a buffer", ""),
	total("stack.sent", "datagrams", "datagrams that left by a link", "OutDatagrams"),
	total("stack.fragmented", "datagrams", "datagrams that the stack cut into fragments", "FragOKs"),
	total("stack.prepared_routes", "datagrams", "datagrams sent by a route that was ready", ""),
	total("stack.looped", "datagrams", "datagrams to this host's own sockets", ""),
	lost("stack.loop_full", "datagrams", "datagrams of this host's own that found the loop full", ""),
	total("stack.waited_for_neighbour", "packets", "packets that waited for their next hop", ""),
	lost("stack.lost", "frames", "frames that did not leave because the link went down or became too short; those of neighbour.… are not among them", ""),
	total("offload.os_packets", "packets", "packets of offloaded sockets that came through the kernel", ""),
	total("offload.os_reads", "calls", "times that the kernel's side of offloaded sockets was read", ""),
	total("offload.os_unheard", "packets", "packets of the kernel's side for groups that the socket has not joined there", ""),
	total("offload.os_sends", "datagrams", "datagrams of offloaded sockets that the kernel sent", ""),
	total("offload.declined_ways", "destinations", "destinations that are left to the kernel, with a reason in the path", ""),
	lost("offload.lost_sends", "datagrams", "datagrams that failed after Send had taken them", ""),
	total("offload.gathered_sends", "datagrams", "packets of several buffers, or without room for headers, that were copied into one", ""),
	total("offload.path_changes", "changes", "changes of sockets' paths", ""),
	total("offload.flush_failures", "calls", "flushes that a link refused", ""),
	total("offload.release_failures", "calls", "claims that could not be given back", ""),
	total("offload.retry_failures", "calls", "tries to open a lost interface again that failed", ""),
	total("offload.address_failures", "calls", "addresses of the host that a device refused", ""),
	total("offload.illegal_moves", "moves", "moves of an attachment's state that were refused: a fault of the library", ""),
	total("handover.given", "datagrams", "datagrams given to another ring", ""),
	total("handover.taken", "datagrams", "datagrams taken from another ring", ""),
	total("handover.copied", "datagrams", "of them, those delivered to a socket", ""),
	lost("handover.full", "datagrams", "datagrams for another ring whose queue was full", ""),
	lost("handover.closed", "datagrams", "datagrams for a ring that was closed meanwhile", ""),
	lost("handover.no_socket", "datagrams", "datagrams from another ring whose socket was closed meanwhile", ""),
}

// streamCounters are those of the library's own TCP.
var streamCounters = []Counter{
	{Name: "tcp.connections", Unit: "connections", Type: Gauge, Help: "connections that are open", Kernel: "CurrEstab"},
	{Name: "tcp.half_open", Unit: "connections", Type: Gauge, Help: "connections in the handshake"},
	{Name: "tcp.time_wait", Unit: "connections", Type: Gauge, Help: "connections in TIME-WAIT"},
	total("tcp.segments_in", "segments", "segments received", "InSegs"),
	total("tcp.segments_out", "segments", "segments sent", "OutSegs"),
	total("tcp.retransmitted", "segments", "segments sent again", "RetransSegs"),
	total("tcp.timeouts", "times", "retransmission timeouts", "TCPTimeouts"),
	total("tcp.recoveries", "times", "fast recoveries", "TCPSackRecovery"),
	total("tcp.loss_probes", "segments", "tail loss probes", "TCPLossProbes"),
	total("tcp.undone", "times", "reductions of the window that were undone", "TCPFullUndo"),
	total("tcp.window_probes", "segments", "probes of a closed window", "TCPWinProbe"),
	total("tcp.keepalives", "segments", "keepalive probes", "TCPKeepAlive"),
	total("tcp.resets_sent", "segments", "resets sent", "OutRsts"),
	total("tcp.resets_limited", "segments", "resets not sent because of the limit", ""),
	total("tcp.resets_received", "segments", "resets that ended a connection", "EstabResets"),
	total("tcp.challenges", "segments", "challenge acknowledgements", "TCPChallengeACK"),
	total("tcp.out_of_order", "segments", "segments kept out of order", "TCPOFOQueue"),
	total("tcp.duplicate", "segments", "segments with nothing new", ""),
	total("tcp.reneged", "segments", "segments kept out of order that were dropped because buffers were short", "TCPOFODrop"),
	total("tcp.overflows", "connections", "handshakes that a full listener refused", "ListenOverflows"),
	total("tcp.cookies", "segments", "SYN cookies sent", "SyncookiesSent"),
	total("tcp.bad_cookies", "segments", "SYN cookies that came back and were wrong", "SyncookiesFailed"),
	total("tcp.black_holes", "times", "path MTUs taken back because long segments did not arrive", "TCPMTUPFail"),
	total("tcp.sent_in_place", "segments", "segments sent from the buffer of the data", ""),
	total("tcp.sent_copied", "segments", "segments whose data were copied", ""),
	total("tcp.no_buffer", "segments", "segments not sent for want of a buffer; they are sent again", ""),
	total("tcp.no_route", "segments", "segments not sent for want of a route; they are sent again", "OutNoRoutes"),
	total("tcp.too_long", "segments", "segments longer than the link takes; they are cut", ""),
	total("tcp.partial_sums", "segments", "segments taken with the checksum of the pseudo header only", ""),
	total("tcp.collapsed", "segments", "segments copied together to free buffers", "TCPRcvCollapsed"),
	total("tcp.unrecorded", "connections", "connections for which the record of connections had no room: not reset when the process is killed", ""),
	total("tcp.ports_kept", "listeners", "closed listeners whose port stayed claimed until their last connection had ended", ""),
	total("tcp.via_kernel", "connections", "connections of offloaded listeners and sockets that the kernel carries", ""),
	total("tcp.unpassed", "connections", "connections of the kernel on claimed ports that the steering program had no room to pass: their peers were reset", ""),
	total("tcp.moved_to_kernel", "connections", "connections that were moved into the kernel", ""),
	total("tcp.moved_to_stack", "connections", "connections that returned from the kernel", ""),
	total("tcp.not_moved", "connections", "moves of connections that were refused", ""),
	total("tcp.icmp_errors", "messages", "ICMP errors about connections of the stack", "IcmpInDestUnreachs"),
}
