package stack

import (
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Several links may have one interface: the queues of a card, of which the first that is not down sends, and the members of a bond, whose
// frames are the bond's. And several interfaces may have one link: a parent and its VLANs, whose frames differ by their tags.

// Member is what a link is to the bond that its interface is.
type Member uint8

// What a link may be.
const (
	NoMember       Member = iota // the interface is no bond
	MemberActive                 // it sends, with the other active ones: each flow by one of them
	MemberQueue                  // a further queue of such a link: it receives
	MemberInactive               // it sends nothing, and what it gets for groups the active ones get as well
	MemberBackup                 // the same in active-backup: nothing that it gets is taken
)

// SetMember says what a link is to its bond from now on. What was queued for one that sends no more leaves by another; when no other sends
// it is lost, as in the kernel, so those that begin to send are named first.
func (s *Stack) SetMember(i int, m Member) {
	l := &s.links[i]
	if l.Member == m {
		return
	}
	l.Member = m
	s.stamp++
	if m > MemberActive && !s.move(i) {
		s.dropQueued(l)
	}
}

// pick is the place of the link by which an interface sends a flow; -1 for none. Among a bond's active members the flow's hash chooses: its
// frames keep their order (802.1AX 6.2.4).
func (s *Stack) pick(iface int, hash uint32) int {
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
	nth := hash * 0x9e3779b1 >> 16 * n >> 16
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

// sends tells whether the link carries what its interface sends, or a share of that.
func (l *attached) sends() bool { return !l.down && l.Member <= MemberActive }

// fits tells whether the link takes a frame, which may have been made for another one of its interface.
func (l *attached) fits(p buffers.Packet) bool {
	room := wire.EthernetLen + l.most
	if l.VLAN != 0 {
		room += wire.VLANLen
	}
	return p.Len() <= room
}

// instead is the link, or another one of its interface if it does not send.
func (s *Stack) instead(i int) int {
	if l := &s.links[i]; !l.sends() {
		if other := s.pick(l.Index, 0); other >= 0 {
			return other
		}
	}
	return i
}

// move gives what is queued for a link to another one of its interface; false when there is none. What is too long for that one is lost.
func (s *Stack) move(i int) bool {
	other := s.instead(i)
	if other == i {
		return false
	}
	l := &s.links[i]
	to := &s.links[other]
	for _, o := range l.out {
		if to.fits(o.Packet) {
			to.out = append(to.out, o)
		} else {
			s.queued--
			s.lost(o.Packet, o.Token, unix.EMSGSIZE)
		}
	}
	clear(l.out)
	l.out = l.out[:0]
	return true
}

// SetDeaf says that a link's interface hears nothing, though the wire carries frames: a VLAN that is down. Those of the wire's other
// interfaces are theirs as before.
func (s *Stack) SetDeaf(i int, deaf bool) {
	if s.links[i].deaf = 0; deaf {
		s.links[i].deaf = 1 << 15 // beyond the twelve bits of a tag
	}
}

// tagged finds the interface that a frame with this tag is for, of those that have one wire; nil for none.
func (s *Stack) tagged(in *Interface, tag wire.Tag) *Interface {
	if in.Wire == 0 {
		return nil
	}
	for i := range s.links {
		if l := &s.links[i]; l.Wire == in.Wire && l.VLAN == tag.VID() && !l.down && l.deaf == 0 {
			return &l.Interface
		}
	}
	return nil
}
