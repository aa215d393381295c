package offload

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// holder is a descriptor that keeps memberships for which a socket's shadow has no room: net.ipv4.igmp_max_memberships groups, and
// net.ipv4.igmp_max_msf sources of each, is the kernel's limit for a descriptor.
//
// It is not bound, so nothing arrives at it: no datagram can come twice, and none can be taken from the shadow or from another process.
// What it does is to make the host a member. The shadow receives, because a socket with IP_MULTICAST_ALL takes all groups of its port that the
// host is a member of, but for those in its own list (ip_mc_sf_allow). That is more than the socket may have joined, so
// what the shadow receives is tried once more by the stack's own filter, see unheard.
type holder struct {
	fd   int
	held []group
	full bool // no further group, as the kernel said
}

// ChangeMembership joins or leaves a group in the kernel: with the socket's descriptor, or with a holder when that has no room.
func (d *driver) ChangeMembership(s *ring.Socket, m ring.Membership, join bool) error {
	if d.config.Namespace != nil {
		return d.config.Namespace.SetMembership(s, m, join)
	}
	return kernel.NameLimit(s, m, d.keepMembership(s, m.Group, m.Interface, m.Source, join))
}

func (d *driver) keepMembership(s *ring.Socket, a netip.Addr, index int, source netip.Addr, join bool) error {
	d.awaitTies()
	fd := kernel.FD(s)
	e := d.table.of(s)
	if e == nil || !e.own {
		return sys.GroupMembership(fd, a, index, source, join)
	}
	g := group{iface: uint32(index)}
	g.addr, _ = wire.AddrFrom(a)
	if source.IsValid() {
		g.source, _ = wire.AddrFrom(source)
	}
	if !join {
		for _, h := range e.holders {
			if i := slices.IndexFunc(h.held, func(x group) bool { return x.same(g) && (index == 0 || x.iface == g.iface) }); i >= 0 {
				return e.letGo(h, i)
			}
		}
		if index != 0 && e.holds(g) {
			return unix.EADDRNOTAVAIL // another source of it
		}
		return sys.GroupMembership(fd, a, index, source, false)
	}
	if index == 0 {
		at, err := groupInterface(d.snapshot(), a, 0)
		if err != nil {
			return err
		}
		g.iface = uint32(at)
	}
	if e.holds(g) {
		switch _, kept := e.descriptor(g); { // as the kernel answers a descriptor that has the group
		case g.source == [4]byte{}:
			return unix.EADDRINUSE
		case kept != nil:
			return unix.EADDRNOTAVAIL
		}
		return e.hold(g)
	}
	err := sys.GroupMembership(fd, a, index, source, true)
	if !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	if g.source != ([4]byte{}) {
		return e.move(g)
	}
	return e.hold(g)
}

// holds tells whether a holder has the group on that interface, from whatever source: then the shadow must not, because its list of sources
// would keep the others away.
func (e *entry) holds(g group) bool {
	return slices.ContainsFunc(e.holders, func(h *holder) bool {
		return slices.ContainsFunc(h.held, func(x group) bool { return x.addr == g.addr && x.iface == g.iface })
	})
}

// descriptor is the one that has a membership, and its place there if that is a holder.
func (e *entry) descriptor(g group) (fd int, kept *group) {
	for _, h := range e.holders {
		if i := slices.Index(h.held, g); i >= 0 {
			return h.fd, &h.held[i]
		}
	}
	return kernel.FD(e.s), nil
}

// descriptors are those of the memberships that holders have.
func (e *entry) descriptors() map[group]int {
	if len(e.holders) == 0 {
		return nil
	}
	fds := make(map[group]int, len(e.groups))
	for _, h := range e.holders {
		for _, g := range h.held {
			fds[g] = h.fd
		}
	}
	return fds
}

