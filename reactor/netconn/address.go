package netconn

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// family returns the second half of a network's name, which says which addresses it accepts: "", "4" or "6". An unknown network is an error.
func family(network, prefix string) (string, error) {
	if f, ok := strings.CutPrefix(network, prefix); ok && (f == "" || f == "4" || f == "6") {
		return f, nil
	}
	return "", net.UnknownNetworkError(network)
}

// Arguments of resolve.
const (
	toDial   = false
	toListen = true
)

// resolve returns the addresses behind "host:port" on a network of a family, in the order in which they should be tried. An empty host is
// loopback for dialling and every address for listening.
func (n *Network) resolve(ctx context.Context, network, fam, address string, listening bool) ([]netip.AddrPort, error) {
	host, service := "", ""
	var err error
	switch {
	case address != "":
		if host, service, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	case !listening:
		return nil, errMissingAddress
	}
	number, err := n.config.Resolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	port := uint16(number) // LookupPort gives 0 to 65535
	var hosts []netip.Addr
	named := false
	switch literal, err := netip.ParseAddr(host); {
	case host == "", err == nil && listening && fam == "" && literal.IsUnspecified():
		hosts = anyHost(fam, listening) // as package net: 0.0.0.0 and [::] are both families where none is asked for
	case err == nil:
		hosts = []netip.Addr{literal.Unmap()}
	default:
		named = true
		if hosts, err = n.config.Resolver.LookupNetIP(ctx, "ip"+fam, host); err != nil {
			return nil, err
		}
	}
	var found, later []netip.AddrPort
	for _, h := range hosts {
		h = h.Unmap()
		switch a := netip.AddrPortFrom(h, port); {
		case fam == "4" && !h.Is4(), fam == "6" && !h.Is6():
		case listening && named && !h.Is4():
			later = append(later, a) // as package net: a name that has both is listened on over IPv4
		default:
			found = append(found, a)
		}
	}
	if found = append(found, later...); len(found) == 0 {
		return nil, &net.AddrError{Err: "no suitable address found", Addr: host}
	}
	return found, nil
}

var errMissingAddress = errors.New("missing address")

// listenedAddr returns the address of a listener for an error: without a host if the caller gave none.
func listenedAddr(a netip.AddrPort, address string) netip.AddrPort {
	if address == "" || strings.HasPrefix(address, ":") {
		return netip.AddrPortFrom(netip.Addr{}, a.Port())
	}
	return a
}

// otherKind returns the error for a network that exists and is of the other kind: a stream network where a packet network is needed, or the
// reverse.
func otherKind(err error, network, kind, address string) (net.Addr, error) {
	if _, known := family(network, kind); known == nil {
		return textAddr{network, address}, &net.AddrError{Err: "unexpected address type", Addr: address}
	}
	return nil, err
}

// anyHost returns the addresses that an empty host stands for: the loopback addresses for dialling, the wildcard addresses for listening.
func anyHost(fam string, listening bool) []netip.Addr {
	four, six := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	if listening {
		four, six = netip.IPv4Unspecified(), netip.IPv6Unspecified()
	}
	switch {
	case fam == "4":
		return []netip.Addr{four}
	case fam == "6":
		return []netip.Addr{six}
	case listening:
		return []netip.Addr{six, four} // both families at once; IPv4 alone where there is no IPv6
	}
	return []netip.Addr{four, six}
}

// streamAddrs returns the addresses of a connection in the types of package net.
func streamAddrs(s *xtreme.Socket) (local, remote net.Addr) {
	if s.Unix() {
		return unixAddr(s.LocalUnix()), unixAddr(s.RemoteUnix())
	}
	return net.TCPAddrFromAddrPort(s.LocalAddr()), net.TCPAddrFromAddrPort(s.RemoteAddr())
}

// unixAddr returns the name of a unix-domain socket as an address; "@" if it has none.
func unixAddr(name string) *net.UnixAddr {
	if name == "" {
		name = "@"
	}
	return &net.UnixAddr{Name: name, Net: "unix"}
}
