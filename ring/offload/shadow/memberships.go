package shadow

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// Memberships are the descriptors that hold the groups of one offloaded socket in the kernel: the shadow, and membership sockets where it has no
// room. What a socket has joined is in these records, each derived from an earlier one:
//
//	ring.SocketOptions.Groups       what the application asked for: the source. Interface 0 where the routing table chooses
//	udp.Table.joined                the same with interfaces resolved, which stay when the routing table changes: from the options
//	udp.Table.members               the filter of sources, as lookups need it: from joined
//	Memberships.sockets             which descriptor holds a group; those that none lists are held by the shadow: from the kernel's answers
//	steering.HeldClaims             what the steering program was told, less what was refused: from joined
//	GroupWatcher.joined             a copy for the watcher's goroutine: from joined and sockets
//
// The methods that need joined are given it as Groups.
//
// On a MemoryHost, where no kernel keeps memberships, the MemoryHost does (memorySocket.groups). What IGMP has reported is of the interface, not
// of a socket (internal/ip).
type Memberships struct {
	kernel    Kernel
	s         *ring.Socket
	fd        int // the shadow
	sockets   []*membershipSocket
	published bool // the watcher knows of them
}

// Open makes the memberships of a socket, which has none yet.
func (m *Memberships) Open(k Kernel, s *ring.Socket) {
	*m = Memberships{kernel: k, s: s, fd: kernel.FD(s)}
}

// Close closes the membership sockets, which leaves their groups; the shadow's own memberships end with the shadow.
func (m *Memberships) Close() {
	for _, h := range m.sockets {
		_ = m.kernel.Close(h.fd) // a socket without data has nothing to lose
	}
	m.sockets = nil
}

// NeedsFilter reports whether the shadow receives more groups than the socket has joined.
func (m *Memberships) NeedsFilter() bool { return len(m.sockets) > 0 }

// Join joins a group in the kernel: with the shadow, or with a membership socket when that has no room. The interface that the group names
// may be 0; resolved is what the routing table says then. joined are the groups that the socket has.
func (m *Memberships) Join(g Group, resolved uint32, joined Groups) error {
	named := int(g.IfIndex)
	g.IfIndex = resolved
	if m.isHeldBySocket(g) {
		switch i, _ := m.findSocket(g); { // as the kernel answers a descriptor that has the group
		case g.Source == [4]byte{}:
			return unix.EADDRINUSE
		case i >= 0:
			return unix.EADDRNOTAVAIL
		}
		if i, j := m.findSocket(Group{Addr: g.Addr, IfIndex: g.IfIndex}); i >= 0 { // of all sources, which this one narrows
			if err := joinGroup(m.kernel, m.sockets[i].fd, g); err != nil {
				return err
			}
			m.sockets[i].held[j] = g
			return nil
		}
		return m.joinBySocket(g)
	}
	err := joinGroupOn(m.kernel, m.fd, g, named)
	switch {
	case !errors.Is(err, unix.ENOBUFS):
		return err
	case g.Source != [4]byte{}: // the shadow is full: of sources of this group, or of groups
		return m.moveToSockets(g, joined)
	}
	return m.joinBySocket(g) // the shadow has as many groups as net.ipv4.igmp_max_memberships
}

// Leave leaves a group in the kernel; interface 0: on whichever it was joined. Without a source it leaves the group with all its sources.
func (m *Memberships) Leave(g Group) error {
	hasLeft, allSources := false, g.Source == [4]byte{}
	for h, i := m.findHeld(g); h != nil; h, i = m.findHeld(g) {
		g.IfIndex = h.held[i].IfIndex // of one interface only, if g named none
		if err := m.leaveBySocket(h, i); err != nil || !allSources {
			return err
		}
		hasLeft = true
	}
	if hasLeft {
		return nil
	}
	if g.IfIndex != 0 && m.isHeldBySocket(g) {
		return unix.EADDRNOTAVAIL // another source of it
	}
	return leaveGroup(m.kernel, m.fd, g)
}

// findHeld is a membership socket that has a group, and the group's place there; nil when none has. Source and interface 0 are any.
func (m *Memberships) findHeld(g Group) (h *membershipSocket, at int) {
	for _, h := range m.sockets {
		at := slices.IndexFunc(h.held, func(x Group) bool {
			return x.Addr == g.Addr && (g.Source == [4]byte{} || x.Source == g.Source) && (g.IfIndex == 0 || x.IfIndex == g.IfIndex)
		})
		if at >= 0 {
			return h, at
		}
	}
	return nil, -1
}

// findSocket is the membership socket that has a membership, and its place there; -1 when the shadow has it.
func (m *Memberships) findSocket(g Group) (socket, at int) {
	for i, h := range m.sockets {
		if j := slices.Index(h.held, g); j >= 0 {
			return i, j
		}
	}
	return -1, -1
}

// descriptor is the descriptor that has joined the group: of a membership socket or the shadow.
func (m *Memberships) descriptor(g Group) int {
	if i, _ := m.findSocket(g); i >= 0 {
		return m.sockets[i].fd
	}
	return m.fd
}

// descriptors are the descriptors of membership sockets, by the groups that they have joined.
func (m *Memberships) descriptors() map[Group]int {
	if len(m.sockets) == 0 {
		return nil
	}
	fds := map[Group]int{}
	for _, h := range m.sockets {
		for _, g := range h.held {
			fds[g] = h.fd
		}
	}
	return fds
}
