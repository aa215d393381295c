package link

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Protocols that a flow may have.
const (
	UDP uint8 = unix.IPPROTO_UDP
	TCP uint8 = unix.IPPROTO_TCP
)

// Flow says which IPv4 packets of an interface are claimed from the kernel. Drivers, steering and programs all use this one type.
//
//	Local 10.0.0.1:53                          all packets to that address and port
//	Local 10.0.0.1:53, Remote 10.0.0.2:9000    those of one peer (a connected socket)
//	Local 0.0.0.0:53                           to any address of the host
//	Local 239.1.1.1:53                         of a group; Remote 10.0.0.2:0: of one source only
type Flow struct {
	Protocol uint8
	VLAN     uint16 // of the frames' 802.1Q tag; 0: untagged
	Local    netip.AddrPort
	Remote   netip.AddrPort
}

// String is the flow in one line.
func (f Flow) String() string {
	s := "protocol " + fmt.Sprint(f.Protocol)
	switch f.Protocol {
	case UDP:
		s = "udp"
	case TCP:
		s = "tcp"
	}
	s += " " + f.Local.String()
	if f.Remote.IsValid() {
		s += " from " + f.Remote.String()
	}
	if f.VLAN != 0 {
		s += fmt.Sprintf(" vlan %d", f.VLAN)
	}
	return s
}
