package gnet

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// parseAddress splits "tcp://127.0.0.1:9000" into network and address. The grammar is that of a URL, as in gnet, with
// two things to know: the scheme must be there, and the '%' of an IPv6 zone needs no escape.
func parseAddress(address string) (network, rest string, err error) {
	u, err := url.Parse(strings.ReplaceAll(address, "%", "%25"))
	if err != nil {
		return "", "", err
	}
	switch u.Scheme {
	case "":
		return "", "", ErrInvalidNetworkAddress
	case "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6":
		if u.Host == "" || u.Path != "" {
			return "", "", ErrInvalidNetworkAddress
		}
		return u.Scheme, u.Host, nil
	case "unix":
		name := path.Join(u.Host, u.Path)
		if name == "" {
			return "", "", ErrInvalidNetworkAddress
		}
		return u.Scheme, name, nil
	}
	return "", "", ErrUnsupportedProtocol
}

// endpoint is where a listener is bound.
type endpoint struct {
	network, address string         // as parseAddress gave them: DupListener asks by these
	bind             netip.AddrPort // of tcp and udp
	v6only           bool
}

func (e *endpoint) udp() bool  { return strings.HasPrefix(e.network, "udp") }
func (e *endpoint) unix() bool { return e.network == "unix" }

// resolve finds the address to bind to. Without a host it is [::], which receives IPv4 too, or 0.0.0.0 for tcp4 and udp4; with tcp6 and udp6
// it receives IPv6 only.
func (e *endpoint) resolve() error {
	if e.unix() {
		return nil
	}
	var ip net.IP
	var port int
	var zone string
	if e.udp() {
		a, err := net.ResolveUDPAddr(e.network, e.address)
		if err != nil {
			return err
		}
		ip, port, zone = a.IP, a.Port, a.Zone
	} else {
		a, err := net.ResolveTCPAddr(e.network, e.address)
		if err != nil {
			return err
		}
		ip, port, zone = a.IP, a.Port, a.Zone
	}
	var addr netip.Addr
	switch {
	case ip == nil && strings.HasSuffix(e.network, "4"):
		addr = netip.IPv4Unspecified()
	case ip == nil:
		addr = netip.IPv6Unspecified()
		e.v6only = strings.HasSuffix(e.network, "6")
	default:
		var ok bool
		if addr, ok = netip.AddrFromSlice(ip); !ok {
			return fmt.Errorf("gnet: address %s: %w", e.address, ErrInvalidNetworkAddress)
		}
		addr = addr.Unmap()
		e.v6only = addr.Is6() && strings.HasSuffix(e.network, "6")
	}
	e.bind = netip.AddrPortFrom(addr.WithZone(zone), uint16(port))
	return nil
}

// netAddr is the address for LocalAddr and RemoteAddr.
func netAddr(datagram bool, a netip.AddrPort) net.Addr {
	if datagram {
		return net.UDPAddrFromAddrPort(a)
	}
	return net.TCPAddrFromAddrPort(a)
}
