package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// The same bytes come from a dump and from a notification, so one decoder serves both. Everything is IPv4: messages of other
// families are not an error and not a fact, which the second result tells.

var errShort = errors.New("message too short")

// attributes calls f for each attribute, nested flags removed from its type.
func attributes(b []byte, f func(typ uint16, v []byte) error) error {
	for len(b) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return fmt.Errorf("attribute of %d bytes in %d", n, len(b))
		}
		typ := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := f(typ, b[unix.SizeofRtAttr:n]); err != nil {
			return err
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return nil
}

// decodeLink reads RTM_NEWLINK.
func decodeLink(b []byte) (l Link, ok bool, err error) {
	if len(b) < unix.SizeofIfInfomsg {
		return l, false, errShort
	}
	if b[0] != unix.AF_UNSPEC {
		return l, false, nil // a bridge speaking of its ports: not the interface itself
	}
	l = Link{Type: binary.NativeEndian.Uint16(b[2:]), Index: int(int32(binary.NativeEndian.Uint32(b[4:]))),
		Flags: binary.NativeEndian.Uint32(b[8:]), Netns: -1}
	err = attributes(b[unix.SizeofIfInfomsg:], func(typ uint16, v []byte) error {
		switch typ {
		case unix.IFLA_IFNAME:
			l.Name = text(v)
		case unix.IFLA_ADDRESS:
			if len(v) == len(l.MAC) {
				l.MAC = wire.MAC(v)
			}
		case unix.IFLA_MTU:
			return number(v, &l.MTU)
		case unix.IFLA_MASTER:
			return number(v, &l.Master)
		case unix.IFLA_LINK:
			return number(v, &l.Parent)
		case unix.IFLA_LINK_NETNSID:
			return number(v, &l.Netns)
		case unix.IFLA_XDP:
			return attributes(v, func(typ uint16, v []byte) error {
				if typ == unix.IFLA_XDP_PROG_ID {
					return number(v, &l.Program)
				}
				return nil
			})
		case unix.IFLA_LINKINFO:
			return decodeLinkInfo(v, &l)
		}
		return nil
	})
	if l.Parent == l.Index {
		l.Parent = 0 // a tunnel without a lower device names itself
	}
	return l, true, err
}

