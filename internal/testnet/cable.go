package testnet

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CableVariable names two interfaces of this machine by their MAC addresses, with a comma, that a cable joins and that nothing else uses. They
// take the place of a network's first veth pair: the same tests run over a real driver. scripts/vm.sh sets it in a machine with two virtio-net
// cards.
const CableVariable = "SOCKETXTREME_TEST_CABLE"

// cable is the MAC addresses of SOCKETXTREME_TEST_CABLE; empty without it.
var cable = func() (macs []string) {
	if v := os.Getenv(CableVariable); v != "" {
		macs = strings.Split(v, ",")
	}
	return macs
}()

// lay moves the two interfaces into the two namespaces, under the names of pair 0. When those end the kernel returns them to the machine's own
// namespace: the next test waits for that.
func (n *Net) lay() {
	n.t.Helper()
	require.Len(n.t, cable, 2, "%s has two MAC addresses", CableVariable)
	for i, to := range []struct {
		namespace int
		name      string
	}{{n.here, n.Device(0)}, {n.there, "p0"}} {
		require.NoError(n.t, onMachine(func() error { return move(cable[i], to.namespace, to.name) }))
	}
}

// Unplug takes our end of pair 0 away, as a card that is pulled out: where the pair is a cable the card is removed from its bus, a veth pair is
// deleted.
func (n *Net) Unplug() {
	n.t.Helper()
	if !n.isCable(0) {
		l, err := netlink.LinkByName(n.Device(0))
		require.NoError(n.t, err)
		require.NoError(n.t, netlink.LinkDel(l))
		return
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(n.t, err)
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, n.Device(0))
	require.NoError(n.t, err)
	require.NoError(n.t, os.WriteFile("/sys/bus/pci/devices/"+unix.ByteSliceToString(info.Bus_info[:])+"/remove", []byte("1"), 0))
}

// Replug ends what Unplug has begun: the interface is there again, with the same name and addresses and another number.
func (n *Net) Replug() {
	n.t.Helper()
	if !n.isCable(0) {
		n.Again(0)
		return
	}
	require.NoError(n.t, os.WriteFile("/sys/bus/pci/rescan", []byte("1"), 0))
	require.NoError(n.t, onMachine(func() error { return move(cable[0], n.here, n.Device(0)) }))
	n.up(n.Device(0), n.Local(0).String()+"/24", n.Other(0).String()+"/24")
	peer, err := net.ParseMAC(cable[1])
	require.NoError(n.t, err)
	n.know(n.Device(0), n.Peer(0), peer)
}

// IsCable reports whether pair 0 is two interfaces of the machine, see CableVariable.
func (n *Net) IsCable() bool { return n.isCable(0) }

func (n *Net) isCable(i int) bool { return i == 0 && max(n.pairs[i].Queues, 1) == 1 && len(cable) > 0 }

// onMachine calls f in the network namespace of the machine's first process.
func onMachine(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		fd, err := unix.Open("/proc/1/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// move waits for the interface with a MAC address and moves it.
func move(mac string, namespace int, name string) error {
	want, err := net.ParseMAC(mac)
	if err != nil {
		return fmt.Errorf("%s: %w", CableVariable, err)
	}
	for end := time.Now().Add(Slow(time.Minute)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		list, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range list {
			if l.Attrs().HardwareAddr.String() != want.String() {
				continue
			}
			if err := netlink.LinkSetDown(l); err != nil { // an interface that is up has its name for good on old kernels
				return err
			}
			if err := netlink.LinkSetName(l, name); err != nil {
				return err
			}
			return netlink.LinkSetNsFd(l, namespace)
		}
	}
	return fmt.Errorf("%s: no interface of this machine has the address %s", CableVariable, mac)
}
