package host

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// inPairNamespace moves the test to a namespace of its own, with an interface v0 of a pair, whose index it returns.
func inPairNamespace(t *testing.T) (index int) {
	t.Helper()
	runtime.LockOSThread() // and never unlocked
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
		testnet.Missing(t, "namespaces", "CAP_SYS_ADMIN")
	} else {
		require.NoError(t, err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "p0"}
	veth.Name = "v0"
	require.NoError(t, netlink.LinkAdd(veth))
	parent, err := netlink.LinkByName("v0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(parent))
	return parent.Attrs().Index
}

// A macvlan is its parent's child wherever it is; when it moves to another namespace, and when it is deleted there, the mirror tells.
func TestChildrenInOtherNamespaces(t *testing.T) {
	here := inPairNamespace(t)
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
		testnet.Missing(t, "macvlan", "the kernel has none (CONFIG_MACVLAN)")
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

// One that was made in another namespace directly, as plugins of Kubernetes do it, is seen too: the kernel has no id for that namespace here
// until the mirror gives it one.
func TestAChildMadeInAnotherNamespace(t *testing.T) {
	here := inPairNamespace(t)
	other := exec.Command("sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	require.NoError(t, other.Start())
	defer func() {
		require.NoError(t, other.Process.Kill())
		_ = other.Wait() // killed
	}()
	h, err := Open(Config{})
	require.NoError(t, err)
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.Namespace = "mv0", here, netlink.NsPid(other.Process.Pid)
	if err := netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}); errors.Is(err, unix.EOPNOTSUPP) {
		testnet.Missing(t, "macvlan", "the kernel has none (CONFIG_MACVLAN)")
	} else {
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		list := h.Snapshot().Children(here)
		return len(list) == 1 && list[0].Name == "mv0" && list[0].Netns >= 0
	}, 10*time.Second, time.Millisecond)
}
