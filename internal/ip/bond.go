package ip

import (
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Several links may have one interface: the queues of a card, of which the first that is not down sends, and the members of a bond, whose
// frames are the bond's. And several interfaces may have one link: a parent and its VLANs, whose frames differ by their tags (Interface.Wire).

// Member is what a link is to the bond that its interface is.
type Member uint8

// What a link may be.
const (
	NoMember       Member = iota // the interface is no bond
	MemberActive                 // it sends, with the other active ones: each flow by one of them
	MemberQueue                  // a further queue of such a link: it receives
	MemberInactive               // it sends nothing; it drops frames for groups, which the active ones receive as well
	MemberBackup                 // the same in active-backup: it drops all frames
)

// SetMember says what a link is to its bond from now on. Frames that are queued for a link that stops sending leave by another one; when no
// other link sends they are lost, as in the kernel: callers name the links that begin to send first.
func (s *Stack) SetMember(i int, m Member) {
	l := &s.links[i]
	if l.Member == m {
		return
	}
	l.Member = m
	s.InvalidateRoutes()
	if m > MemberActive && !s.moveQueued(i) {
		s.dropQueued(l)
	}
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

// sends reports whether the link carries what its interface sends, or a share of that.
func (l *attachedLink) sends() bool { return !l.down && l.Member <= MemberActive }

// fits reports whether the link takes a frame, which may have been made for another link of its interface.
func (l *attachedLink) fits(p buffers.Packet) bool {
	room := wire.EthernetLen + l.most
	if l.VLAN != 0 {
		room += wire.VLANLen
	}
	return p.Len() <= room
}

// sendingLink is the link, or another one of its interface if it does not send.
func (s *Stack) sendingLink(i int) int {
	if l := &s.links[i]; !l.sends() {
		if other := s.pickLink(l.Index, 0); other >= 0 {
			return other
		}
	}
	return i
}

// moveQueued moves the frames that are queued for a link to another link of its interface; false when there is none. Frames that are too long
// for that one are lost.
func (s *Stack) moveQueued(i int) bool {
	other := s.sendingLink(i)
	if other == i {
		return false
	}
	l := &s.links[i]
	to := &s.links[other]
	for j, o := range l.queue {
		if to.fits(o.Packet) {
			to.queue = append(to.queue, o)
			to.senders = append(to.senders, l.senders[j])
		} else {
			s.queued--
			s.lost(o.Packet, o.Token, unix.EMSGSIZE)
		}
	}
	clear(l.queue)
	l.queue, l.senders = l.queue[:0], l.senders[:0]
	return true
}
