package xtreme_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// otherNamespace is a network namespace that nothing else is in, such as a container's.
func otherNamespace(t *testing.T) (fd int) {
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		made <- err
	}()
	require.NoError(t, <-made)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd
}

// Kinds of interfaces that stand on another one and may be members of groups there.
const (
	macvlan = "macvlan"
	ipvlan  = "ipvlan" // in mode L2: in the others it receives no multicast
)

// addChild makes an interface of a kind on v0, in the namespace of fd unless it is -1, and a socket there that is a member of the group on it.
func (w *cabled) addChild(kind string, fd int, g netip.AddrPort) (member *net.UDPConn, remove func()) {
	w.t.Helper()
	parent, err := netlink.LinkByName("v0")
	w.NoError(err)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = "c0", parent.Attrs().Index
	var child netlink.Link = &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	if kind == ipvlan {
		child = &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2}
	}
	if err := netlink.LinkAdd(child); errors.Is(err, unix.EOPNOTSUPP) {
		testnet.Missing(w.t, kind, err)
	} else {
		w.NoError(err)
	}
	if fd >= 0 {
		w.NoError(netlink.LinkSetNsFd(child, fd))
	}
	in := func(f func() error) { w.NoError(host.InNamespace(fd, f)) }
	in(func() error {
		l, err := netlink.LinkByName("c0")
		if err != nil {
			return err
		}
		address := "10.0.0.99/24"
		if fd < 0 {
			address = "10.0.9.1/24"
		}
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetUp(l)); err != nil {
			return err
		}
		if member, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(g)); err != nil {
			return err
		}
		ifi, err := net.InterfaceByName("c0")
		return errors.Join(err, ipv4.NewPacketConn(member).JoinGroup(ifi, &net.UDPAddr{IP: g.Addr().AsSlice()}))
	})
	return member, func() {
		w.NoError(member.Close())
		in(func() error {
			l, err := netlink.LinkByName("c0")
			if err != nil {
				return err
			}
			return netlink.LinkDel(l)
		})
	}
}

// A macvlan child of an offloaded interface, of this namespace or of another one, receives the groups that it has joined; the path says that
// the kernel gives them. It may come and go while the ring lives.
func TestGroupsOfAMacvlanChild(t *testing.T) { groupsOfAChild(t, macvlan) }

// The same of an ipvlan child.
func TestGroupsOfAnIPvlanChild(t *testing.T) { groupsOfAChild(t, ipvlan) }

func groupsOfAChild(t *testing.T, kind string) {
	for _, name := range []string{"this namespace", "another namespace"} {
		t.Run(name, func(t *testing.T) {
			w := newCabled(t)
			fd := -1
			if name != "this namespace" {
				fd = otherNamespace(t)
			}
			g := netip.AddrPortFrom(group(60), 7600)
			s := w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "v0"}}})
			send := func(text string) {
				c := w.net.Dial(g)
				w.write(c, text)
				w.NoError(c.Close())
			}
			receive := func(text string, os bool) {
				t.Helper()
				c := w.next("a packet", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventPacket) })
				w.Equal(text, string(c.Packet.Bytes()))
				w.Equal(os, c.ViaKernel, "by the kernel: %v", s.Path())
				w.NoError(c.Packet.Release())
			}
			send("alone")
			receive("alone", false)
			for range 2 {
				member, remove := w.addChild(kind, fd, g)
				w.until("the path tells of the child", func() bool {
					return slices.Contains(codes(s.Path()), "mcast.child")
				})
				send("both")
				receive("both", true)
				w.NoError(member.SetReadDeadline(time.Now().Add(patience)))
				w.heard(member, "both")
				remove()
				w.until("the child is gone", func() bool { return !slices.Contains(codes(s.Path()), "mcast.child") })
				send("again")
				receive("again", false)
			}
		})
	}
}

// A socket that must be offloaded keeps its groups, and its path says that a child goes without; one that is opened beside a child has its
// reason from the start.
func TestGroupsThatAreKeptFromAChild(t *testing.T) {
	w := newCabled(t)
	g := netip.AddrPortFrom(group(62), 7602)
	_, remove := w.addChild(macvlan, otherNamespace(t), g)
	defer remove()
	s := w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "v0"}}})
	w.Equal("kernel", s.Path().Tier, s.Path())
	w.Contains(codes(s.Path()), "mcast.child")
	w.close(s)
	kept := w.udp(g, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}, IPConfig: xtreme.IPConfig{ReuseAddr: true},
		Groups: []xtreme.Group{{Interface: "v0"}}})
	w.Equal("bypass", kept.Path().Tier, kept.Path())
	w.Contains(codes(kept.Path()), "mcast.kept")
	plain := w.udp(w.at(0))
	w.Equal("bypass", plain.Path().Tier, "unicast is nobody else's")
	w.NotContains(codes(plain.Path()), "mcast.child")
}
