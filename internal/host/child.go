package host

import "fmt"

// Child is an interface that stands on another one and receives frames of it: a VLAN, a macvlan, an ipvlan. It may be in another network
// namespace, such as a container's.
type Child struct {
	Parent int // index of the one that it stands on
	Name   string
	Kind   string // KindVLAN, KindMacvlan …
	VLAN   uint16 // of a KindVLAN
	Netns  int    // the kernel's id of its namespace; -1: this one
}

// String is the child in words.
func (c Child) String() string {
	s := c.Kind + " " + c.Name
	if c.Kind == KindVLAN {
		s += fmt.Sprintf(" (%d)", c.VLAN)
	}
	if c.Netns >= 0 {
		s += fmt.Sprintf(" in the network namespace with the id %d", c.Netns)
	}
	return s
}

// isChild reports whether interfaces of this kind receive frames of their parent.
func isChild(kind string) bool {
	switch kind {
	case KindVLAN, KindMacvlan, KindMacvtap, KindIPvlan, kindIPvtap:
		return true
	}
	return false
}

// Children are the interfaces that stand on this one. Those in other namespaces are known if the namespace may be read (CAP_NET_ADMIN in it) and
// has an id here: it has when the interface was made here and then moved there, and gets one if it is that of a process or of `ip netns`.
func (s *Snapshot) Children(index int) (list []Child) {
	for i := range s.links {
		if l := &s.links[i]; l.Parent == index && l.Netns < 0 && isChild(l.Kind) {
			list = append(list, Child{index, l.Name, l.Kind, l.VLAN, -1})
		}
	}
	for _, c := range s.remoteChildren {
		if c.Parent == index {
			list = append(list, c)
		}
	}
	return list
}
