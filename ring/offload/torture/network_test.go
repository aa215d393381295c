package torture

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The sides of a network, and of a trial.
const (
	near = 0 // ours, or the kernel of the first run
	far  = 1 // always the kernel
)

// addresses of the sides.
var addresses = [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}

// macs of v0 and p0.
var macs = [2]net.HardwareAddr{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}

// network is three namespaces: two sides, and between them the one of the relay.
type network struct {
	sides [2]int // descriptors of the namespaces
	relay int
}

// newNetwork makes the namespaces and their interfaces. An error that is EPERM: the privileges are missing.
func newNetwork(x *trial) (_ *network, err error) {
	n := &network{}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	for _, fd := range []*int{&n.relay, &n.sides[near], &n.sides[far]} {
		if *fd, err = newNamespace(); err != nil {
			return nil, err
		}
	}
	const relayMTU = 9000
	err = within(n.relay, func() error {
		for i, names := range [2][2]string{{"r0", "v0"}, {"r1", "p0"}} {
			pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: names[1], PeerNamespace: netlink.NsFd(n.sides[i]),
				PeerHardwareAddr: macs[i]}
			pair.Name, pair.MTU = names[0], relayMTU
			if err := netlink.LinkAdd(pair); err != nil {
				return err
			}
			if err := netlink.LinkSetUp(pair); err != nil {
				return err
			}
		}
		return nil
	})
	for i, name := range []string{"v0", "p0"} {
		if err == nil {
			err = within(n.sides[i], func() error { return n.configure(i, name, x) })
		}
	}
	return n, err
}

// configure sets one side up, in its namespace.
func (n *network) configure(side int, name string, x *trial) error {
	if err := computeSums(name); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(addresses[side].String() + "/24")
	if err != nil {
		return err
	}
	other := &netlink.Neigh{LinkIndex: l.Attrs().Index, IP: addresses[1-side].AsSlice(), HardwareAddr: macs[1-side], State: netlink.NUD_PERMANENT}
	if err := errors.Join(netlink.LinkSetMTU(l, x.MTU), netlink.AddrAdd(l, a), netlink.LinkSetUp(lo), netlink.LinkSetUp(l), netlink.NeighSet(other)); err != nil {
		return err
	}
	for key, value := range x.kernel(side).sysctls() {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+key, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (n *network) close() {
	for _, fd := range []int{n.relay, n.sides[near], n.sides[far]} {
		if fd > 0 {
			_ = unix.Close(fd)
		}
	}
}

// newNamespace makes a network namespace and returns its descriptor.
func newNamespace() (fd int, err error) {
	err = onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// within runs f on a thread in a namespace: sockets that it makes stay there.
func within(namespace int, f func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
		return f()
	})
}

// onOwnThread runs f on a thread that ends with it.
func onOwnThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		result <- f()
	}()
	return <-result
}

func interfaceIndex(name string) (int, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, nil
}

// computeSums makes the kernel compute the checksums of what an interface sends, and send no frame longer than the MTU: what is spoiled on the
// way could not be found out otherwise.
func computeSums(name string) error {
	const setTxChecksum, setTSO = 0x17, 0x1f // ETHTOOL_STXCSUM, ETHTOOL_STSO
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, command := range []uint32{setTSO, setTxChecksum} {
		value := struct{ command, data uint32 }{command, 0}
		request := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&value)}
		copy(request.name[:unix.IFNAMSIZ-1], name)
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); e != 0 {
			return fmt.Errorf("ethtool %#x: %w", command, e)
		}
	}
	return nil
}
