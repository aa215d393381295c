package host

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Path says how frames of an interface can be had without the kernel's stack, or why they cannot.
type Path struct {
	Offload bool
	Code    string // stable reason code, "link.veth": there is one whether or not the answer is yes
	Text    string // the reason in a sentence

	Attach []int // interfaces whose queues carry the frames: itself, a VLAN's parent, a bond's members
	Send   []int // those of Attach that frames may leave through now
	VLAN   uint16
	MAC    wire.MAC // the station that frames are addressed to
	// Generic: the XDP program belongs into the generic hook, because the driver's own does not exist or is slower there.
	Generic bool
	// LocalPeer: frames may come from a kernel on the same machine, with checksums that are only partial.
	LocalPeer bool
}

// Path decides for one interface. Any goroutine.
//
// This is a decision from what the kernel tells; that frames are really had is for the link's own tests to show.
// Recognised on real interfaces by this package's tests: veth, tap, tun, bridge and its ports, macvlan, vxlan, loopback.
// The kinds that the test kernel lacks (VLAN, bond, team, ipvlan, dummy, VRF, most tunnels) are decided on link tables made
// up by the tests; the decoding of their attributes is proven on messages built by hand.
func (s *Snapshot) Path(index int) Path {
	l := s.byIndex[index]
	if l == nil {
		return refusal("link.none", fmt.Sprintf("there is no interface with index %d", index))
	}
	if l.Master != 0 {
		if p := s.pathOfMember(l); p.Code != "" {
			return p
		}
	}
	return s.decide(l, 0)
}

// refusal is the Path of an interface whose frames cannot be had.
func refusal(code, text string) Path { return Path{Code: code, Text: text} }

// pathOfMember is the Path of an interface that belongs to a bond, bridge or the like (Link.Master): its frames are that one's.
func (s *Snapshot) pathOfMember(l *Link) Path {
	master := s.byIndex[l.Master]
	if master == nil {
		return refusal("link.enslaved", fmt.Sprintf("%s belongs to an interface that is not seen here (index %d)", l.Name, l.Master))
	}
	switch master.Kind {
	case KindBond:
		return refusal("link.bond_member", fmt.Sprintf("%s belongs to bond %s: the addresses are the bond's", l.Name, master.Name))
	case KindBridge:
		return refusal("link.bridge_port", fmt.Sprintf("%s is a port of bridge %s: its frames are the bridge's", l.Name, master.Name))
	case KindVRF:
		return refusal("link.vrf_member", fmt.Sprintf("%s belongs to VRF %s, whose routes are in a table of their own", l.Name, master.Name))
	case KindTeam:
		return refusal("link.team_member", fmt.Sprintf("%s belongs to team %s", l.Name, master.Name))
	}
	return refusal("link.enslaved", fmt.Sprintf("%s belongs to %s (%s)", l.Name, master.Name, kindName(master)))
}

// decide is Path for an interface by its own kind, whatever its master is. depth is above 0 when a VLAN or a bond uses the
// interface: a VLAN is refused there.
func (s *Snapshot) decide(l *Link, depth int) Path {
	switch {
	case l.Loopback():
		return refusal("link.loopback", l.Name+" has no wire: what is sent to it never leaves the kernel's stack")
	case l.Kind == KindTun && !l.Ethernet():
		return refusal("link.tun", l.Name+" carries packets without Ethernet headers")
	case !l.Ethernet():
		return refusal("link.not_ethernet", fmt.Sprintf("%s (%s) carries no Ethernet frames: hardware type %d", l.Name, kindName(l), l.Type))
	}
	self := Path{Offload: true, Attach: []int{l.Index}, Send: []int{l.Index}, MAC: l.MAC}
	yes := func(code, text string) Path {
		self.Code, self.Text = code, l.Name+text
		return self
	}
	switch l.Kind {
	case KindPhysical:
		return yes("link.plain", " is an Ethernet interface with queues of its own")
	case KindVeth:
		self.Generic, self.LocalPeer = true, true
		return yes("link.veth", " is one end of a veth pair: the peer is a kernel on this machine")
	case KindTun:
		self.Generic, self.LocalPeer = true, true
		return yes("link.tap", " is a tap: the peer is a process on this machine")
	case KindBridge:
		self.Generic, self.LocalPeer = true, true
		return yes("link.bridge", " is a bridge: frames for its own addresses pass its generic hook")
	case KindMacvlan:
		if l.MacvlanMode == MacvlanSource {
			return refusal("link.macvlan_source", l.Name+" is a macvlan in source mode: it takes frames of given senders only")
		}
		self.Generic, self.LocalPeer = true, true
		return yes("link.macvlan", " is a macvlan: it has no queues, its frames pass its generic hook")
	case KindVLAN:
		return s.decideVLAN(l, depth)
	case KindBond:
		return s.decideBond(l)
	case KindTeam:
		return refusal("link.team", l.Name+" is a team: which member sends is decided by a process, not visible here")
	case KindMacvtap, KindIPvlan, kindIPvtap:
		return refusal("link."+l.Kind, fmt.Sprintf("%s is %s: it shares its parent's frames by rules of its own", l.Name, article(l.Kind)))
	case KindVRF:
		return refusal("link.vrf", l.Name+" is a VRF: it routes, and carries no frames")
	case KindDummy, "ifb", "nlmon":
		return refusal("link."+l.Kind, fmt.Sprintf("%s is %s: no frame ever arrives on it", l.Name, article(l.Kind)))
	case "gre", "gretap", "erspan", "ipip", "sit", "vti", "vxlan", "geneve", "wireguard", "ip6gre", "ip6gretap", "ip6tnl", "vti6",
		"xfrm", "gtp", "bareudp", "l2tpeth", "macsec", "ovpn", "amt":
		return refusal("link.tunnel", fmt.Sprintf("%s is a tunnel (%s): the kernel wraps and unwraps its packets", l.Name, l.Kind))
	}
	return refusal("link.unknown_kind", fmt.Sprintf("%s is of kind %q, which this stack does not know", l.Name, l.Kind))
}

