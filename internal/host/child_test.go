package host

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A macvlan is its parent's child wherever it is; when it moves to another namespace, and when it is deleted there, the mirror tells.
func TestChildrenInOtherNamespaces(t *testing.T) {
	runtime.LockOSThread() // and never unlocked
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
		t.Skip("missing: CAP_SYS_ADMIN, for network namespaces")
	} else {
		require.NoError(t, err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "p0"}
	veth.Name = "v0"
	require.NoError(t, netlink.LinkAdd(veth))
	parent, err := netlink.LinkByName("v0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(parent))
	here := parent.Attrs().Index
	other, made := -1, make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			other, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		made <- err
	}()
	require.NoError(t, <-made)
	defer unix.Close(other)

	h, err := Open(Config{})
	require.NoError(t, err)
	defer h.Close()
	require.Empty(t, h.Snapshot().Children(here))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = "mv0", here
	child := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	if err := netlink.LinkAdd(child); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("missing: the kernel's macvlan (CONFIG_MACVLAN)")
	} else {
		require.NoError(t, err)
	}
	until := func(what string, want ...Child) {
		t.Helper()
		require.Eventually(t, func() bool {
			got := h.Snapshot().Children(here)
			if len(got) != len(want) {
				return false
			}
			for i := range got {
				if want[i].Netns >= 0 {
					want[i].Netns = max(got[i].Netns, 0) // whatever the kernel calls it
				}
				if got[i] != want[i] {
					return false
				}
			}
			return true
		}, 10*time.Second, time.Millisecond, what)
	}
	until("made here", Child{here, "mv0", KindMacvlan, 0, -1})
	require.NoError(t, netlink.LinkSetNsFd(child, other))
	until("moved", Child{here, "mv0", KindMacvlan, 0, 1})
	require.NoError(t, InNamespace(other, func() error {
		l, err := netlink.LinkByName("mv0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}))
	until("deleted there")
}
