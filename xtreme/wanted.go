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

// wish is what says by which interfaces the packets of a socket may come.
type wish struct {
	device int        // of BindToDevice
	local  netip.Addr // bound to
	groups []ring.Membership
	named  []conf.Interface // the only ones that may be opened; none: all
}

// wanted lists those interfaces: that of the device, of the local address, of the groups; for a wildcard without any of them all that are
// up. Those that cannot be offloaded are not among them, but the reasons are.
func (w *wish) wanted(snap *host.Snapshot) (list []int, why []ring.Reason) {
	add := func(index int) {
		if r := w.decide(snap, index); r.Code != "" {
			why = append(why, r)
		} else if !slices.Contains(list, index) {
			list = append(list, index)
		}
	}
	byRoute := func(group netip.Addr) {
		way, err := snap.Route(host.Query{Target: group})
		var none *host.RouteError
		switch {
		case err == nil:
			add(way.Interface)
		case errors.As(err, &none):
			why = append(why, ring.Reason{Code: none.Code, Text: "no interface is known for " + group.String() + ": " + none.Error()})
		}
	}
	switch {
	case w.device != 0:
		add(w.device)
		return list, why
	case !w.local.IsUnspecified() && !w.local.IsMulticast():
		index, ok := interfaceOf(snap, w.local)
		if !ok {
			return nil, []ring.Reason{{Code: "link.none", Text: fmt.Sprintf("no interface is known to have %v", w.local)}}
		}
		add(index)
		return list, why
	}
	for _, m := range w.groups {
		if w.local.IsMulticast() && m.Group != w.local {
			continue
		}
		if m.Interface != 0 {
			add(m.Interface)
		} else {
			byRoute(m.Group)
		}
	}
	switch {
	case len(w.groups) > 0:
	case w.local.IsMulticast():
		byRoute(w.local)
	default:
		w.all(snap, add)
		why = append(why, w.unknown(snap)...)
	}
	return list, why
}

// unknown are reasons for the named interfaces that there are not.
func (w *wish) unknown(snap *host.Snapshot) (why []ring.Reason) {
	for _, i := range w.named {
		if _, ok := snap.LinkByName(i.Name); !ok {
			why = append(why, ring.Reason{Code: "link.none", Text: "there is no interface " + i.Name + ", which is among those that may be opened"})
		}
	}
	return why
}

// all is the interfaces of a wildcard: the named ones if any are named.
func (w *wish) all(snap *host.Snapshot, add func(int)) {
	for _, l := range snap.Links() {
		if w.mayOpen(l.Name) {
			add(l.Index)
		}
	}
}

func (w *wish) mayOpen(name string) bool {
	return len(w.named) == 0 || slices.ContainsFunc(w.named, func(i conf.Interface) bool { return i.Name == name })
}

// decide reports why an interface cannot be offloaded, if so.
func (w *wish) decide(snap *host.Snapshot, index int) ring.Reason {
	l, ok := snap.Link(index)
	if !ok {
		return ring.Reason{Code: "link.none", Text: fmt.Sprintf("there is no interface with index %d", index)}
	}
	p := snap.Path(index)
	switch {
	case !p.Offload:
		return ring.Reason{Code: p.Code, Text: p.Text}
	case !w.mayOpen(l.Name):
		return ring.Reason{Code: "offload.not_named", Text: l.Name + " is not among the interfaces that may be opened"}
	case !l.Up():
		return ring.Reason{Code: "link.down", Text: l.Name + " is down"}
	}
	return ring.Reason{}
}

// interfaceOf is the interface that has a local address; of all 127.0.0.0/8 it is loopback, of a subnet's broadcast address the
// subnet's.
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
