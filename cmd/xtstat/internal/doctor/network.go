package doctor

import (
	"net/netip"
	"strings"

	curing "github.com/socketxtreme/socketxtreme/internal/cure"
)

// igmpLimits bound the groups of a kernel socket.
func igmpLimits(s *System) []Result {
	return append(atLeast(s, "net.ipv4.igmp_max_memberships", 256, "a kernel socket joins no more groups; offloaded ones open descriptors for more"),
		atLeast(s, "net.ipv4.igmp_max_msf", 64, "a group of a socket has no more sources")...)
}

// arpFlux: with two interfaces in a network the kernel answers on either for the addresses of both.
func arpFlux(s *System) []Result {
	all, err := s.Interfaces()
	if err != nil {
		return unknown(err)
	}
	type place struct{ name, network string }
	var places []place
	for _, i := range all {
		for _, a := range i.Addresses {
			if p, err := netip.ParsePrefix(a); err == nil && p.Addr().Is4() && !i.Loopback && i.Up {
				places = append(places, place{i.Name, p.Masked().String()})
			}
		}
	}
	for n, a := range places {
		for _, b := range places[:n] {
			if a.network != b.network || a.name == b.name {
				continue
			}
			ignore, err := s.number(sysctl("net.ipv4.conf.all.arp_ignore"))
			if err != nil {
				return unknown(err)
			}
			if ignore == 0 {
				return cure("sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2",
					"%s and %s are in %s: either answers for the other's address, and frames come where no ring is", b.name, a.name, a.network)
			}
			return good("%s and %s are in %s, with arp_ignore = %d", b.name, a.name, a.network, ignore)
		}
	}
	return good("no two interfaces are in one network")
}

// linkState: an interface that is down, or without a carrier, carries nothing.
func linkState(_ *System, i *Interface, _ []Interface) []Result {
	switch {
	case i.Loopback:
		return note("loopback carries no Ethernet frames (link.loopback): sockets on it are the kernel's")
	case !i.Up:
		return cure(curing.Command("link.down", curing.Place{Interface: i.Name}), "down (link.down)")
	case !i.Carrier:
		return cure("connect the cable, or set the peer up", "no carrier (link.no_carrier)")
	case i.Kind == "bridge" || i.Kind == "tun" || i.Kind == "wireguard":
		return note("a %s is not offloaded: sockets on it are the kernel's", i.Kind)
	}
	return good("up, with a carrier, %s", kindOf(i))
}

// kindOf is what an interface is, in words: the kernel's name of its kind, unless that is only "device" or the driver's, and the driver.
func kindOf(i *Interface) string {
	switch {
	case i.Driver != "" && i.Kind != "" && i.Kind != i.Driver && i.Kind != "device":
		return i.Kind + ", driver " + i.Driver
	case i.Driver != "":
		return "driver " + i.Driver
	case i.Kind != "":
		return i.Kind
	}
	return "of an unknown kind"
}

// bonding: members are opened one by one; a port of a bridge or bond is not offloaded by itself.
func bonding(s *System, i *Interface, _ []Interface) []Result {
	if i.Master != "" {
		return note("it belongs to %s, which has the addresses: sockets name that", i.Master)
	}
	mode, err := s.read("sys/class/net/" + i.Name + "/bonding/mode")
	if err != nil {
		return nil
	}
	switch name, _, _ := strings.Cut(mode, " "); name {
	case "active-backup", "balance-xor", "802.3ad":
		return good("bond, %s", name)
	default:
		return cure(curing.Command("link.bond_mode", curing.Place{Interface: i.Name}), "bond, %s: not offloaded (link.bond_mode)", name)
	}
}

// rpFilter: the kernel's side obeys it, redirected frames do not.
func rpFilter(s *System, i *Interface, _ []Interface) []Result {
	strict := 0
	for _, name := range []string{"all", i.Name} {
		n, err := s.number("proc/sys/net/ipv4/conf/" + name + "/rp_filter")
		if err != nil {
			return unknown(err)
		}
		strict = max(strict, n)
	}
	if strict == 1 {
		name := strings.ReplaceAll(i.Name, ".", "/") // as sysctl(8) wants the dots within a part
		return cure("sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf."+name+".rp_filter=2",
			"strict: multicast from sources that are routed elsewhere is dropped on the kernel's side, and passes offloaded (ip.rp_filter)")
	}
	return good("rp_filter = %d", strict)
}
