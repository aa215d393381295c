package host

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// space is a network namespace that the test made, and a handle to change it by.
type space struct {
	t *testing.T
	*netlink.Handle
	fd int
}

// newSpace makes a namespace with lo up. It goes with the test.
func newSpace(t *testing.T) *space {
	t.Helper()
	if os.Geteuid() != 0 {
		testnet.Missing(t, "namespaces", "making one needs root (CAP_SYS_ADMIN)")
	}
	s := &space{t: t}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, in a namespace nobody else wants
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			s.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		made <- err
	}()
	require.NoError(t, <-made)
	s.in(func() (err error) {
		s.Handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, unix.Close(s.fd))
	})
	s.up("lo")
	return s
}

// in runs f in the namespace.
func (s *space) in(f func() error) {
	s.t.Helper()
	require.NoError(s.t, InNamespace(s.fd, f))
}

// host opens a mirror of the namespace; it is closed before the namespace goes.
func (s *space) host(c Config) *Host {
	s.t.Helper()
	c.NamespaceFD = s.fd
	h, err := Open(c)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, h.Close()) })
	return h
}

func (s *space) link(name string) netlink.Link {
	s.t.Helper()
	l, err := s.LinkByName(name)
	require.NoError(s.t, err, name)
	return l
}

func (s *space) index(name string) int { return s.link(name).Attrs().Index }
func (s *space) up(name string)        { require.NoError(s.t, s.LinkSetUp(s.link(name))) }
func (s *space) down(name string)      { require.NoError(s.t, s.LinkSetDown(s.link(name))) }

// add makes a link of any kind; a kind that the kernel lacks skips the test.
func (s *space) add(l netlink.Link) int {
	s.t.Helper()
	err := s.LinkAdd(l)
	if err == unix.EOPNOTSUPP {
		testnet.Missing(s.t, l.Type(), "this kernel has no such links")
	}
	require.NoError(s.t, err, l.Type())
	return s.index(l.Attrs().Name)
}

// pair makes a veth from here to there, both ends up.
func (s *space) pair(name string, there *space, other string) {
	s.t.Helper()
	a := netlink.NewLinkAttrs()
	a.Name = name
	s.add(&netlink.Veth{LinkAttrs: a, PeerName: other, PeerNamespace: netlink.NsFd(there.fd)})
	s.up(name)
	there.up(other)
}

func (s *space) address(name, cidr string) {
	s.t.Helper()
	a, err := netlink.ParseAddr(cidr)
	require.NoError(s.t, err)
	require.NoError(s.t, s.AddrReplace(s.link(name), a))
}

func (s *space) unaddress(name, cidr string) {
	s.t.Helper()
	a, err := netlink.ParseAddr(cidr)
	require.NoError(s.t, err)
	require.NoError(s.t, s.AddrDel(s.link(name), a))
}

// sysctl writes /proc/sys/net/path of the namespace.
func (s *space) sysctl(path, value string) {
	s.t.Helper()
	s.in(func() error { return os.WriteFile(filepath.Join("/proc/sys/net", path), []byte(value), 0) })
}

// until waits until the newest snapshot satisfies.
func until(t *testing.T, h *Host, what string, holds func(s *Snapshot) bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(h.Snapshot()); time.Sleep(200 * time.Microsecond) {
		require.True(t, time.Now().Before(end), "waiting until %s", what)
	}
}

// moves does something and waits until an answer has changed and the condition holds.
func moves(t *testing.T, h *Host, what string, do func(), holds func(s *Snapshot) bool) {
	t.Helper()
	before := h.Snapshot()
	do()
	until(t, h, what, func(s *Snapshot) bool {
		return (s.Generation() != before.Generation() || s.NeighbourChanges() != before.NeighbourChanges()) && holds(s)
	})
}

func ipnet(s string) *net.IPNet {
	_, n, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return n
}

func stdIP(s string) net.IP { return net.ParseIP(s).To4() }

func addrOf(b net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a.Unmap()
}

func macOf(l netlink.Link) wire.MAC { return wire.MAC(l.Attrs().HardwareAddr) }

// descriptors are what the process has open, but for the runtime's own.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.Contains(to, "anon_inode") {
			n++
		}
	}
	return n
}
