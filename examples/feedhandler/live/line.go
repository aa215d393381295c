package live

import (
	"fmt"
	"net/netip"
	"strings"
)

// Line is where a line is to be joined.
type Line struct {
	Group     netip.AddrPort
	Interface string
	Source    netip.Addr // only from there; the zero Addr is from anywhere
}

// ParseLine reads group:port@interface[/source].
func ParseLine(s string) (l Line, err error) {
	bad := func(why string) (Line, error) {
		return l, fmt.Errorf("line %q: %s; want GROUP:PORT@INTERFACE[/SOURCE], such as 239.1.1.1:14340@eth0", s, why)
	}
	group, rest, ok := strings.Cut(s, "@")
	if !ok || rest == "" {
		return bad("no interface")
	}
	if l.Group, err = netip.ParseAddrPort(group); err != nil || !l.Group.Addr().IsMulticast() || l.Group.Port() == 0 {
		return bad("no multicast group and port")
	}
	iface, source, some := strings.Cut(rest, "/")
	if l.Interface = iface; some {
		if l.Source, err = netip.ParseAddr(source); err != nil {
			return bad("no source address")
		}
	}
	return l, nil
}

// String is the line as ParseLine reads it.
func (l Line) String() string {
	s := l.Group.String() + "@" + l.Interface
	if l.Source.IsValid() {
		s += "/" + l.Source.String()
	}
	return s
}

// lineNames are the lines as xtstat shows them.
func lineNames(lines []Line) (names []string) {
	for _, x := range lines {
		names = append(names, x.String())
	}
	return names
}
