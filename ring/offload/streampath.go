package offload

import (
	"fmt"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// streamInterface is the interface by which a TCP socket's segments travel: that of its device, or of its address; 0 for a wildcard, and for
// an interface that is none of the ring's.
func (d *driver) streamInterface(s *ring.Socket) int {
	index := d.nics.CurrentIndex(s.Device())
	if index == 0 {
		index, _ = d.below.snapshot().Local(s.LocalAddr().Addr())
	}
	if !d.nics.Has(index) {
		return 0
	}
	return index
}

// streamPath says by which links a TCP socket's segments travel. Its Tier stays bypass while no link carries them: no socket of the kernel has
// the connection. Lost is the reason then.
func (d *driver) streamPath(s *ring.Socket) ring.Path {
	p := ring.Path{Tier: ring.TierBypass, Kind: d.Kind()}
	add := func(r link.Reason) {
		if !slices.Contains(p.Reasons, ring.Reason(r)) {
			p.Reasons = append(p.Reasons, ring.Reason(r))
		}
	}
	index := d.streamInterface(s)
	carried, lost := 0, ""
	for _, x := range d.nics.Statuses() {
		if index != 0 && x.IfIndex != index {
			continue
		}
		for _, i := range x.Places {
			lp := d.links[i].path()
			for _, r := range lp.Reasons {
				add(r)
			}
			var properties []string
			if x.Interface.VLAN != 0 {
				properties = append(properties, fmt.Sprintf("VLAN %d", x.Interface.VLAN))
			}
			if x.Inactive {
				properties = append(properties, "inactive")
			}
			p.Links = append(p.Links, lp.With(properties...))
		}
		for _, r := range x.Interface.Path {
			add(r)
		}
		for _, r := range []link.Reason{x.Unguarded, x.Unlisted} {
			if r.Code != "" {
				add(r)
			}
		}
		switch {
		case x.Why.Code != "":
			add(x.Why)
			lost = x.Why.Code
			continue
		case x.HandedOver:
			add(streamNoQueue(x.Interface.Name))
			lost = "ring.no_queue"
			continue
		case x.Idle.Code != "":
			add(x.Idle)
		}
		carried++
	}
	for _, b := range d.nics.LostBonds() {
		if index == 0 || index == b.IfIndex {
			add(b.Why)
			lost = b.Why.Code
		}
	}
	for _, r := range []ring.Reason{d.tcp.icmp.missing, d.tcp.unrecorded, d.tcp.moves.refused[s]} {
		if r.Code != "" {
			p.Reasons = append(p.Reasons, r)
		}
	}
	if carried == 0 && d.below.memoryHost == nil {
		if p.Lost = lost; lost == "" {
			p.Lost = "offload.unknown"
		}
	}
	if claim := d.tcp.streams.ClaimOf(s); claim != 0 {
		if c := d.tcp.claims.of(claim); c.refused.Code != "" {
			p.Reasons = append(p.Reasons, c.refused)
			if c.held.Len() == 0 {
				p.Lost = c.refused.Code
			}
		}
	}
	return p
}

// streamNoQueue is the reason in the path of a TCP socket whose ring has no queue of an interface.
func streamNoQueue(name string) link.Reason {
	return link.Reason{Code: "ring.no_queue", Text: "other rings serve all queues of " + name + ": this one could not answer there, and claims no TCP"}
}

// notifyStreamPaths reports PathChanged for the TCP sockets on interfaces that have changed.
func (d *driver) notifyStreamPaths(k *ring.Sink) {
	if d.tcp.streams == nil {
		return
	}
	d.tcp.streams.EachSocket(func(s *ring.Socket) {
		index := d.streamInterface(s)
		claim := d.tcp.streams.ClaimOf(s)
		if index == 0 || slices.Contains(d.paths.changed, index) || claim != 0 && d.tcp.claims.of(claim).notifyPath {
			k.PathChanged(s)
		}
	})
	d.tcp.claims.clearNotes()
}

// StreamRefusal is why a ring cannot carry a new TCP connection, or a listener, on an interface for now: it has no queue there, or the interface
// is lost. The zero Reason if it can, and for interfaces that are none of the ring's. Owner only, or anyone before the first Poll.
func StreamRefusal(drv ring.Driver, ifIndex int) ring.Reason {
	d, ok := drv.(*driver)
	if !ok {
		return ring.Reason{}
	}
	for _, x := range d.nics.Statuses() {
		switch {
		case x.IfIndex != ifIndex:
		case x.Why.Code != "":
			return ring.Reason(x.Why)
		case x.HandedOver:
			return ring.Reason(streamNoQueue(x.Interface.Name))
		default:
			return ring.Reason{}
		}
	}
	return ring.Reason{}
}

// LinkReasons are the reasons of the paths of a ring's links on an interface. Owner only.
func LinkReasons(drv ring.Driver, ifIndex int) (list []ring.Reason) {
	d, ok := drv.(*driver)
	if !ok {
		return nil
	}
	for _, x := range d.nics.Statuses() {
		if x.IfIndex != ifIndex {
			continue
		}
		for _, i := range x.Places {
			for _, r := range d.links[i].path().Reasons {
				list = append(list, ring.Reason(r))
			}
		}
	}
	return list
}
