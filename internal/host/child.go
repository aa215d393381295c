package host

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

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

// isChild tells whether interfaces of this kind receive frames of their parent.
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
	for _, c := range s.away {
		if c.Parent == index {
			list = append(list, c)
		}
	}
	return list
}

// fetchAway lists the children that are in other namespaces. The kernel tells of changes by notifications about their parent. What cannot be
// read is left out: the tables of this namespace do not depend on it.
func (k *kernel) fetchAway() (list []Child, err error) {
	k.identify()
	ids, err := k.namespaces()
	if errors.Is(err, unix.EINTR) {
		return nil, err // it is read again
	}
	for _, id := range ids {
		links, err := k.linksOf(id)
		if err != nil || len(links) == 0 {
			continue // it may have gone meanwhile, or be closed to us
		}
		own, err := k.ownID()
		if err != nil || own < 0 {
			continue
		}
		for _, l := range links {
			if isChild(l.Kind) && l.Parent != 0 && l.Netns == own && id != own {
				list = append(list, Child{l.Parent, l.Name, l.Kind, l.VLAN, id})
			}
		}
	}
	return list, nil
}

// Of linux/net_namespace.h and linux/if_link.h.
const (
	netnsaID        = 1  // NETNSA_NSID
	netnsaFD        = 3  // NETNSA_FD
	iflaTargetNetns = 46 // IFLA_TARGET_NETNSID
)

// namespaces are the ids that other namespaces have here.
func (k *kernel) namespaces() (ids []int, err error) {
	r := nl.NewNetlinkRequest(unix.RTM_GETNSID, unix.NLM_F_DUMP)
	r.AddRawData(make([]byte, 4)) // struct rtgenmsg, padded
	err = dumpInto(k, "namespaces", r, unix.RTM_NEWNSID, &ids, decodeNamespace)
	return ids, err
}

func decodeNamespace(b []byte) (id int, ok bool, err error) {
	if len(b) < 4 {
		return 0, false, errShort
	}
	id = -1
	err = attributes(b[4:], func(typ uint16, v []byte) error {
		if typ == netnsaID {
			return number(v, &id)
		}
		return nil
	})
	return id, id >= 0, err
}

// ownID is the id that this namespace has for itself, -1 for none: links of other namespaces name their parent's by it.
func (k *kernel) ownID() (int, error) {
	if k.space == nil {
		return -1, nil
	}
	r := nl.NewNetlinkRequest(unix.RTM_GETNSID, 0)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: k.dump}
	r.AddRawData(append(make([]byte, 4), nl.NewRtAttr(netnsaFD, nl.Uint32Attr(uint32(k.space.Fd()))).Serialize()...))
	messages, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNSID)
	if err != nil {
		return -1, fmt.Errorf("host: reading the namespace's id: %w", err)
	}
	for _, m := range messages {
		if id, ok, err := decodeNamespace(m); ok || err != nil {
			return id, err
		}
	}
	return -1, nil
}

// linksOf are the links of another namespace.
func (k *kernel) linksOf(id int) (links []Link, err error) {
	r := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	r.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	r.AddData(nl.NewRtAttr(iflaTargetNetns, binary.NativeEndian.AppendUint32(nil, uint32(id))))
	r.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(rtextFilterSkipStats)))
	err = dumpInto(k, "links of a namespace", r, unix.RTM_NEWLINK, &links, decodeLink)
	if errors.Is(err, unix.EINTR) {
		return links, nil // a change is told of, and then they are read again
	}
	return links, err
}
