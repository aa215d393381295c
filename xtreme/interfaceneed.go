package xtreme

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
)

// interfaceNeed has what decides by which interfaces packets for a socket can arrive.
type interfaceNeed struct {
	device int        // index of the interface of BindToDevice; 0: none
	local  netip.Addr // the address that the socket is bound to
	groups []ring.Membership
	named  []conf.Interface // the only interfaces that may be opened; none: all

	refused func(name string, why ring.Reason) // is called for each interface of a kind that cannot be offloaded; nil: nothing is
}

// interfaces lists the indexes of the interfaces that an offloaded ring must have for the socket: that of the device; else that of the local
// address; else those of the groups; for a wildcard address without any of these all interfaces that are up. An interface that cannot be
// offloaded is left out, with a reason.
func (n *interfaceNeed) interfaces(snap *host.Snapshot) (list []int, why []ring.Reason) {
	add := func(index int) {
		if r := n.unusable(snap, index); r.Code != "" {
			why = append(why, r)
		} else if !slices.Contains(list, index) {
			list = append(list, index)
		}
	}
	addByRoute := func(group netip.Addr) {
		route, err := snap.Route(host.Query{Target: group})
		var none *host.RouteError
		switch {
		case err == nil:
			add(route.Interface)
		case errors.As(err, &none):
			why = append(why, ring.Reason{Code: none.Code, Text: "no interface is known for " + group.String() + ": " + none.Error()})
		}
	}
	switch {
	case n.device != 0:
		add(n.device)
		return list, why
	case !n.local.IsUnspecified() && !n.local.IsMulticast():
		index, ok := interfaceOf(snap, n.local)
		if !ok {
			return nil, []ring.Reason{{Code: "link.none", Text: fmt.Sprintf("no interface is known to have %v", n.local)}}
		}
		add(index)
		return list, why
	}
	for _, m := range n.groups {
		if n.local.IsMulticast() && m.Group != n.local {
			continue // a socket that is bound to a group receives that group alone
		}
		if m.Interface != 0 {
			add(m.Interface)
		} else {
			addByRoute(m.Group)
		}
	}
	switch {
	case len(n.groups) > 0:
	case n.local.IsMulticast():
		addByRoute(n.local)
	default:
		n.addAll(snap, add)
		why = append(why, n.missing(snap)...)
	}
	return list, why
}

// missing returns a reason for each interface that the settings name and that does not exist.
func (n *interfaceNeed) missing(snap *host.Snapshot) (why []ring.Reason) {
	for _, i := range n.named {
		if _, ok := snap.LinkByName(i.Name); !ok {
			why = append(why, missingReason(i.Name))
		}
	}
	return why
}

// addAll calls add for the interfaces of a wildcard address: all, or, if the settings name some, those.
func (n *interfaceNeed) addAll(snap *host.Snapshot, add func(int)) {
	for _, l := range snap.Links() {
		if n.mayOpen(l.Name) {
			add(l.Index)
		}
	}
}

// mayOpen reports whether the settings allow that an interface is opened.
func (n *interfaceNeed) mayOpen(name string) bool {
	return len(n.named) == 0 || slices.ContainsFunc(n.named, func(i conf.Interface) bool { return i.Name == name })
}

// unusable returns why an interface cannot be offloaded; the zero Reason if it can.
func (n *interfaceNeed) unusable(snap *host.Snapshot, index int) ring.Reason {
	l, ok := snap.Link(index)
	if !ok {
		return ring.Reason{Code: "link.none", Text: fmt.Sprintf("there is no interface with index %d", index)}
	}
	p := snap.Path(index)
	switch {
	case !p.Offload:
		r := ring.Reason{Code: p.Code, Text: p.Text}
		if n.refused != nil {
			n.refused(l.Name, r)
		}
		return r
	case !n.mayOpen(l.Name):
		return ring.Reason{Code: "offload.not_named", Text: l.Name + " is not among the interfaces that may be opened"}
	case !l.Up():
		return downReason(l.Name)
	}
	return ring.Reason{}
}

// downReason is the reason for an interface that was down when a socket needed it. It stays in the path while the ring does not have the
// interface, which may be up by then.
func downReason(name string) ring.Reason {
	return ring.Reason{Code: "link.down", Text: name + " was down when the socket asked for it"}
}

// missingReason is the reason for an interface that the settings name and that did not exist when a socket needed it.
func missingReason(name string) ring.Reason {
	return ring.Reason{Code: "link.none", Text: "there was no interface " + name + ", which is among those that may be opened, when the socket asked for it"}
}

// interfaceOf returns the index of the interface by which packets for a local address arrive: the one that has the address; loopback for all
// of 127.0.0.0/8; that of the subnet for a subnet's broadcast address.
func interfaceOf(snap *host.Snapshot, a netip.Addr) (index int, ok bool) {
	if index, ok = snap.Local(a); ok {
		return index, true
	}
	for _, l := range snap.Links() {
		if a.IsLoopback() && l.Loopback() || !l.Loopback() && snap.IsBroadcast(l.Index, a) {
			return l.Index, true
		}
	}
	return 0, false
}
