package stats

import (
	"strings"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// dropCounters are the words of an offloaded ring's drops: one for each code of package wire, those that no code has included.
func dropCounters() []Counter {
	list := make([]Counter, wire.NumDrops)
	for i := range list {
		name := wire.Drop(i).String()
		if name == "unknown" || i == 0 {
			list[i] = Counter{Unit: "frames", Type: Total} // no reason has the code
			continue
		}
		list[i] = Counter{Name: name, Unit: "frames", Type: Total, Loss: !harmless[wire.Drop(i)], Help: dropHelp(wire.Drop(i)), Kernel: dropKernel[name]}
	}
	return list
}

// harmless are the drops that are nothing lost: of frames that were for others, or that the kernel handles.
var harmless = map[wire.Drop]bool{wire.EthernetNotOurs: true, wire.EthernetType: true, wire.EthernetInactive: true, wire.IPv4NotOurs: true,
	wire.IPv4Fragment: true, wire.IPv4Protocol: true, wire.ICMPRate: true}

// dropKernel is what the kernel calls the same.
var dropKernel = map[string]string{
	"udp.no_socket": "NoPorts", "udp.budget": "RcvbufErrors", "udp.sum": "InCsumErrors", "udp.short": "InErrors", "udp.length": "InErrors",
	"udp.long": "InErrors", "ipv4.sum": "InHdrErrors", "ipv4.short": "InTruncatedPkts", "ipv4.version": "InHdrErrors",
	"ipv4.header_length": "InHdrErrors", "ipv4.total_short": "InHdrErrors", "ipv4.total_long": "InTruncatedPkts", "ipv4.ttl": "InHdrErrors",
	"ipv4.not_ours": "InAddrErrors", "ipv4.protocol": "InUnknownProtos", "icmp.sum": "IcmpInCsumErrors", "icmp.short": "IcmpInErrors",
	"tcp.sum": "TcpInCsumErrors", "tcp.backlog": "ListenOverflows", "tcp.old": "PAWSEstab", "tcp.budget": "TCPOFODrop",
}

var dropWords = map[string]string{"eth": "Ethernet", "arp": "ARP", "ipv4": "IPv4", "udp": "UDP", "icmp": "ICMP", "igmp": "IGMP", "tcp": "TCP"}

// dropHelp is the help text of a reason for drops: the one of dropTexts, or one made of the reason's name.
func dropHelp(d wire.Drop) string {
	if text := dropTexts[d]; text != "" {
		return text
	}
	protocol, what, _ := strings.Cut(d.String(), ".")
	return dropWords[protocol] + ": " + strings.ReplaceAll(what, "_", " ") + " (see internal/wire/drop.go)"
}

// dropTexts say more of those that an operator meets.
var dropTexts = map[wire.Drop]string{
	wire.UDPNoSocket:       "no socket of this ring or of another one has the port",
	wire.UDPBudget:         "the socket's receive budget is spent: it does not read, or the application does not release",
	wire.UDPForeignPeer:    "the socket is connected to another peer",
	wire.UDPGroupNotJoined: "multicast to a group, interface or source that no socket has joined",
	wire.UDPSum:            "the UDP checksum is wrong",
	wire.UDPPartial:        "the checksum is that of the pseudo header only, as local peers send it, and the policy is strict",
	wire.EthernetNotOurs:   "for another station",
	wire.EthernetVLAN:      "VLAN 4095, which is reserved",
	wire.EthernetTag:       "the VLAN tag is not the one expected here",
	wire.IPv4Sum:           "the checksum of the IPv4 header is wrong",
	wire.IPv4NotOurs:       "the destination is no address of this host, and no group that was joined",
	wire.IPv4SourceOurs:    "the source is an address of this host",
	wire.IPv4Fragment:      "a fragment, which the kernel reassembles",
}

// driverCounters are what can be said of the counters that drivers name themselves.
var driverCounters = []Counter{
	{Name: "rx_frames", Unit: "frames", Type: Total, Help: "frames that the link received"},
	{Name: "rx_lost", Unit: "frames", Type: Total, Help: "frames that the link lost", Loss: true},
	{Name: "tx_frames", Unit: "frames", Type: Total, Help: "frames that the link sent"},
	{Name: "tx_lost", Unit: "frames", Type: Total, Help: "frames that the link could not send", Loss: true},
	{Name: "kicks", Unit: "calls", Type: Total, Help: "system calls that made the link send or fill"},
	{Name: "rx_dropped", Unit: "frames", Type: Total, Help: "frames the AF_XDP socket dropped", Kernel: "XDP_STATISTICS rx_dropped"},
	{Name: "rx_ring_full", Unit: "frames", Type: Total, Help: "frames dropped because the receive ring was full", Kernel: "XDP_STATISTICS rx_ring_full"},
	{Name: "rx_fill_ring_empty_descs", Unit: "frames", Type: Total, Help: "frames dropped because the fill ring was empty",
		Kernel: "XDP_STATISTICS rx_fill_ring_empty_descs"},
	{Name: "stack.delivered", Unit: "datagrams", Type: Total, Help: "datagrams delivered to sockets"},
	{Name: "stack.no_buffer", Unit: "frames", Type: Total, Help: "frames lost for want of a buffer", Loss: true},
	{Name: "stack.lost", Unit: "frames", Type: Total, Help: "frames that did not leave", Loss: true},
	{Name: "stack.discarded", Unit: "datagrams", Type: Total, Help: "datagrams kept for a socket that was closed before it read them"},
	{Name: "stack.loop_full", Unit: "datagrams", Type: Total, Help: "datagrams of this host's own that found the loop full", Loss: true},
	{Name: "offload.os_packets", Unit: "packets", Type: Total, Help: "packets of offloaded sockets that came through the kernel"},
	{Name: "offload.lost_sends", Unit: "datagrams", Type: Total, Help: "datagrams that failed after Send had taken them", Loss: true},
	{Name: "offload.path_changes", Unit: "changes", Type: Total, Help: "changes of sockets' paths"},
	{Name: "handover.full", Unit: "datagrams", Type: Total, Help: "datagrams for another ring whose queue was full", Loss: true},
	{Name: "handover.closed", Unit: "datagrams", Type: Total, Help: "datagrams for a ring that was closed meanwhile", Loss: true},
}
