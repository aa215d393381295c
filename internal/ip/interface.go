package ip

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Several links may have one interface: the queues of a card, of which the first that is not down sends, and the members of a bond, whose
// frames are the bond's. And several interfaces may have one link: a parent and its VLANs, whose frames differ by their tags (Interface.Wire).

// Interface is the facts of one link of the stack.
type Interface struct {
	Index    int      // in the host's tables
	MAC      wire.MAC // the station that frames are addressed to
	Chosen   bool     // the MAC is the caller's choice, not the interface's, which is followed when it changes
	VLAN     uint16   // of the frames' 802.1Q tag; 0: untagged
	MTU      int      // largest IP packet
	Checksum ChecksumPolicy
	Member   Member // of a bond, if the interface is one: see SetMember
	vlanDown uint16 // not 0: no frame has the tag that is expected then, see SetVLANDown
	Wire     int    // links with the same number, unless it is 0, are one wire: the tag of a received frame says which of them it is for
}

// ChecksumPolicy says what protocols do with packets of a link whose transport checksum is wrong. Verifying takes 6 ns for 64 bytes.
type ChecksumPolicy uint8

// The policies.
const (
	// ChecksumStrict: a wrong sum is dropped, and so is one that is only the pseudo header's.
	ChecksumStrict ChecksumPolicy = iota
	// ChecksumAcceptPartial: a sum that is only the pseudo header's is taken for right. Such packets come from a kernel on this very
	// machine over veth or tap, which leaves the sum to a card that the packet never sees; they were not on any cable.
	ChecksumAcceptPartial
	// ChecksumOff: nothing is checked.
	ChecksumOff
)

// String is the policy as options name it.
func (p ChecksumPolicy) String() string {
	return [...]string{"strict", "accept-partial", "off"}[min(p, 2)]
}

// attachedLink is a link with its state.
type attachedLink struct {
	Interface
	queue   []Out    // frames that wait for the link
	senders []Sender // of those, by the same index
	maxMTU  int      // the MTU that the link was opened with
	down    bool     // carries nothing at the moment
}

// Out is a frame for a link.
type Out = link.Out

// Sender names the flow of a protocol that a queued frame is from, so that Recall finds it; 0 is none.
type Sender uint64

// SenderOf is the name of a protocol's socket, number 0 or more.
func SenderOf(protocol uint8, number int32) Sender {
	return Sender(protocol)<<32 | Sender(uint32(number)+1)
}

// leastMTU is the smallest that IPv4 allows (RFC 791).
const leastMTU = 68

// Validate reports whether the fields can be an interface's; the error shows them.
func (l *Interface) Validate() error {
	if l.Index <= 0 || l.MTU < leastMTU || l.VLAN > 4094 || l.MAC.IsGroup() {
		return fmt.Errorf("interface of Index %d, MTU %d, VLAN %d, MAC %v: want a positive index, an MTU of at least 68, "+
			"a VLAN below 4095, a station's address", l.Index, l.MTU, l.VLAN, l.MAC)
	}
	return nil
}

// Member is what a link is to the bond that its interface is.
type Member uint8

// What a link may be. The order matters: what is at most MemberActive sends.
const (
	NoMember       Member = iota // the interface is no bond
	MemberActive                 // it sends, with the other active ones: each flow by one of them
	MemberQueue                  // a further queue of such a link: it receives
	MemberInactive               // it sends nothing; it drops frames for groups, which the active ones receive as well
	MemberBackup                 // the same in active-backup: it drops all frames
)

// NumInterfaces is the number of links; Interface the one at a place.
func (s *Stack) NumInterfaces() int         { return len(s.links) }
func (s *Stack) Interface(i int) *Interface { return &s.links[i].Interface }

// ReceivesAll reports whether untagged frames of a link belong to its interface whatever address they have: it is no VLAN and no member of
// a bond that leaves frames to others.
func (s *Stack) ReceivesAll(i int) bool {
	l := &s.links[i]
	return l.VLAN == l.vlanDown && l.Member < MemberInactive
}

// interfaceForTag finds the interface that a frame with this tag is for, of those on the same wire; nil for none.
func (s *Stack) interfaceForTag(in *Interface, tag wire.Tag) *Interface {
	if in.Wire == 0 {
		return nil
	}
	for i := range s.links {
		if l := &s.links[i]; l.Wire == in.Wire && l.VLAN == tag.VID() && !l.down && l.vlanDown == 0 {
			return &l.Interface
		}
	}
	return nil
}

// linkOf is the place of a link of the interface that is not down, -1 for none.
func (s *Stack) linkOf(iface int) int {
	for i := range s.links {
		if s.links[i].Index == iface && !s.links[i].down {
			return i
		}
	}
	return -1
}

// pickLink is the place of the link by which an interface sends a flow; -1 for none. Among a bond's active members the flow's hash chooses:
// its frames keep their order (802.1AX 6.2.4).
func (s *Stack) pickLink(iface int, hash uint32) int {
	n := uint32(0)
	for i := range s.links {
		if l := &s.links[i]; l.Index == iface && !l.down {
			switch l.Member {
			case NoMember:
				return i
			case MemberActive:
				n++
			}
		}
	}
	if n == 0 {
		return -1
	}
	hash ^= hash >> 16
	nth := hash * 0x9e3779b1 >> 16 * n >> 16 // 16 well mixed bits, scaled to 0 … n-1
	for i := range s.links {
		if l := &s.links[i]; l.Index == iface && !l.down && l.Member == MemberActive {
			if nth == 0 {
				return i
			}
			nth--
		}
	}
	return -1
}

// sends reports whether the link carries what its interface sends, or a share of that.
func (l *attachedLink) sends() bool { return !l.down && l.Member <= MemberActive }

// fits reports whether the link takes a frame, which may have been made for another link of its interface.
func (l *attachedLink) fits(p buffers.Packet) bool {
	room := wire.EthernetLen + l.maxMTU
	if l.VLAN != 0 {
		room += wire.VLANLen
	}
	return p.Len() <= room
}

// sendingLink is the link, or another one of its interface if it does not send. It is for frames that were made for the link already: all of
// them go to one other link, because the hashes of their flows are not known any more.
func (s *Stack) sendingLink(i int) int {
	const anyHash = 0
	if l := &s.links[i]; !l.sends() {
		if other := s.pickLink(l.Index, anyHash); other >= 0 {
			return other
		}
	}
	return i
}
