package stats

import "slices"

// hostCounters are what the kernel counts of packets on their way to a ring, and of what keeps the process from running: what package
// internal/hoststat reads, and what the kernel counts of AF_XDP sockets. Those of an interface have its name in front.
var hostCounters = slices.Concat([]Counter{
	total("rx_bytes", "bytes", "bytes that the interface received", "/proc/net/dev"),
	total("rx_packets", "packets", "packets that the interface received", "/proc/net/dev"),
	total("rx_errors", "packets", "packets that the interface received with an error", "/proc/net/dev errs"),
	total("rx_dropped", "packets", "packets that the interface, or the kernel behind it, dropped: no room in the card, or no protocol took them", "/proc/net/dev drop"),
	total("rx_fifo_errors", "packets", "packets that found the card's memory full", "/proc/net/dev fifo"),
	total("rx_frame_errors", "packets", "packets with a wrong length or checksum of the frame", "/proc/net/dev frame"),
	total("rx_otherhost_dropped", "packets", "packets for another station, or with a VLAN tag for which there is no interface, which the kernel's IP dropped", "ip -s -s link otherhost"),
	total("rx_nohandler", "packets", "packets that came by an interface that takes none, such as the inactive member of a bond", "rtnl_link_stats64"),
	total("multicast", "packets", "multicast packets that the interface received", "/proc/net/dev multicast"),
	total("tx_bytes", "bytes", "bytes that the interface sent", "/proc/net/dev"),
	total("tx_packets", "packets", "packets that the interface sent", "/proc/net/dev"),
	total("tx_errors", "packets", "packets that the interface could not send", "/proc/net/dev errs"),
	total("tx_dropped", "packets", "packets that the interface dropped when it was to send them", "/proc/net/dev drop"),
	total("tx_fifo_errors", "packets", "packets that the card did not send in time", "/proc/net/dev fifo"),
	total("tx_carrier_errors", "packets", "packets lost for want of a carrier", "/proc/net/dev carrier"),
	{Name: "groups", Unit: "groups", Type: Gauge, Help: "multicast groups that are joined on the interface", Kernel: "/proc/net/igmp"},
	total("ethtool.*", "as the card counts", "counters of the card with drop, miss, error or the like in their names", "ethtool -S"),

	total("softnet.processed", "packets", "packets that softirq has handled, all processors", "softnet_stat 1"),
	total("softnet.dropped", "packets", "packets that found the kernel's backlog full", "softnet_stat 2"),
	total("softnet.time_squeeze", "times", "times that softirq stopped with packets left", "softnet_stat 3"),

	total("ip.InReceives", "packets", "IPv4 packets that reached the kernel's stack", "IpInReceives"),
	total("ip.InHdrErrors", "packets", "IPv4 packets with a wrong header", "IpInHdrErrors"),
	total("ip.InAddrErrors", "packets", "IPv4 packets for other hosts", "IpInAddrErrors"),
	total("ip.ForwDatagrams", "packets", "IPv4 packets that were forwarded", "IpForwDatagrams"),
	total("ip.InUnknownProtos", "packets", "IPv4 packets of protocols that nothing takes", "IpInUnknownProtos"),
	total("ip.InDiscards", "packets", "IPv4 packets that were discarded for want of memory and the like", "IpInDiscards"),
	total("ip.InDelivers", "packets", "IPv4 packets that were given to UDP, TCP and others; what is missing to InReceives a firewall may have dropped", "IpInDelivers"),
	total("ip.OutRequests", "packets", "IPv4 packets that this host made", "IpOutRequests"),
	total("ip.ReasmReqds", "fragments", "fragments that arrived", "IpReasmReqds"),
	total("ip.ReasmOKs", "packets", "packets that were put together", "IpReasmOKs"),
	total("ip.ReasmFails", "packets", "packets that could not be put together", "IpReasmFails"),
	total("ip.InNoRoutes", "packets", "packets without a route, or refused by the reverse path filter", "IpExtInNoRoutes"),
	total("ip.InTruncatedPkts", "packets", "packets shorter than their header says", "IpExtInTruncatedPkts"),
	total("ip.InCsumErrors", "packets", "packets with a wrong IPv4 checksum", "IpExtInCsumErrors"),
	total("ip.InMcastPkts", "packets", "multicast packets for which there was a member, and all that this host sent on the loopback interface", "IpExtInMcastPkts"),
	total("ip.OutMcastPkts", "packets", "multicast packets that were sent", "IpExtOutMcastPkts"),
	total("icmp.OutMsgs", "packets", "ICMP messages that this host sent", "IcmpOutMsgs"),
	total("udp.InDatagrams", "datagrams", "datagrams that the kernel delivered to sockets", "UdpInDatagrams"),
	total("udp.NoPorts", "datagrams", "datagrams for a port without a socket", "UdpNoPorts"),
	total("udp.InErrors", "datagrams", "datagrams that the kernel could not deliver", "UdpInErrors"),
	total("udp.OutDatagrams", "datagrams", "datagrams that the kernel sent", "UdpOutDatagrams"),
	total("udp.RcvbufErrors", "datagrams", "datagrams that found a receive buffer full", "UdpRcvbufErrors"),
	total("udp.SndbufErrors", "datagrams", "datagrams that found no memory to be sent", "UdpSndbufErrors"),
	total("udp.InCsumErrors", "datagrams", "datagrams with a wrong checksum", "UdpInCsumErrors"),
	total("udp.IgnoredMulti", "datagrams", "multicast datagrams that no socket wanted", "UdpIgnoredMulti"),
	total("udp.MemErrors", "datagrams", "datagrams refused because all of UDP has too much memory", "UdpMemErrors"),
	total("tcp.InSegs", "segments", "segments received", "TcpInSegs"),
	total("tcp.OutSegs", "segments", "segments sent", "TcpOutSegs"),
	total("tcp.RetransSegs", "segments", "segments sent again", "TcpRetransSegs"),
	total("tcp.InErrs", "segments", "segments that were wrong", "TcpInErrs"),
	total("tcp.InCsumErrors", "segments", "segments with a wrong checksum", "TcpInCsumErrors"),
	total("tcp.ListenOverflows", "connections", "connections that found a listener full", "TcpExtListenOverflows"),
	total("tcp.ListenDrops", "connections", "connections that a listener could not take", "TcpExtListenDrops"),
	total("tcp.TCPBacklogDrop", "segments", "segments that found a socket's backlog full", "TcpExtTCPBacklogDrop"),
	total("tcp.TCPRcvQDrop", "segments", "segments that found a socket's receive queue full", "TcpExtTCPRcvQDrop"),
	total("tcp.TCPTimeouts", "times", "retransmission timeouts", "TcpExtTCPTimeouts"),

	total("process.page_faults", "faults", "page faults that needed no disk", "ru_minflt"),
	total("process.major_faults", "faults", "page faults that waited for a disk", "ru_majflt"),
	total("process.preempted", "switches", "times that a thread was taken off its processor", "ru_nivcsw"),
	total("process.gc_cycles", "collections", "garbage collections of the Go runtime", "/gc/cycles/total:gc-cycles"),
	total("process.cpu_time", "ns", "time that the threads were on processors", "/proc/self/task/*/schedstat 1"),
	total("process.run_delay", "ns", "time that threads waited for a processor", "/proc/self/task/*/schedstat 2"),
	total("cpu.softirq", "ns", "time that all processors spent in softirq", "/proc/stat softirq"),
	total("cpu.steal", "ns", "time that the host took from this machine's processors", "/proc/stat steal"),
}, sampled(linkCounters), sampled(deviceCounters))

// sampled are rows of drivers as the host has them: what is lost is in the journal already.
func sampled(list []Counter) []Counter {
	list = slices.Clone(list)
	for i := range list {
		list[i].Loss = false
	}
	return list
}
