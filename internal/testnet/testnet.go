package testnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Pair is one veth pair.
type Pair struct {
	Queues int // of each end; 0 means 1
}

// Net is two namespaces with veth pairs between them. It belongs to the goroutine that made it.
type Net struct {
	t           testing.TB
	here, there int // descriptors of the namespaces
	pairs       []Pair
}

// New makes the namespaces and leaves the calling goroutine in one of them, locked to its thread, which ends with the test.
func New(t testing.TB, pairs ...Pair) *Net {
	t.Helper()
	runtime.LockOSThread() // and never unlocked: a thread that was moved is not given back
	n := &Net{t: t, pairs: pairs}
	n.there = n.namespace()
	n.here = n.namespace()
	n.up("lo")
	n.InPeer(func() { n.up("lo") })
	for i, p := range pairs {
		n.join(i, p)
	}
	t.Cleanup(func() { n.InPeer(func() { require.Zero(t, n.BadSums(), "the peer's kernel found wrong checksums") }) })
	return n
}

// Again makes pair i anew, one of whose ends was deleted: with the same names and addresses, but other numbers and MAC addresses.
func (n *Net) Again(i int) { n.join(i, n.pairs[i]) }

// join makes pair i: one interface on our side and one on the peer's, with addresses and neighbours.
func (n *Net) join(i int, p Pair) {
	queues, there := max(p.Queues, 1), fmt.Sprintf("p%d", i)
	if n.isCable(i) {
		n.lay()
	} else {
		n.veth(i, queues, there)
	}
	mine := n.up(n.Device(i), n.Local(i).String()+"/24", n.Other(i).String()+"/24")
	var theirs net.HardwareAddr
	n.InPeer(func() {
		theirs = n.up(there, n.Peer(i).String()+"/24")
		n.know(there, n.Local(i), mine)
		n.know(there, n.Other(i), mine)
	})
	// Who sends and then waits for the peer without polling could not see the neighbour's answer.
	n.know(n.Device(i), n.Peer(i), theirs)
}

// veth makes the interfaces of pair i.
func (n *Net) veth(i, queues int, there string) {
	n.t.Helper()
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: there, PeerNamespace: netlink.NsFd(n.there),
		PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues)}
	pair.Name, pair.NumTxQueues, pair.NumRxQueues = n.Device(i), queues, queues
	if err := netlink.LinkAdd(pair); errors.Is(err, unix.EOPNOTSUPP) {
		Missing(n.t, "namespaces", "veth interfaces in this kernel")
	} else {
		require.NoError(n.t, err)
	}
}

// Device is the name of our end of pair i.
func (n *Net) Device(i int) string { return fmt.Sprintf("v%d", i) }

// Local and Other are the addresses of our end of pair i, Peer that of the other end.
func (n *Net) Local(i int) netip.Addr { return addr(i, 1) }

// Other is the second address of our end of pair i.
func (n *Net) Other(i int) netip.Addr { return addr(i, 77) }

// Peer is the address of the other end of pair i.
func (n *Net) Peer(i int) netip.Addr { return addr(i, 2) }

func addr(pair, last int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(pair), byte(last)}) }

// namespace enters a new network namespace and returns its descriptor.
func (n *Net) namespace() int {
	n.t.Helper()
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
		Missing(n.t, "namespaces", "CAP_SYS_ADMIN")
	} else {
		require.NoError(n.t, err)
	}
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// InPeer runs f on the peer's side: sockets that it makes stay there.
func (n *Net) InPeer(f func()) {
	n.t.Helper()
	require.NoError(n.t, unix.Setns(n.there, unix.CLONE_NEWNET))
	defer func() { require.NoError(n.t, unix.Setns(n.here, unix.CLONE_NEWNET)) }()
	f()
}

// Enter moves the calling thread, which its goroutine must have locked, to our namespace.
func (n *Net) Enter() error { return unix.Setns(n.here, unix.CLONE_NEWNET) }

// EnterPeer moves the calling thread, which its goroutine must have locked and must not unlock, to the peer's namespace.
func (n *Net) EnterPeer() error { return unix.Setns(n.there, unix.CLONE_NEWNET) }

// PeerNamespace is a descriptor of the peer's namespace, for a process that the test starts (exec.Cmd.ExtraFiles); EnterNamespace moves a thread
// there. The caller closes it.
func (n *Net) PeerNamespace() *os.File {
	n.t.Helper()
	fd, err := unix.FcntlInt(uintptr(n.there), unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(n.t, err)
	return os.NewFile(uintptr(fd), "peer")
}

// EnterNamespace moves the calling thread, which its goroutine must have locked and must not unlock, to a namespace.
func EnterNamespace(f *os.File) error { return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET) }

// up sets an interface of the present namespace up, with its addresses and a route for multicast.
func (n *Net) up(name string, addrs ...string) net.HardwareAddr {
	n.t.Helper()
	l, err := netlink.LinkByName(name)
	require.NoError(n.t, err)
	for _, s := range addrs {
		a, err := netlink.ParseAddr(s)
		require.NoError(n.t, err)
		require.NoError(n.t, netlink.AddrAdd(l, a))
	}
	require.NoError(n.t, netlink.LinkSetUp(l))
	if len(addrs) > 0 {
		require.NoError(n.t, netlink.RouteAppend(&netlink.Route{LinkIndex: l.Attrs().Index,
			Dst: &net.IPNet{IP: net.IPv4(224, 0, 0, 0), Mask: net.CIDRMask(4, 32)}, Priority: l.Attrs().Index}))
	}
	return l.Attrs().HardwareAddr
}

// know enters a permanent neighbour for an address on an interface of the present namespace.
func (n *Net) know(device string, a netip.Addr, mac net.HardwareAddr) {
	n.t.Helper()
	l, err := netlink.LinkByName(device)
	require.NoError(n.t, err)
	require.NoError(n.t, netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: a.AsSlice(), HardwareAddr: mac,
		State: netlink.NUD_PERMANENT}))
}

// Dial makes a connected UDP socket of the peer's kernel, whose reads and writes end after a minute.
func (n *Net) Dial(to netip.AddrPort) *net.UDPConn {
	n.t.Helper()
	var c *net.UDPConn
	n.InPeer(func() {
		var err error
		c, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
		require.NoError(n.t, err)
	})
	require.NoError(n.t, c.SetDeadline(time.Now().Add(Slow(time.Minute))))
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Listen makes a bound UDP socket of the peer's kernel.
func (n *Net) Listen(at netip.AddrPort) *net.UDPConn {
	n.t.Helper()
	var c *net.UDPConn
	n.InPeer(func() {
		var err error
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		require.NoError(n.t, err)
	})
	require.NoError(n.t, c.SetDeadline(time.Now().Add(Slow(time.Minute))))
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ReadBuffer sets a socket's receive buffer, beyond the machine's limit (net.core.rmem_max: 208 KiB by default before Linux 6.17).
func ReadBuffer(t testing.TB, c syscall.Conn, bytes int) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes) }))
	require.NoError(t, err)
}

// BadSums is UDP's InCsumErrors in the thread's present namespace.
func (n *Net) BadSums() (count int) {
	n.t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/snmp")
	require.NoError(n.t, err)
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] != "Udp:" {
			continue
		}
		if i := slices.Index(names, "InCsumErrors"); i >= 0 {
			count, err = strconv.Atoi(fields[i])
			require.NoError(n.t, err)
			return count
		}
		names = fields
	}
	require.FailNow(n.t, "no InCsumErrors in /proc/thread-self/net/snmp")
	return 0
}
