package offload

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
)

// wantedFlows are the flows that the steering program must redirect for a socket: those of its address, and those of its groups.
func (d *driver) wantedFlows(e *entry) (w steering.SocketFlows) {
	w = d.wantedExceptGroups(e)
	for g := range d.joinedGroups(e) {
		w.Groups = append(w.Groups, d.wantedGroup(e, g))
	}
	return w
}

// wantedExceptGroups is wantedFlows without groups.
func (d *driver) wantedExceptGroups(e *entry) steering.SocketFlows {
	w := steering.SocketFlows{Protocol: link.UDP, Local: e.s.LocalAddr(), Remote: e.s.RemoteAddr(), IfIndex: e.boundIf, LeaveToKernel: d.leavesPortToKernel(e)}
	if d.config.ThreeTuple { // one claim for all peers
		w.Remote = netip.AddrPort{}
	}
	if device := e.s.Device(); device != 0 {
		w.IfIndex = d.nics.CurrentIndex(device) // also one that is none of the ring's: then nothing is claimed
	}
	return w
}

// wantedGroup is one group of wantedFlows.
func (d *driver) wantedGroup(e *entry, g shadow.Group) steering.Group {
	w := steering.Group{Addr: netip.AddrFrom4(g.Addr), IfIndex: int(g.IfIndex), LeaveToKernel: d.leavesGroupToKernel(e, g)}
	if g.Source != ([4]byte{}) {
		w.Source = netip.AddrFrom4(g.Source)
	}
	return w
}

// updateClaims makes the socket's claims what wantedFlows says: missing ones are added, others released. Where one is refused the kernel keeps
// the packets, the shadow receives them, and the path says why.
func (d *driver) updateClaims(e *entry) {
	if len(d.claims.Targets()) == 0 { // no link can steer
		return
	}
	// First, because wantedFlows compares what is published with what other sockets of the host have.
	d.publishMembers(e)
	d.publishPort(e)
	e.reasons = slices.DeleteFunc(e.reasons, func(r ring.Reason) bool { return r.Code == "xdp.not_claimed" })
	w := d.wantedFlows(e)
	added, refused := d.claims.Set(&e.claims, d.claims.Claims(&w, d.nics))
	if added {
		d.shadows.HoldLinks()
	}
	for _, err := range refused {
		e.notClaimed(err)
	}
}

// notClaimed adds to the socket's path why a flow is not claimed.
func (e *entry) notClaimed(err error) {
	if r := (ring.Reason{Code: "xdp.not_claimed", Text: err.Error()}); !slices.Contains(e.reasons, r) {
		e.reasons = append(e.reasons, r)
	}
}

// updateGroupClaims is updateClaims for the groups that a call has left and joined: its cost does not grow with the socket's other groups.
func (d *driver) updateGroupClaims(e *entry, left, joined []shadow.Group) {
	if len(d.claims.Targets()) == 0 {
		return
	}
	w := d.wantedExceptGroups(e)
	for _, g := range left {
		x := d.wantedGroup(e, g)
		for _, c := range d.claims.GroupClaims(&w, &x, d.nics) {
			if !d.claims.Remove(&e.claims, c) { // it was refused: the path has a reason to take away
				d.updateClaims(e)
				return
			}
		}
	}
	for _, g := range joined {
		x := d.wantedGroup(e, g)
		for _, c := range d.claims.GroupClaims(&w, &x, d.nics) {
			if e.claims.Has(c) {
				continue
			}
			if err := d.claims.Add(&e.claims, c); err != nil {
				e.notClaimed(err)
				continue
			}
			d.shadows.HoldLinks()
		}
	}
}

// claimAll claims the flows of all sockets at a new target: an interface was opened. On an error nothing is claimed there.
func (d *driver) claimAll(at steering.Target) (err error) {
	var newlyBound []*entry // sockets whose address is on the interface that was opened
	d.table.each(func(e *entry) {
		if !e.inStack || err != nil {
			return
		}
		if e.boundIf == 0 {
			if e.boundIf = d.boundInterface(e); e.boundIf != 0 {
				newlyBound = append(newlyBound, e)
			}
		}
		w := d.wantedFlows(e)
		err = d.claims.AddAt(&e.claims, at, d.claims.Claims(&w, d.nics))
	})
	if err == nil {
		err = d.tcp.claims.addTarget(at)
	}
	if err == nil {
		return nil
	}
	err = errors.Join(err, d.releaseAt(at))
	for _, e := range newlyBound {
		e.boundIf = 0
	}
	return err
}

// releaseAt releases the claims of all sockets at a target: its interface is left.
func (d *driver) releaseAt(at steering.Target) (err error) {
	d.table.each(func(e *entry) {
		if e := d.claims.ReleaseAt(&e.claims, at); e != nil {
			err = e
		}
	})
	return errors.Join(err, d.tcp.claims.removeTarget(at))
}

// hasReason reports whether a code is among the socket's own reasons.
func (e *entry) hasReason(code string) bool {
	return slices.ContainsFunc(e.reasons, func(r ring.Reason) bool { return r.Code == code })
}

// isUnclaimed reports whether the steering program takes nothing for the socket because its claims were refused.
func (e *entry) isUnclaimed() bool {
	return e.claims.Len() == 0 && e.hasReason("xdp.not_claimed")
}
