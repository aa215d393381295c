package sys

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// SockaddrLen is the room an IPv4 or IPv6 socket address needs (struct sockaddr_in6).
const SockaddrLen = unix.SizeofSockaddrInet6

// Sockaddr is an IPv4 or IPv6 socket address in the kernel's own form. It is a value with room for both families, so that
// encoding one on the way to a system call allocates nothing.
type Sockaddr struct {
	raw [SockaddrLen]byte
	n   uint32
}

// Set encodes a for a socket of the given family (AF_INET or AF_INET6). An IPv4 address is mapped (::ffff:a.b.c.d) for an
// IPv6 socket, as RFC 4291 section 2.5.5.2 has it; an IPv6 address cannot be reached from an IPv4 socket.
func (s *Sockaddr) Set(a netip.AddrPort, family int) error {
	ip := a.Addr()
	switch {
	case !ip.IsValid():
		return fmt.Errorf("address %v: no IP address: %w", a, unix.EINVAL)
	case family == unix.AF_INET && (ip.Is4() || ip.Is4In6()):
		binary.NativeEndian.PutUint16(s.raw[0:], unix.AF_INET)
		binary.BigEndian.PutUint16(s.raw[2:], a.Port())
		ip4 := ip.As4()
		copy(s.raw[4:8], ip4[:])
		clear(s.raw[8:16])
		s.n = unix.SizeofSockaddrInet4
	case family == unix.AF_INET6:
		binary.NativeEndian.PutUint16(s.raw[0:], unix.AF_INET6)
		binary.BigEndian.PutUint16(s.raw[2:], a.Port())
		clear(s.raw[4:8])
		ip16 := ip.As16()
		copy(s.raw[8:24], ip16[:])
		scope, err := zoneIndex(ip.Zone())
		if err != nil {
			return err
		}
		binary.NativeEndian.PutUint32(s.raw[24:], scope)
		s.n = unix.SizeofSockaddrInet6
	default:
		return fmt.Errorf("address %v: not reachable from an IPv4 socket: %w", a, unix.EAFNOSUPPORT)
	}
	return nil
}

// Bytes is the encoded form; it aliases s.
func (s *Sockaddr) Bytes() []byte { return s.raw[:s.n] }

// ParseSockaddr decodes the address that the kernel wrote into b; anything but IPv4 and IPv6 gives the zero AddrPort. Mapped
// IPv4 addresses come back as IPv4, so that a dual-stack socket reports its peers in one form.
func ParseSockaddr(b []byte) netip.AddrPort {
	if len(b) < unix.SizeofSockaddrInet4 {
		return netip.AddrPort{}
	}
	switch binary.NativeEndian.Uint16(b) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case unix.AF_INET6:
		if len(b) < unix.SizeofSockaddrInet6 {
			return netip.AddrPort{}
		}
		ip := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 && ip.IsLinkLocalUnicast() {
			ip = ip.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2:]))
	}
	return netip.AddrPort{}
}

// Family is the address family a socket bound or connected to ip needs.
func Family(ip netip.Addr) int {
	if ip.Is6() && !ip.Is4In6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
