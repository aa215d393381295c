package xtreme

import (
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// UDPConfig configures a UDP socket.
type UDPConfig struct {
	SocketConfig
	IPConfig
	// Remote is the address that the socket is connected to; the zero AddrPort leaves it unconnected.
	Remote netip.AddrPort
	// Groups are the multicast groups that the socket joins. If there are none and the socket's address is a group, it joins that one.
	Groups []Group

	// LargestDatagram is the length, in bytes, of the longest datagram that the socket must receive whole. A longer one is delivered cut, with
	// ErrTruncated. Up to 2,048 it takes small buffers, above that large ones. 0 means 65,535.
	LargestDatagram int
	// Timestamps asks for the time at which each datagram arrived, in Completion.Time. (SO_TIMESTAMPNS)
	Timestamps bool
	// HardwareTimestamps asks for the network card's stamps beside the kernel's, and says how they are converted; it implies Timestamps. Where
	// the card of the socket's interface does not stamp, datagrams have the kernel's stamps and the path says why. nil takes the setting
	// (VMA_HW_TS_CONVERSION) if Timestamps is set; HardwareTimestampsOff asks for no stamps of the card. (VMA: SO_TIMESTAMPING)
	HardwareTimestamps *HardwareTimestamps
	// TAIOffset is how far TAI is ahead of the Unix clock, in whole seconds, for HardwareTimestampsPTP; 0 takes the kernel's value.
	TAIOffset time.Duration
	// TxTimestamps asks for an EventTxTimestamp completion for each datagram that was sent. Completion.Time is when it left. Completion.Token
	// says which one it was: the token that SendPacket was given, or the number of the datagram, counted from 0. On a ring without transmit
	// stamps (CapTxTimestamps) the socket cannot be made, and the error has the reason. (VMA refuses SOF_TIMESTAMPING_TX_*.)
	TxTimestamps bool
	// PacketInfo asks for the destination address and the interface of each datagram even if the socket is bound to one address, where they
	// are usually not needed. (IP_PKTINFO)
	PacketInfo bool

	// Broadcast permits sending to broadcast addresses. (SO_BROADCAST)
	Broadcast bool
	// MulticastInterface is the name of the interface by which multicast datagrams leave, of either protocol; "" leaves it to the routing table.
	// (IP_MULTICAST_IF)
	MulticastInterface string
	// MulticastLoop says whether group members on this host receive what the socket sends. The zero value takes the setting VMA_TX_MC_LOOPBACK,
	// and without that setting the kernel's default, On. (IP_MULTICAST_LOOP)
	MulticastLoop Switch
	// MulticastTTL is the time to live of multicast datagrams, up to 255. -1 keeps them on this host (0 in the sockets API); 0 leaves it to the
	// kernel, whose default is 1. (IP_MULTICAST_TTL)
	MulticastTTL int
	// MulticastAll says whether the socket receives datagrams for groups that it did not join, and that another socket of the host did. The zero
	// value is Off for a socket that is bound to a group, and the kernel's default, On, for others. (IP_MULTICAST_ALL)
	MulticastAll Switch
}

// Group is a multicast group that a socket joins.
type Group struct {
	Address   netip.Addr // of the group; the zero Addr means the address that the socket is bound to
	Interface string     // the name of the interface on which it is joined; "" lets the routing table choose
	Source    netip.Addr // the only source whose datagrams are received (RFC 4607); the zero Addr means all
}

// options converts the configuration to the common form.
func (c *UDPConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, IPConfig: c.IPConfig, remote: c.Remote, largestDatagram: c.LargestDatagram,
		timestamps: c.Timestamps, hardwareTimestamps: c.HardwareTimestamps, taiOffset: c.TAIOffset, txTimestamps: c.TxTimestamps,
		packetInfo: c.PacketInfo, broadcast: c.Broadcast, multicastInterface: c.MulticastInterface, multicastLoop: c.MulticastLoop,
		multicastTTL: c.MulticastTTL, multicastAll: c.MulticastAll}
}

// OpenUDP makes a UDP socket that is bound to local, and connected if UDPConfig.Remote is given. local may be a multicast group, which the
// socket joins; UDPConfig.Groups says on which interface, and may name more groups. The zero AddrPort leaves the socket unbound: it gets its
// ring with Connect or the first SendTo.
//
// On a poller of kind offload the first socket that needs an interface opens it, as DialTCP says. Without our own TCP a socket that the program
// opens beforehand, on any port, does so for others.
func (p *Poller) OpenUDP(local netip.AddrPort, c UDPConfig) (*Socket, error) {
	m := makeCall{name: "OpenUDP", protocol: protocolUDP, kind: ring.KindDatagram, options: c.options()}
	return p.makeIP(m, local, func(s *Socket) error {
		if c.MulticastAll == 0 && local.Addr().IsMulticast() {
			// Otherwise it would also receive the group's datagrams of an interface on which only another socket joined it.
			if err := s.SetMulticastAll(false); err != nil {
				return err
			}
		}
		if err := joinGroups(s, c.Groups, local.Addr()); err != nil {
			return err
		}
		if local.IsValid() {
			if err := s.Bind(local); err != nil {
				return err
			}
		}
		if c.Remote.IsValid() {
			return s.Connect(c.Remote)
		}
		return nil
	})
}

// joinGroups joins the groups of a configuration. If there are none and bound, the socket's address, is a group, it joins that one.
func joinGroups(s *Socket, groups []Group, bound netip.Addr) error {
	if len(groups) == 0 && bound.IsMulticast() {
		groups = []Group{{}}
	}
	for _, g := range groups {
		if !g.Address.IsValid() {
			g.Address = bound
		}
		if err := s.JoinGroup(g.Address, g.Interface, g.Source); err != nil {
			return err
		}
	}
	return nil
}

// UDPSocketConfig configures the socket of NewUDP: what must be known when it is made. The fields are as in UDPConfig; Socket has calls for
// everything else.
type UDPSocketConfig struct {
	SocketConfig
	LargestDatagram    int
	Timestamps         bool
	HardwareTimestamps *HardwareTimestamps
	TAIOffset          time.Duration
	TxTimestamps       bool
	PacketInfo         bool
}

// options converts the configuration to the common form.
func (c *UDPSocketConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largestDatagram: c.LargestDatagram, timestamps: c.Timestamps,
		hardwareTimestamps: c.HardwareTimestamps, taiOffset: c.TAIOffset, txTimestamps: c.TxTimestamps, packetInfo: c.PacketInfo}
}

// NewUDP makes a UDP socket that is neither bound nor connected, for code that was written for the sockets API, as NewTCP does for TCP.
func (p *Poller) NewUDP(family Family, c UDPSocketConfig) (*Socket, error) {
	return p.makeUnbound(makeCall{name: "NewUDP", protocol: protocolUDP, kind: ring.KindDatagram, options: c.options()}, family)
}