// hold joins a group with a holder, a new one if need be. On an error nothing has changed.
func (e *entry) hold(g group) error {
	for _, h := range e.holders {
		listed := slices.ContainsFunc(h.held, func(x group) bool { return x.addr == g.addr && x.iface == g.iface })
		if h.full && !listed {
			continue
		}
		switch err := membership(h.fd, g, true); {
		case err == nil:
			h.held = append(h.held, g)
			return nil
		case !errors.Is(err, unix.ENOBUFS):
			return err
		case !listed: // else it is the list of sources that is full
			h.full = true
		}
	}
	h, err := e.openHolder()
	if err != nil {
		return fmt.Errorf("one more descriptor for memberships: %w", err)
	}
	if err := membership(h.fd, g, true); err != nil {
		return errors.Join(err, unix.Close(h.fd))
	}
	h.held = []group{g}
	e.holders = append(e.holders, h)
	if err := e.openFilter(); err != nil {
		return errors.Join(err, e.letGo(h, 0))
	}
	return nil
}

// move joins one more source of a group. If the shadow has sources of the group, its list is full: all of them go to holders with
// the new one. They are joined there before they are left here, so that the host is a member throughout.
func (e *entry) move(g group) (err error) {
	list := []group{g}
	for _, x := range e.groups {
		if x.addr == g.addr && x.iface == g.iface && !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	for i, x := range list {
		if err = e.hold(x); err != nil {
			for _, x := range list[:i] {
				err = errors.Join(err, e.drop(x))
			}
			return err
		}
	}
	for _, x := range list[1:] {
		err = errors.Join(err, membership(kernel.FD(e.s), x, false))
	}
	return err
}

// drop undoes hold.
func (e *entry) drop(g group) error {
	for _, h := range e.holders {
		if i := slices.Index(h.held, g); i >= 0 {
			return e.letGo(h, i)
		}
	}
	return nil
}

// letGo leaves a holder's membership, and closes the holder with the last one.
func (e *entry) letGo(h *holder, i int) error {
	if err := membership(h.fd, h.held[i], false); err != nil {
		return err
	}
	h.held = slices.Delete(h.held, i, i+1)
	h.full = false
	if len(h.held) > 0 {
		return nil
	}
	e.holders = slices.DeleteFunc(e.holders, func(x *holder) bool { return x == h })
	err := unix.Close(h.fd)
	if len(e.holders) == 0 && !e.s.Settings().MulticastAll {
		err = errors.Join(err, e.multicastAll(0))
	}
	return err
}

// openHolder makes a descriptor in the network namespace of the shadow: the calling thread may be in another one, where the same number is
// another interface.
func (e *entry) openHolder() (*holder, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	here, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil { // Linux before 5.14 does not tell
		return &holder{fd: fd}, nil
	}
	there, err := unix.GetsockoptUint64(kernel.FD(e.s), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == nil && here != there {
		err = fmt.Errorf("the thread has left the socket's network namespace: %w", unix.EXDEV)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &holder{fd: fd}, nil
}

// closeHolders leaves what they hold.
func (e *entry) closeHolders() {
	for _, h := range e.holders {
		_ = unix.Close(h.fd) // a socket without data has nothing to lose
	}
	e.holders = nil
}

// openFilter makes the shadow receive what holders have joined, whatever the application said of IP_MULTICAST_ALL: unheard sees to that.
func (e *entry) openFilter() error {
	if len(e.holders) == 0 || e.s.Settings().MulticastAll {
		return nil
	}
	return e.multicastAll(1)
}

func (e *entry) multicastAll(value int) error {
	const ipMulticastAll = 49 // linux/in.h
	if err := unix.SetsockoptInt(kernel.FD(e.s), unix.IPPROTO_IP, ipMulticastAll, value); err != nil {
		return fmt.Errorf("IP_MULTICAST_ALL %d: %w", value, err)
	}
	return nil
}

// unheard tells whether a datagram at the shadow of the socket that is being read is of a group that the socket does not want to hear.
func (d *driver) unheard(m *ring.Meta) bool {
	if !m.Destination.IsMulticast() {
		return false
	}
	target, _ := wire.AddrFrom(m.Destination)
	source, _ := wire.AddrFrom(m.Source.Addr())
	if d.udp.ReceivesGroup(d.shadow.reading, target, source, m.IfIndex) {
		return false
	}
	d.stats.ShadowUnheard++
	return true
}

// membership joins or leaves a group with a descriptor.
func membership(fd int, g group, join bool) error {
	var source netip.Addr
	if g.source != ([4]byte{}) {
		source = netip.AddrFrom4(g.source)
	}
	return sys.GroupMembership(fd, netip.AddrFrom4(g.addr), int(g.iface), source, join)
}
