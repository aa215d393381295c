package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The two ends of the veth pair. Servers run on the first, load generators on the second.
const (
	ServerDevice, ClientDevice = "v0", "v1"
	ServerAddr, ClientAddr     = "10.77.0.1", "10.77.0.2"
	GroupBase                  = "239.77.7.0" // group n is 239.77.7.n
	MaxGroups                  = 254
)

var (
	ServerMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	ClientMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// ErrNoNetwork is the reason of all rows over a veth where the namespaces cannot be made.
var ErrNoNetwork = errors.New("missing: CAP_NET_ADMIN and CAP_SYS_ADMIN, for network namespaces and a veth pair")

// Network is two network namespaces joined by a veth pair of one queue. They have no names: descriptors hold them, so that they, the pair
// and all that is on it are gone when the last process in them has ended, however it ends.
type Network struct {
	home           int // the namespace of this process
	Server, Client int
}

// NewNetwork makes both. It works on a thread of its own that ends with it: a thread that was moved is not given back.
func NewNetwork() (*Network, error) {
	type result struct {
		n   *Network
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		n := &Network{-1, -1, -1}
		err := n.build()
		if err != nil {
			n.Close()
		}
		if errors.Is(err, unix.EPERM) {
			err = ErrNoNetwork
		}
		done <- result{n, err}
	}()
	r := <-done
	return r.n, r.err
}

// build makes two network namespaces and a veth pair between them.
func (n *Network) build() (err error) {
	if n.home, err = openNamespace(); err != nil {
		return err
	}
	for _, at := range []*int{&n.Server, &n.Client} {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if *at, err = openNamespace(); err != nil {
			return err
		}
	}
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: ServerDevice, PeerNamespace: netlink.NsFd(n.Server),
		PeerHardwareAddr: ServerMAC, PeerNumTxQueues: 1, PeerNumRxQueues: 1}
	pair.Name, pair.HardwareAddr, pair.NumTxQueues, pair.NumRxQueues = ClientDevice, ClientMAC, 1, 1
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("veth pair: %w", err)
	}
	if err := configureEnd(ClientDevice, ClientAddr, ServerAddr, ServerMAC); err != nil {
		return err
	}
	if err := unix.Setns(n.Server, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	if err := configureEnd(ServerDevice, ServerAddr, ClientAddr, ClientMAC); err != nil {
		return err
	}
	// A socket for each group may be a descriptor with one membership, or one with all.
	const memberships = "/proc/sys/net/ipv4/igmp_max_memberships"
	if err := os.WriteFile(memberships, []byte("1024"), 0o644); err != nil {
		return fmt.Errorf("memberships: %w", err)
	}
	return nil
}

// openNamespace returns a descriptor of the calling thread's network namespace.
func openNamespace() (int, error) {
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open network namespace: %w", err)
	}
	return fd, nil
}

// configureEnd gives the thread's end of the pair its address, the route for groups, and the neighbour: no round waits for ARP.
func configureEnd(device, addr, neighbour string, mac net.HardwareAddr) error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	l, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	index := l.Attrs().Index
	groups := &net.IPNet{IP: net.IPv4(224, 0, 0, 0), Mask: net.CIDRMask(4, 32)}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"address", func() error {
			return netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(addr), Mask: net.CIDRMask(24, 32)}})
		}},
		{"up", func() error { return netlink.LinkSetUp(l) }},
		{"route for groups", func() error { return netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: groups}) }},
		{"neighbour", func() error {
			return netlink.NeighSet(&netlink.Neigh{LinkIndex: index, IP: net.ParseIP(neighbour), HardwareAddr: mac,
				State: netlink.NUD_PERMANENT})
		}},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s of %s: %w", step.what, device, err)
		}
	}
	return nil
}

// inside runs f on a thread in the namespace. A thread that does not come back is not used again.
func (n *Network) inside(netns int, f func() error) error {
	runtime.LockOSThread()
	if err := unix.Setns(netns, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	err := f()
	if back := unix.Setns(n.home, unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, fmt.Errorf("leave a network namespace: %w", back)) // locked: the thread ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// Close closes the namespaces, which end with their last user.
func (n *Network) Close() {
	for _, fd := range []*int{&n.home, &n.Server, &n.Client} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}
