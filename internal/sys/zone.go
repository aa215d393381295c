package sys

import (
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// zoneIndex turns an IPv6 zone (an interface name or its index as digits) into the scope id of sockaddr_in6.
func zoneIndex(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifc, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("address zone %q: no such interface: %w", zone, unix.ENODEV)
	}
	return uint32(ifc.Index), nil
}
