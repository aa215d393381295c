package xtreme

import (
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// UDPConfig is what OpenUDP makes a socket with.
type UDPConfig struct {
	SocketConfig
	IPConfig
	// Remote is the address that the socket is connected to; the zero AddrPort leaves it unconnected.
	Remote netip.AddrPort
	// Groups are the multicast groups that the socket joins. Without any, a socket whose address is a group joins that one.
	Groups []Group

	// LargestDatagram is the longest datagram that the socket must take whole, in bytes; up to 2,048 it uses small buffers. 0 means 65,535.
	LargestDatagram int
	// Timestamps asks for the kernel's receive timestamp on each datagram. (SO_TIMESTAMPNS)
	Timestamps bool
	// HardwareTimestamps asks for the network card's stamps beside the kernel's, which it includes, and says what is made of them. Where
	// the card of the socket's interface does not stamp, the kernel's stamps stay and the path says why. nil takes the setting
	// (VMA_HW_TS_CONVERSION) where Timestamps is set; HardwareTimestampsOff leaves the card alone. (VMA: SO_TIMESTAMPING)
	HardwareTimestamps *HardwareTimestamps
	// TAIOffset is how far TAI is ahead of the Unix clock, in whole seconds, for HardwareTimestampsPTP; 0 is what the kernel knows.
	TAIOffset time.Duration
	// TxTimestamps asks for an EventTxTimestamp completion for each datagram that was sent: Completion.Time says when it left,
	// Completion.Token which it was: what SendPacket was given, or the number of the datagram, counted from 0. A ring that cannot tell refuses
	// the socket with the reason (CapTxTimestamps). (VMA refuses SOF_TIMESTAMPING_TX_*.)
	TxTimestamps bool
	// PacketInfo asks for destination and interface of each datagram also where the socket's address is definite. (IP_PKTINFO)
	PacketInfo bool

	// Broadcast permits sending to broadcast addresses. (SO_BROADCAST)
	Broadcast bool
	// MulticastInterface is the interface that multicast leaves by; "" leaves it to the routing table. (IP_MULTICAST_IF)
	MulticastInterface string
	// MulticastLoop says whether members on this host get what the socket sends; the setting VMA_TX_MC_LOOPBACK, or the kernel's On, where it
	// says nothing. (IP_MULTICAST_LOOP)
	MulticastLoop Switch
	// MulticastTTL is the time to live of multicast packets, at most 255; -1 keeps them on this host, which is the kernel's 0; 0 leaves it to
	// the kernel, whose default is 1. (IP_MULTICAST_TTL)
	MulticastTTL int
	// MulticastAll says whether the socket gets packets of groups that only others joined. Without, a socket whose address is a group does not,
	// and the kernel decides for others. (IP_MULTICAST_ALL)
	MulticastAll Switch
}

// Group is a multicast group that a socket joins.
type Group struct {
	Address   netip.Addr // the zero Addr is the address that the socket is bound to
	Interface string     // by name; "" lets the routing table choose
	Source    netip.Addr // the one source that is received (RFC 4607); the zero Addr is any
}

func (c *UDPConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, IPConfig: c.IPConfig, remote: c.Remote, largestDatagram: c.LargestDatagram,
		timestamps: c.Timestamps, hardwareTimestamps: c.HardwareTimestamps, taiOffset: c.TAIOffset, txTimestamps: c.TxTimestamps,
		packetInfo: c.PacketInfo, broadcast: c.Broadcast, multicastInterface: c.MulticastInterface, multicastLoop: c.MulticastLoop,
		multicastTTL: c.MulticastTTL, multicastAll: c.MulticastAll}
}

// OpenUDP makes a UDP socket bound to local, which may be a multicast group: UDPConfig.Groups says on which interface it is joined. The zero
// AddrPort leaves it unbound: it has no ring before Connect or the first SendTo.
func (p *Poller) OpenUDP(local netip.AddrPort, c UDPConfig) (*Socket, error) {
	m := making{call: "OpenUDP", protocol: protocolUDP, kind: ring.KindDatagram, options: c.options()}
	return p.makeIP(m, local, func(s *Socket) error {
		if c.MulticastAll == 0 && local.Addr().IsMulticast() {
			// A group-bound socket that also got what others joined would see lines of interfaces it never asked for.
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

// joinGroups joins what was asked for; a socket bound to a group joins it in any case.
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

// UDPSocketConfig is what NewUDP makes a socket with: fields as in UDPConfig. What else there is has a call on Socket.
type UDPSocketConfig struct {
	SocketConfig
	LargestDatagram    int
	Timestamps         bool
	HardwareTimestamps *HardwareTimestamps
	TAIOffset          time.Duration
	TxTimestamps       bool
	PacketInfo         bool
}

func (c *UDPSocketConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largestDatagram: c.LargestDatagram, timestamps: c.Timestamps,
		hardwareTimestamps: c.HardwareTimestamps, taiOffset: c.TAIOffset, txTimestamps: c.TxTimestamps, packetInfo: c.PacketInfo}
}

// NewUDP makes a UDP socket that is not bound yet, as NewTCP makes a TCP socket.
func (p *Poller) NewUDP(ipv6 bool, c UDPSocketConfig) (*Socket, error) {
	return p.makeIP(making{call: "NewUDP", protocol: protocolUDP, kind: ring.KindDatagram, options: c.options()}, anyOf(ipv6), nil)
}
