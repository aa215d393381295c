package sys

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// InterfaceIndex finds an interface by name.
func InterfaceIndex(name string) (int, error) {
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		return 0, fmt.Errorf("interface %q: %w", name, unix.ENODEV)
	}
	return ifc.Index, nil
}

// InterfaceAddrs maps every local address to the index of its interface. (Package net asks by a plain netlink socket: nothing of the
// run-time's poller is started for it.)
func InterfaceAddrs() map[netip.Addr]int {
	m := map[netip.Addr]int{}
	all, err := net.Interfaces()
	if err != nil {
		return m
	}
	for _, ifc := range all {
		addrs, err := ifc.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					m[ip.Unmap()] = ifc.Index
				}
			}
		}
	}
	return m
}

// GroupMembership joins or leaves a multicast group, of one source only when it is valid (MCAST_JOIN_GROUP,
// MCAST_JOIN_SOURCE_GROUP: RFC 3678, for both families alike). index 0 lets the kernel choose the interface.
func GroupMembership(fd int, group netip.Addr, index int, source netip.Addr, join bool) error {
	const storage = 128 // struct sockaddr_storage
	var req [8 + 2*storage]byte
	binary.NativeEndian.PutUint32(req[:], uint32(index))
	family, level := Family(group), unix.IPPROTO_IP
	if family == unix.AF_INET6 {
		level = unix.IPPROTO_IPV6
	}
	var a Sockaddr
	if err := a.Set(netip.AddrPortFrom(group, 0), family); err != nil {
		return err
	}
	copy(req[8:], a.Bytes())
	option, size := unix.MCAST_LEAVE_GROUP, 8+storage
	if join {
		option = unix.MCAST_JOIN_GROUP
	}
	if source.IsValid() {
		if err := a.Set(netip.AddrPortFrom(source, 0), family); err != nil {
			return err
		}
		copy(req[8+storage:], a.Bytes())
		option, size = unix.MCAST_LEAVE_SOURCE_GROUP, 8+2*storage
		if join {
			option = unix.MCAST_JOIN_SOURCE_GROUP
		}
	}
	_, _, e := syscall.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&req)), uintptr(size), 0)
	if e != 0 {
		return e
	}
	return nil
}
