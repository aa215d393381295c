package ip

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

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
	most    int      // the MTU that the link was opened with
	down    bool     // carries nothing at the moment
}

// leastMTU is the smallest that IPv4 allows (RFC 791).
const leastMTU = 68

// Validate names what cannot be an interface's.
func (l *Interface) Validate() error {
	if l.Index <= 0 || l.MTU < leastMTU || l.VLAN > 4094 || l.MAC.IsGroup() {
		return fmt.Errorf("interface of Index %d, MTU %d, VLAN %d, MAC %v: want a positive index, an MTU of at least 68, "+
			"a VLAN below 4095, a station's address", l.Index, l.MTU, l.VLAN, l.MAC)
	}
	return nil
}

// NumInterfaces is the number of links; Interface the one at a place.
func (s *Stack) NumInterfaces() int         { return len(s.links) }
func (s *Stack) Interface(i int) *Interface { return &s.links[i].Interface }

// AddInterface adds a link, whose place is the NumInterfaces before. Routes use it from the next packet on.
func (s *Stack) AddInterface(l Interface) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("ip: add interface: %w", err)
	}
	s.links = append(s.links, attachedLink{Interface: l})
	s.readAddresses() // its MTU, as the host has it now
	s.InvalidateRoutes()
	return nil
}

// Renew replaces the link at a place: its interface was deleted and made again. The new one is up, until SetDown says otherwise; frames
// that are queued for the old one are lost.
func (s *Stack) Renew(i int, l Interface) {
	old := &s.links[i]
	s.dropQueued(old)
	s.links[i] = attachedLink{Interface: l, queue: old.queue, senders: old.senders}
	s.readAddresses() // its MTU, as the host has it now
	s.InvalidateRoutes()
}

// SetDown says that a link carries no frames, or does again. While it is down its interface sends by another of its links, if there is one.
// Otherwise its destinations are left to the kernel, or unreachable without a kernel; queued frames are lost, and Failures reports them.
func (s *Stack) SetDown(i int, down bool) {
	l := &s.links[i]
	if l.down == down {
		return
	}
	l.down = down
	s.InvalidateRoutes()
	if !down || s.moveQueued(i) {
		return
	}
	s.waiting.DropInterface(l.Index)
	s.dropQueued(l)
}

// SetVLANDown says that a link's interface receives nothing, though the wire carries frames: a VLAN that is down. The wire's other
// interfaces receive as before.
func (s *Stack) SetVLANDown(i int, down bool) {
	if s.links[i].vlanDown = 0; down {
		s.links[i].vlanDown = 1 << 15 // beyond the twelve bits of a tag
	}
}

// tagged finds the interface that a frame with this tag is for, of those that have one wire; nil for none.
func (s *Stack) tagged(in *Interface, tag wire.Tag) *Interface {
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

// followInterfaces updates MTUs and addresses of the links from the host's tables: ip link set mtu, ip link set address.
//
// The MTU is never more than a link was opened with: its buffers and its program were made for that.
func (s *Stack) followInterfaces() {
	for i := range s.links {
		l := &s.links[i]
		if l.most == 0 {
			l.most = l.MTU
		}
		h, ok := s.snapshot.Link(l.Index)
		if !ok {
			continue
		}
		if h.MTU >= leastMTU {
			l.MTU = min(h.MTU, l.most)
		}
		if !l.Chosen && !h.MAC.IsZero() && !h.MAC.IsGroup() {
			l.MAC = h.MAC
		}
	}
}

// dropQueued drops the frames that are queued for a link that carries none any more.
func (s *Stack) dropQueued(l *attachedLink) {
	for _, o := range l.queue {
		s.lost(o.Packet, o.Token, unix.ENETDOWN)
	}
	s.queued -= len(l.queue)
	clear(l.queue)
	l.queue, l.senders = l.queue[:0], l.senders[:0]
}
