package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Interface finds an interface by name.
func (t *Transport) Interface(name string) (int, error) { return sys.InterfaceIndex(name) }

// InterfaceOf is the interface that has the address. The addresses are read at the first question, and once more for each address that is not
// known.
func (t *Transport) InterfaceOf(ip netip.Addr) int {
	if ip = ip.WithZone("").Unmap(); ip.IsLoopback() && ip.Is4() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // the loopback interface owns all of 127.0.0.0/8
	}
	if t.interfaces == nil {
		t.interfaces = sys.InterfaceAddrs()
	}
	index, ok := t.interfaces[ip]
	if !ok {
		index = sys.InterfaceAddrs()[ip]
		t.interfaces[ip] = index
	}
	return index
}

// RoutedInterface is the interface that the kernel joins a group on when none is given: that of its route, which a socket that is connected to
// the group has an address of. 0: there is no route, or it cannot be told.
func (t *Transport) RoutedInterface(group netip.Addr) int {
	family := sys.Family(group)
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if t.address.Set(netip.AddrPortFrom(group, 9), family) != nil || sys.Connect(fd, &t.address) != 0 { // nothing is sent
		return 0
	}
	local := sys.SockName(fd).Addr()
	if !local.IsValid() || local.IsUnspecified() || local.IsMulticast() {
		return 0
	}
	return t.InterfaceOf(local)
}

// SetDevice is SO_BINDTODEVICE.
func (t *Transport) SetDevice(s *ring.Socket, name string, _ int) error {
	return unix.BindToDevice(FD(s), name)
}

// SetMembership joins or leaves a group with the socket's descriptor.
func (t *Transport) SetMembership(s *ring.Socket, m ring.Membership, join bool) error {
	return NameLimit(s, m, sys.GroupMembership(FD(s), m.Group, m.Interface, m.Source, join))
}

// NameLimit puts the kernel's limit on memberships into words: ENOBUFS says neither which one it is nor that there is one (ip_mc_join_group,
// ip_mc_source and ip6_mc_source in the kernel). Other errors it leaves alone.
func NameLimit(s *ring.Socket, m ring.Membership, err error) error {
	if !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	limit, what := "net.ipv4.igmp_max_memberships", "groups"
	switch {
	case s.Family() == ring.IPv6:
		limit, what = "net.ipv6.mld_max_msf", "sources of one group"
	case m.Source.IsValid() && slices.ContainsFunc(ring.OptionsOf(s).Groups, func(g ring.Membership) bool {
		return g.Group == m.Group && g.Interface == m.Interface && g.Source.IsValid()
	}):
		limit, what = "net.ipv4.igmp_max_msf", "sources of one group"
	}
	value, failure := os.ReadFile("/proc/sys/" + strings.ReplaceAll(limit, ".", "/"))
	if failure != nil {
		return fmt.Errorf("one descriptor may have no more %s (%s): %w", what, limit, err)
	}
	return fmt.Errorf("one descriptor may have %s %s (%s): %w", strings.TrimSpace(string(value)), what, limit, err)
}

// Drops is how many datagrams the kernel dropped at the socket.
func (t *Transport) Drops(s *ring.Socket) (uint32, error) { return sys.Drops(FD(s)) }

// Retransmits implements ring.Retransmitter.
func (t *Transport) Retransmits(s *ring.Socket) (uint32, error) { return sys.Retransmits(FD(s)) }