// decodeLinkInfo reads IFLA_LINKINFO: the kind of a link, what is particular to that kind, and its part in a bond.
func decodeLinkInfo(b []byte, l *Link) error {
	var data, member []byte
	var master string
	err := attributes(b, func(typ uint16, v []byte) error {
		switch typ {
		case unix.IFLA_INFO_KIND:
			l.Kind = text(v)
		case unix.IFLA_INFO_DATA:
			data = v
		case unix.IFLA_INFO_SLAVE_KIND:
			master = text(v)
		case unix.IFLA_INFO_SLAVE_DATA:
			member = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	if master == KindBond {
		err = attributes(member, func(typ uint16, v []byte) error {
			if typ == unix.IFLA_BOND_SLAVE_STATE && len(v) > 0 {
				l.BondBackup = v[0] != 0
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return attributes(data, func(typ uint16, v []byte) error {
		switch {
		case l.Kind == KindVLAN && typ == unix.IFLA_VLAN_ID && len(v) >= 2:
			l.VLAN = binary.NativeEndian.Uint16(v)
		case l.Kind == KindVLAN && typ == unix.IFLA_VLAN_PROTOCOL && len(v) >= 2:
			l.VLANProtocol = binary.BigEndian.Uint16(v)
		case l.Kind == KindBond && typ == unix.IFLA_BOND_MODE && len(v) >= 1:
			l.BondMode = v[0]
		case l.Kind == KindBond && typ == unix.IFLA_BOND_ACTIVE_SLAVE:
			return number(v, &l.BondActive)
		case (l.Kind == KindMacvlan || l.Kind == KindMacvtap) && typ == iflaMacvlanMode && len(v) >= 4:
			l.MacvlanMode = binary.NativeEndian.Uint32(v)
		}
		return nil
	})
}

// iflaMacvlanMode is IFLA_MACVLAN_MODE of linux/if_link.h.
const iflaMacvlanMode = 1

// decodeAddress reads RTM_NEWADDR.
func decodeAddress(b []byte) (a Address, ok bool, err error) {
	if len(b) < unix.SizeofIfAddrmsg {
		return a, false, errShort
	}
	if b[0] != unix.AF_INET {
		return a, false, nil
	}
	bits, flags := int(b[1]), uint32(b[2])
	a.Scope, a.Interface = b[3], int(int32(binary.NativeEndian.Uint32(b[4:])))
	var peer netip.Addr
	err = attributes(b[unix.SizeofIfAddrmsg:], func(typ uint16, v []byte) error {
		switch typ {
		case unix.IFA_LOCAL:
			return address(v, &a.Local)
		case unix.IFA_ADDRESS:
			return address(v, &peer)
		case unix.IFA_BROADCAST:
			return address(v, &a.Broadcast)
		case unix.IFA_FLAGS:
			if len(v) >= 4 {
				flags = binary.NativeEndian.Uint32(v)
			}
		}
		return nil
	})
	if err != nil {
		return a, false, err
	}
	if !a.Local.IsValid() {
		a.Local = peer
	}
	if !peer.IsValid() {
		peer = a.Local
	}
	if !peer.IsValid() {
		return a, false, errors.New("an address message without an address")
	}
	a.Secondary = flags&unix.IFA_F_SECONDARY != 0
	if a.Prefix, err = peer.Prefix(bits); err != nil {
		return a, false, err
	}
	return a, true, nil
}

// decodeRoute reads RTM_NEWROUTE; ok is false for entries of the routing cache.
func decodeRoute(b []byte) (r Route, ok bool, err error) {
	if len(b) < unix.SizeofRtMsg {
		return r, false, errShort
	}
	if b[0] != unix.AF_INET || binary.NativeEndian.Uint32(b[8:])&unix.RTM_F_CLONED != 0 {
		return r, false, nil
	}
	bits, target := int(b[1]), netip.IPv4Unspecified()
	r = Route{TOS: b[3], Table: uint32(b[4]), Protocol: b[5], Scope: b[6], Type: RouteType(b[7])}
	single := NextHop{Weight: 1}
	single.setFlags(binary.NativeEndian.Uint32(b[8:]))
	several := false
	err = attributes(b[unix.SizeofRtMsg:], func(typ uint16, v []byte) error {
		switch typ {
		case unix.RTA_TABLE:
			if len(v) >= 4 {
				r.Table = binary.NativeEndian.Uint32(v)
			}
		case unix.RTA_DST:
			return address(v, &target)
		case unix.RTA_PRIORITY:
			if len(v) >= 4 {
				r.Metric = binary.NativeEndian.Uint32(v)
			}
		case unix.RTA_PREFSRC:
			return address(v, &r.Source)
		case unix.RTA_METRICS:
			return attributes(v, func(typ uint16, v []byte) error {
				switch typ {
				case unix.RTAX_MTU:
					return number(v, &r.MTU)
				case unix.RTAX_ADVMSS:
					return number(v, &r.AdvMSS)
				}
				return nil
			})
		case unix.RTA_MULTIPATH:
			several = true
			return decodeHops(v, &r)
		case unix.RTA_OIF:
			return number(v, &single.Interface)
		default:
			return single.attribute(typ, v)
		}
		return nil
	})
	if err != nil {
		return r, false, err
	}
	if !several && single.Interface != 0 {
		r.Hops = []NextHop{single}
	}
	if r.Prefix, err = target.Prefix(bits); err != nil {
		return r, false, err
	}
	return r, true, nil
}

// decodeHops reads the list of a multipath route (struct rtnexthop).
func decodeHops(b []byte, r *Route) error {
	for len(b) >= unix.SizeofRtNexthop {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			return fmt.Errorf("next hop of %d bytes in %d", n, len(b))
		}
		h := NextHop{Weight: int(b[3]) + 1, Interface: int(int32(binary.NativeEndian.Uint32(b[4:])))}
		h.setFlags(uint32(b[2]))
		if err := attributes(b[unix.SizeofRtNexthop:n], h.attribute); err != nil {
			return err
		}
		r.Hops = append(r.Hops, h)
		b = b[min((n+3)&^3, len(b)):]
	}
	return nil
}

func (h *NextHop) setFlags(f uint32) {
	h.Dead, h.OnLink = f&unix.RTNH_F_DEAD != 0, f&unix.RTNH_F_ONLINK != 0
}

// attribute reads an attribute that a route with one next hop has itself, and a multipath route has in each next hop.
func (h *NextHop) attribute(typ uint16, v []byte) error {
	switch typ {
	case unix.RTA_GATEWAY:
		return address(v, &h.Gateway)
	case unix.RTA_VIA, unix.RTA_ENCAP, unix.RTA_ENCAP_TYPE:
		h.Unsupported = true
	}
	return nil
}

// decodeNeighbour reads RTM_NEWNEIGH and RTM_DELNEIGH; ok is false for proxy entries.
func decodeNeighbour(b []byte) (n Neighbour, ok bool, err error) {
	if len(b) < unix.SizeofNdMsg {
		return n, false, errShort
	}
	if b[0] != unix.AF_INET || b[10]&unix.NTF_PROXY != 0 {
		return n, false, nil
	}
	n.Interface = int(int32(binary.NativeEndian.Uint32(b[4:])))
	n.State = State(binary.NativeEndian.Uint16(b[8:]))
	err = attributes(b[unix.SizeofNdMsg:], func(typ uint16, v []byte) error {
		switch typ {
		case unix.NDA_DST:
			return address(v, &n.Addr)
		case unix.NDA_LLADDR:
			if len(v) == len(n.MAC) {
				n.MAC = wire.MAC(v)
			}
		}
		return nil
	})
	return n, n.Addr.IsValid(), err
}

// decodeRule reports whether a routing rule is not one of the three that every host has.
func decodeRule(b []byte) (foreign bool, err error) {
	if len(b) < unix.SizeofRtMsg {
		return false, errShort
	}
	if b[0] != unix.AF_INET {
		return false, nil
	}
	// struct fib_rule_hdr: family, dst_len, src_len, tos, table, 2 reserved, action, flags.
	plain := b[1] == 0 && b[2] == 0 && b[3] == 0 && b[7] == unix.FR_ACT_TO_TBL
	table, priority := uint32(b[4]), uint32(0)
	err = attributes(b[unix.SizeofRtMsg:], func(typ uint16, v []byte) error {
		switch typ {
		case unix.FRA_TABLE:
			if len(v) >= 4 {
				table = binary.NativeEndian.Uint32(v)
			}
		case unix.FRA_PRIORITY:
			if len(v) >= 4 {
				priority = binary.NativeEndian.Uint32(v)
			}
		case unix.FRA_SUPPRESS_PREFIXLEN, unix.FRA_SUPPRESS_IFGROUP:
			plain = plain && len(v) >= 4 && binary.NativeEndian.Uint32(v) == 1<<32-1 // -1: off
		case unix.FRA_PROTOCOL, unix.FRA_UNSPEC, unix.FRA_PAD:
		default:
			plain = false // a condition
		}
		return nil
	})
	switch {
	case !plain:
	case priority == 0 && table == unix.RT_TABLE_LOCAL, priority == 32766 && table == unix.RT_TABLE_MAIN,
		priority == 32767 && table == unix.RT_TABLE_DEFAULT:
		return false, err
	}
	return true, err
}

// text is an attribute that is a string, up to its NUL.
func text(v []byte) string {
	for i, c := range v {
		if c == 0 {
			return string(v[:i])
		}
	}
	return string(v)
}

// number reads an attribute that is a 32-bit number of the machine.
func number(v []byte, to *int) error {
	if len(v) < 4 {
		return errShort
	}
	*to = int(int32(binary.NativeEndian.Uint32(v)))
	return nil
}

// address reads an attribute that is an IPv4 address.
func address(v []byte, to *netip.Addr) error {
	if len(v) != 4 {
		return fmt.Errorf("IPv4 address of %d bytes", len(v))
	}
	*to = netip.AddrFrom4([4]byte(v))
	return nil
}
