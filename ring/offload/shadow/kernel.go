package shadow

import (
	"fmt"
	"iter"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
)

// Kernel is what a ring does with the kernel's descriptors of its sockets. [SystemCalls] is the kernel of this process; simulated hosts have
// another one. Errors are errnos. Any goroutine.
type Kernel interface {
	// SetMembership joins or leaves a group with a descriptor; interface 0: the one that the routing table chooses. An invalid source: all.
	SetMembership(fd int, group netip.Addr, ifIndex int, source netip.Addr, join bool) error
	// SetMulticastAll sets IP_MULTICAST_ALL.
	SetMulticastAll(fd int, on bool) error
	// OpenMember opens a descriptor for memberships alone, in the network namespace of a socket's.
	OpenMember(like int) (fd int, err error)
	// Duplicate opens one more descriptor of a socket; Close closes it.
	Duplicate(fd int) (int, error)
	Close(fd int) error
	// BindToDevice ties a socket to an interface.
	BindToDevice(fd int, ifName string) error
	// Inode is the number of a socket in the kernel's lists; 0: not known.
	Inode(fd int) uint64
	// SetReceiveBuffer sets SO_RCVBUF, up to net.core.rmem_max; ForceReceiveBuffer beyond it too, where the process may. ReceiveBuffer is what
	// the socket has: twice as much.
	SetReceiveBuffer(fd, size int) error
	ForceReceiveBuffer(fd, size int) error
	ReceiveBuffer(fd int) (int, error)
	// PendingError takes the socket's pending error (SO_ERROR).
	PendingError(fd int) syscall.Errno
	// NewReadyList makes an interest list of descriptors; NewReceiver makes what reads one datagram at a time into a pool.
	NewReadyList() (ReadyList, error)
	NewReceiver(pool *buffers.DriverPool) Receiver
	// OpenMembers opens what lists the sockets of the calling thread's network namespace.
	OpenMembers() (Members, error)
}

// ReadyList is an interest list, see sys.Epoll.
type ReadyList interface {
	Control(op, fd int, events, slot, gen uint32) syscall.Errno
	Poll(events []sys.EpollEvent) (int, syscall.Errno)
	FD() int
	Close() error
}

// Receiver reads datagrams of kernel sockets into packets, see direct.Receiver. It belongs to the ring's goroutine.
type Receiver interface {
	// Datagram receives at most one datagram from s: Received, Discarded (by the function of SetRefuse), Empty, or
	// Starved or Failed, of which the sink was told.
	Datagram(k *ring.Sink, s *ring.Socket) Outcome
	// SetRefuse sets a function that is asked before a datagram is delivered: true discards it. Nil: none.
	SetRefuse(refuse func(m *ring.Meta) bool)
	// ReturnSpare returns the buffers that the receiver keeps ready; Close does so too.
	ReturnSpare()
	Close()
}

// Outcome is what one attempt to receive came to.
type Outcome = direct.Outcome

// The outcomes that a Receiver may have. After Received and Discarded there may be more.
const (
	Received  = direct.Received
	Discarded = direct.Discarded
	Empty     = direct.Empty
	Starved   = direct.Starved
	Failed    = direct.Ended
)

// Members lists the sockets of a network namespace, see host.Members. One goroutine at a time.
type Members interface {
	Users() (map[host.GroupOn]int, error)
	Bound() ([]host.Bound, error)
	Limit() error
	Close() error
}

// SystemCalls is the kernel of this process.
type SystemCalls struct{}

var _ Kernel = SystemCalls{}

// SetMembership is IP_ADD_MEMBERSHIP and its kind.
func (SystemCalls) SetMembership(fd int, group netip.Addr, ifIndex int, source netip.Addr, join bool) error {
	return sys.GroupMembership(fd, group, ifIndex, source, join)
}

// SetMulticastAll sets IP_MULTICAST_ALL.
func (SystemCalls) SetMulticastAll(fd int, on bool) error {
	const ipMulticastAll = 49 // linux/in.h
	value := 0
	if on {
		value = 1
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, ipMulticastAll, value); err != nil {
		return fmt.Errorf("IP_MULTICAST_ALL %d: %w", value, err)
	}
	return nil
}

