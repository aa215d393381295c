package shadow

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// membershipSocket is a descriptor that keeps memberships for which a socket's shadow has no room: net.ipv4.igmp_max_memberships groups, and
// net.ipv4.igmp_max_msf sources of each, is the kernel's limit for a descriptor.
//
// It is not bound, so nothing arrives at it: no datagram can come twice, and none can be taken from the shadow or from another process.
// What it does is to make the host a member. The shadow receives, because a socket with IP_MULTICAST_ALL takes all groups of its port that the
// host is a member of, but for those in its own list (ip_mc_sf_allow). That is more than the socket may have joined, so
// what the shadow receives is tried once more by the stack's own filter.
type membershipSocket struct {
	fd   int
	held []Group
	full bool // no further group, as the kernel said
}

// isHeldBySocket reports whether a membership socket has joined the group on that interface, for whatever source: the shadow must not join it
// then, because the shadow's own list of sources would keep datagrams of the other sources away.
func (m *Memberships) isHeldBySocket(g Group) bool {
	return slices.ContainsFunc(m.sockets, func(h *membershipSocket) bool {
		return slices.ContainsFunc(h.held, func(x Group) bool { return x.Addr == g.Addr && x.IfIndex == g.IfIndex })
	})
}

// joinBySocket joins a group with a membership socket that has room, or with a new one. On an error nothing has changed.
func (m *Memberships) joinBySocket(g Group) error {
	for _, h := range m.sockets {
		listed := slices.ContainsFunc(h.held, func(x Group) bool { return x.Addr == g.Addr && x.IfIndex == g.IfIndex })
		if h.full && !listed { // full of groups, which takes one more source of a group that it has
			continue
		}
		switch err := joinGroup(m.kernel, h.fd, g); {
		case err == nil:
			h.held = append(h.held, g)
			return nil
		case !errors.Is(err, unix.ENOBUFS):
			return err
		case !listed: // else it is the list of sources that is full
			h.full = true
		}
	}
	h, err := m.openSocket()
	if err != nil {
		return fmt.Errorf("one more descriptor for memberships: %w", err)
	}
	if err := joinGroup(m.kernel, h.fd, g); err != nil {
		return errors.Join(err, m.kernel.Close(h.fd))
	}
	h.held = []Group{g}
	m.sockets = append(m.sockets, h)
	if err := m.ApplyFilter(); err != nil {
		return errors.Join(err, m.leaveBySocket(h, 0))
	}
	return nil
}

// moveToSockets joins one more source of a group whose list in the shadow is full: all sources of the group go to membership sockets, with
// the new one. They are joined there before the shadow leaves them, so that the host is a member throughout.
func (m *Memberships) moveToSockets(g Group, joined Groups) (err error) {
	list := []Group{g}
	for x := range joined {
		if x.Addr == g.Addr && x.IfIndex == g.IfIndex && !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	for i, x := range list {
		if err = m.joinBySocket(x); err != nil {
			for _, x := range list[:i] {
				err = errors.Join(err, m.undoJoinBySocket(x))
			}
			return err
		}
	}
	for _, x := range list[1:] { // all but g, which the shadow did not join
		err = errors.Join(err, leaveGroup(m.kernel, m.fd, x))
	}
	return err
}

// undoJoinBySocket undoes joinBySocket.
func (m *Memberships) undoJoinBySocket(g Group) error {
	for _, h := range m.sockets {
		if i := slices.Index(h.held, g); i >= 0 {
			return m.leaveBySocket(h, i)
		}
	}
	return nil
}

// leaveBySocket leaves the group at index i of a membership socket, and closes the membership socket with its last group.
func (m *Memberships) leaveBySocket(h *membershipSocket, i int) error {
	if err := leaveGroup(m.kernel, h.fd, h.held[i]); err != nil {
		return err
	}
	h.held = slices.Delete(h.held, i, i+1)
	h.full = false
	if len(h.held) > 0 {
		return nil
	}
	m.sockets = slices.DeleteFunc(m.sockets, func(x *membershipSocket) bool { return x == h })
	err := m.kernel.Close(h.fd)
	if len(m.sockets) == 0 && !ring.OptionsOf(m.s).MulticastAll { // ApplyFilter has switched it on
		err = errors.Join(err, m.kernel.SetMulticastAll(m.fd, false))
	}
	return err
}

// openSocket makes a descriptor in the network namespace of the shadow.
func (m *Memberships) openSocket() (*membershipSocket, error) {
	fd, err := m.kernel.OpenMember(m.fd)
	if err != nil {
		return nil, err
	}
	return &membershipSocket{fd: fd}, nil
}

// ApplyFilter switches IP_MULTICAST_ALL on at the shadow, so that it receives the groups that membership sockets have joined. Where the
// application has switched it off, the driver drops what the socket has not joined (isNotJoined).
func (m *Memberships) ApplyFilter() error {
	if len(m.sockets) == 0 || ring.OptionsOf(m.s).MulticastAll {
		return nil
	}
	return m.kernel.SetMulticastAll(m.fd, true)
}
