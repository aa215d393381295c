package ip

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AddInterface adds a link, whose place is the NumInterfaces before. Routes use it from the next packet on.
func (s *Stack) AddInterface(l Interface) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("ip: add interface: %w", err)
	}
	s.links = append(s.links, attachedLink{Interface: l})
	s.followInterfaces() // its MTU, as the host has it now
	s.InvalidateRoutes()
	return nil
}

// Renew replaces the link at a place: its interface was deleted and made again. The new one is up, until SetDown says otherwise; frames
// that are queued for the old one are lost.
func (s *Stack) Renew(i int, l Interface) {
	old := &s.links[i]
	s.dropQueued(old)
	s.links[i] = attachedLink{Interface: l, queue: old.queue, senders: old.senders}
	s.followInterfaces() // its MTU, as the host has it now
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
			s.loseFrame(o.Packet, o.Token, unix.EMSGSIZE)
		}
	}
	clear(l.queue)
	l.queue, l.senders = l.queue[:0], l.senders[:0]
	return true
}

// dropQueued drops the frames that are queued for a link that carries none any more.
func (s *Stack) dropQueued(l *attachedLink) {
	for _, o := range l.queue {
		s.loseFrame(o.Packet, o.Token, unix.ENETDOWN)
	}
	s.queued -= len(l.queue)
	clear(l.queue)
	l.queue, l.senders = l.queue[:0], l.senders[:0]
}

// followInterfaces updates MTUs and addresses of the links from the host's tables: ip link set mtu, ip link set address.
//
// The MTU is never more than a link was opened with: its buffers and its program were made for that.
func (s *Stack) followInterfaces() {
	for i := range s.links {
		l := &s.links[i]
		if l.maxMTU == 0 { // it was just added, with the MTU that it was opened with
			l.maxMTU = l.MTU
		}
		h, ok := s.snapshot.Link(l.Index)
		if !ok {
			continue
		}
		if h.MTU >= leastMTU {
			l.MTU = min(h.MTU, l.maxMTU)
		}
		if !l.Chosen && !h.MAC.IsZero() && !h.MAC.IsGroup() {
			l.MAC = h.MAC
		}
	}
}