// OpenMember opens a socket in the network namespace of another one: the calling thread may be in another one, where the same number is another
// interface.
func (k SystemCalls) OpenMember(like int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	here, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil { // Linux before 5.14 does not tell
		return fd, nil
	}
	there, err := unix.GetsockoptUint64(like, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == nil && here != there {
		err = fmt.Errorf("the thread has left the socket's network namespace: %w", unix.EXDEV)
	}
	if err != nil {
		_ = unix.Close(fd) // a socket without data has nothing to lose
		return -1, err
	}
	return fd, nil
}

// Duplicate is F_DUPFD_CLOEXEC.
func (SystemCalls) Duplicate(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

// Close is close(2).
func (SystemCalls) Close(fd int) error { return unix.Close(fd) }

// BindToDevice sets SO_BINDTODEVICE.
func (SystemCalls) BindToDevice(fd int, ifName string) error { return unix.BindToDevice(fd, ifName) }

// Inode is that of fstat(2).
func (SystemCalls) Inode(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// SetReceiveBuffer sets SO_RCVBUF.
func (SystemCalls) SetReceiveBuffer(fd, size int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size)
}

// ForceReceiveBuffer sets SO_RCVBUFFORCE.
func (SystemCalls) ForceReceiveBuffer(fd, size int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size)
}

// ReceiveBuffer reads SO_RCVBUF.
func (SystemCalls) ReceiveBuffer(fd int) (int, error) {
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
}

// PendingError reads SO_ERROR.
func (SystemCalls) PendingError(fd int) syscall.Errno { return sys.SocketError(fd) }

// NewReadyList makes an epoll list.
func (SystemCalls) NewReadyList() (ReadyList, error) {
	l, err := sys.NewEpoll()
	if err != nil {
		return nil, err
	}
	return l, nil
}

// NewReceiver makes a receiver that calls recvmsg(2). What it receives is marked as received through the kernel.
func (SystemCalls) NewReceiver(pool *buffers.DriverPool) Receiver {
	r := direct.New(pool)
	r.ViaKernel = true
	return receiver{r}
}

// OpenMembers opens procfs and sock_diag(7).
func (SystemCalls) OpenMembers() (Members, error) {
	m, err := host.OpenMembers()
	if err != nil {
		return nil, err // not a nil *host.Members in an interface
	}
	return m, nil
}

type receiver struct{ *direct.Receiver }

func (r receiver) SetRefuse(refuse func(m *ring.Meta) bool) { r.Refuse = refuse }

// Group is a membership with its interface resolved.
type Group struct {
	Addr, Source [4]byte // Source: zero for any
	IfIndex      uint32
}

// GroupOf is the membership that the application asked for, its interface as it named it: 0 where the routing table is to choose. It is
// false for groups of IPv6.
func GroupOf(m ring.Membership) (g Group, ok bool) {
	if g.Addr, ok = wire.AddrFrom(m.Group); !ok {
		return g, false
	}
	if m.Source.IsValid() {
		g.Source, _ = wire.AddrFrom(m.Source)
	}
	g.IfIndex = uint32(m.Interface)
	return g, true
}

// Groups are the memberships of a socket, as udp.Table.joined has them.
type Groups = iter.Seq[Group]

// Same reports whether it is the same membership, on whichever interface.
func (g Group) Same(x Group) bool { return g.Addr == x.Addr && g.Source == x.Source }

// joinGroupOn joins a group with a descriptor, on an interface, or, with 0, on the one that the routing table chooses.
func joinGroupOn(k Kernel, fd int, g Group, ifIndex int) error {
	const join = true
	return k.SetMembership(fd, netip.AddrFrom4(g.Addr), ifIndex, sourceOf(g), join)
}

// joinGroup is joinGroupOn on the interface of the group.
func joinGroup(k Kernel, fd int, g Group) error { return joinGroupOn(k, fd, g, int(g.IfIndex)) }

// leaveGroup leaves a group with a descriptor, on the interface of the group.
func leaveGroup(k Kernel, fd int, g Group) error {
	const join = false
	return k.SetMembership(fd, netip.AddrFrom4(g.Addr), int(g.IfIndex), sourceOf(g), join)
}

// sourceOf returns the source of a group; the zero Addr for all sources.
func sourceOf(g Group) netip.Addr {
	if g.Source == ([4]byte{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom4(g.Source)
}
