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

// target is where flows of the link are claimed.
func (l *Link) target() steering.Target { return steering.Target{Claimer: l.Steering, VLAN: l.VLAN} }

// wants is what a socket is to have of the links.
func (d *driver) wants(e *entry) (w steering.Wants) {
	w = d.wantsButGroups(e)
	groups := e.groups.Groups()
	w.Groups = make([]steering.Group, len(groups))
	for i, g := range groups {
		w.Groups[i] = d.wantsGroup(e, g)
	}
	return w
}

func (d *driver) wantsButGroups(e *entry) steering.Wants {
	w := steering.Wants{Protocol: link.UDP, Local: e.s.LocalAddr(), Remote: e.s.RemoteAddr(), IfIndex: e.home, Kernel: d.cedesPort(e)}
	if d.config.ThreeTuple {
		w.Remote = netip.AddrPort{}
	}
	if device := e.s.Device(); device != 0 {
		w.IfIndex = d.nics.Present(device) // also one that is none of the ring's
	}
	return w
}

func (d *driver) wantsGroup(e *entry, g shadow.Group) steering.Group {
	w := steering.Group{Addr: netip.AddrFrom4(g.Addr), IfIndex: int(g.IfIndex), Kernel: d.cedes(e, g)}
	if g.Source != ([4]byte{}) {
		w.Source = netip.AddrFrom4(g.Source)
	}
	return w
}

// reclaim makes the claims those of the socket. One that is refused leaves the packets to the kernel, and so to the shadow.
func (d *driver) reclaim(e *entry) {
	if len(d.claims.Targets()) == 0 {
		return
	}
	d.tellMembers(e)
	d.tellPort(e)
	e.reasons = slices.DeleteFunc(e.reasons, func(r ring.Reason) bool { return r.Code == "xdp.not_claimed" })
	w := d.wants(e)
	added, refused := d.claims.Set(&e.claims, d.claims.Claims(&w, d.nics))
	if added {
		d.shadows.Claimed()
	}
	for _, err := range refused {
		e.notClaimed(err)
	}
}

// notClaimed says in the socket's path why a flow is not claimed.
func (e *entry) notClaimed(err error) {
	if r := (ring.Reason{Code: "xdp.not_claimed", Text: err.Error()}); !slices.Contains(e.reasons, r) {
		e.reasons = append(e.reasons, r)
	}
}

// reclaimGroups is reclaim for groups that were left and joined.
func (d *driver) reclaimGroups(e *entry, left, joined []shadow.Group) {
	if len(d.claims.Targets()) == 0 {
		return
	}
	w := d.wantsButGroups(e)
	for _, g := range left {
		x := d.wantsGroup(e, g)
		for _, c := range d.claims.GroupClaims(&w, &x, d.nics) {
			if !d.claims.Remove(&e.claims, c) { // refused, of which the path tells
				d.reclaim(e)
				return
			}
		}
	}
	for _, g := range joined {
		x := d.wantsGroup(e, g)
		for _, c := range d.claims.GroupClaims(&w, &x, d.nics) {
			if e.claims.Has(c) {
				continue
			}
			if err := d.claims.Add(&e.claims, c); err != nil {
				e.notClaimed(err)
				continue
			}
			d.shadows.Claimed()
		}
	}
}

// claimAll claims at a target that is new what the sockets want there. On an error nothing is claimed there.
func (d *driver) claimAll(at steering.Target) (err error) {
	var homed []*entry
	d.table.each(func(e *entry) {
		if !e.own || err != nil {
			return
		}
		if e.home == 0 {
			if e.home = d.homeOf(e); e.home != 0 {
				homed = append(homed, e)
			}
		}
		w := d.wants(e)
		err = d.claims.AddAt(&e.claims, at, d.claims.Claims(&w, d.nics))
	})
	if err == nil {
		return nil
	}
	err = errors.Join(err, d.releaseAt(at))
	for _, e := range homed {
		e.home = 0
	}
	return err
}

// releaseAt releases what is claimed at a target.
func (d *driver) releaseAt(at steering.Target) (err error) {
	d.table.each(func(e *entry) {
		if e := d.claims.ReleaseAt(&e.claims, at); e != nil {
			err = e
		}
	})
	return err
}

// hasReason reports whether a code is among the socket's own reasons.
func (e *entry) hasReason(code string) bool {
	return slices.ContainsFunc(e.reasons, func(r ring.Reason) bool { return r.Code == code })
}

// isUnclaimed reports whether the steering program takes nothing for the socket because its claims were refused.
func (e *entry) isUnclaimed() bool {
	return e.claims.Len() == 0 && e.hasReason("xdp.not_claimed")
}
