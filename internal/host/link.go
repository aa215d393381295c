package host

import (
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Kinds of link as the kernel names them (IFLA_INFO_KIND); a physical interface has none.
const (
	KindPhysical = ""
	KindVeth     = "veth"
	KindVLAN     = "vlan"
	KindBond     = "bond"
	KindTeam     = "team"
	KindMacvlan  = "macvlan"
	KindMacvtap  = "macvtap"
	KindIPvlan   = "ipvlan"
	kindIPvtap   = "ipvtap"
	KindBridge   = "bridge"
	KindTun      = "tun" // tap too: the hardware type tells
	KindDummy    = "dummy"
	KindVRF      = "vrf"
)

// Link is one network interface.
type Link struct {
	Index  int
	Name   string
	Kind   string // KindVeth …, or what else the kernel says
	Type   uint16 // hardware type: unix.ARPHRD_ETHER …
	MAC    wire.MAC
	MTU    int
	Flags  uint32 // unix.IFF_UP …
	Master int    // the bond, bridge or VRF it belongs to, 0 for none
	Parent int    // the link it stands on (VLAN, macvlan) or its peer (veth); 0 for none
	// Netns is the kernel's id of the namespace that Parent is an index of, -1 when it is this one.
	Netns int

	// Program is the number of the XDP program that was on it when the kernel last said anything of it, 0 for none. Of programs that are
	// attached by a bpf link the kernel says nothing.
	Program int

	VLAN         uint16 // of a KindVLAN
	VLANProtocol uint16 // wire.TypeVLAN or wire.TypeQinQ
	BondMode     uint8  // of a KindBond: BondRoundRobin …
	BondActive   int    // of a KindBond: the member that sends in active-backup
	BondBackup   bool   // of a bond's member: it does not carry traffic now
	MacvlanMode  uint32 // of a KindMacvlan: MacvlanSource …
}

// Modes of a bond (linux/if_bonding.h).
const (
	BondRoundRobin   uint8 = 0
	BondActiveBackup uint8 = 1
	BondXOR          uint8 = 2
	BondBroadcast    uint8 = 3
	Bond8023AD       uint8 = 4
	BondTLB          uint8 = 5
	BondALB          uint8 = 6
)

// MacvlanSource is the mode in which a macvlan takes frames of given senders only (linux/if_link.h).
const MacvlanSource uint32 = 16

// Up reports whether the administrator has the link up.
func (l *Link) Up() bool { return l.Flags&unix.IFF_UP != 0 }

// Carrier reports whether there is a cable, or a peer that is up.
func (l *Link) Carrier() bool { return l.Flags&unix.IFF_LOWER_UP != 0 }

// Loopback reports whether it is the loopback interface.
func (l *Link) Loopback() bool { return l.Flags&unix.IFF_LOOPBACK != 0 }

// Ethernet reports whether frames with Ethernet headers travel on it.
func (l *Link) Ethernet() bool { return l.Type == unix.ARPHRD_ETHER }