// decideVLAN sends and receives tagged frames on the parent.
func (s *Snapshot) decideVLAN(l *Link, depth int) Path {
	parent := s.byIndex[l.Parent]
	switch {
	case l.Netns >= 0 || parent == nil:
		return refusal("link.vlan_parent", fmt.Sprintf("the parent of VLAN %s is in another network namespace", l.Name))
	case l.VLANProtocol != wire.TypeVLAN:
		return refusal("link.vlan_8021ad", fmt.Sprintf("%s has tags of type %#04x: only 802.1Q is spoken", l.Name, l.VLANProtocol))
	case depth > 0 || parent.Kind == KindVLAN:
		return refusal("link.qinq", fmt.Sprintf("%s is a VLAN inside a VLAN: one tag is spoken", l.Name))
	case parent.Master != 0:
		if p := s.pathOfMember(parent); p.Code != "" {
			return p
		}
	}
	p := s.decide(parent, depth+1)
	if !p.Offload {
		p.Text = fmt.Sprintf("%s is a VLAN on %s, and %s", l.Name, parent.Name, p.Text)
		return p
	}
	if l.MAC != p.MAC && parent.Kind == KindMacvlan {
		return refusal("link.vlan_mac", fmt.Sprintf("VLAN %s has another MAC address than the macvlan %s under it", l.Name, parent.Name))
	}
	p.Code, p.VLAN, p.MAC = "link.vlan", l.VLAN, l.MAC
	p.Text = fmt.Sprintf("%s is VLAN %d on %s: tagged frames there", l.Name, l.VLAN, parent.Name)
	return p
}

// decideBond receives on all members; which may send depends on the mode.
func (s *Snapshot) decideBond(l *Link) Path {
	switch l.BondMode {
	case BondActiveBackup, BondXOR, Bond8023AD:
	default:
		return refusal("link.bond_mode", fmt.Sprintf(
			"bond %s has mode %d: only active-backup (1), balance-xor (2) and 802.3ad (4) leave frames and ARP as they are",
			l.Name, l.BondMode))
	}
	p := Path{Offload: true, MAC: l.MAC, Code: "link.bond"}
	for _, index := range s.members[l.Index] {
		m := s.byIndex[index]
		below := s.decide(m, 1)
		if !below.Offload || m.Kind == KindVLAN {
			return refusal("link.bond_members", fmt.Sprintf("bond %s has a member that cannot be used so: %s", l.Name, below.Text))
		}
		p.Attach = append(p.Attach, index)
		p.Generic, p.LocalPeer = p.Generic || below.Generic, p.LocalPeer || below.LocalPeer
		active := m.Up() && m.Carrier() && !m.BondBackup
		if l.BondMode == BondActiveBackup && l.BondActive != 0 {
			active = index == l.BondActive
		}
		if active {
			p.Send = append(p.Send, index)
		}
	}
	if len(p.Attach) == 0 {
		return refusal("link.bond_empty", fmt.Sprintf("bond %s has no members", l.Name))
	}
	p.Text = fmt.Sprintf("%s is a bond (mode %d) of %d: frames arrive on any member and leave through %d", l.Name, l.BondMode,
		len(p.Attach), len(p.Send))
	return p
}

// kindName is the kind of a link, for a sentence.
func kindName(l *Link) string {
	if l.Kind == "" {
		return "no kind"
	}
	return l.Kind
}

// article is the kind with its article, for a sentence.
func article(kind string) string {
	if kind[0] == 'i' {
		return "an " + kind
	}
	return "a " + kind
}
