package offload

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// wanted is a flow, and where a socket wants it. It is claimed there once, however many sockets want it; on interfaces that none of them
// is on it stays with the kernel, whose other sockets may want it.
type wanted struct {
	at nic.Target
	link.Flow
}

// steerLinks finds the steerings of the links. Queues of one interface share theirs: it is spoken to once.
func (d *driver) steerLinks() {
	for i := range d.links {
		if x := (nic.Target{Claimer: d.links[i].Steering, VLAN: d.links[i].VLAN}); x.Claimer != nil && !slices.Contains(d.steers, x) {
			d.steers = append(d.steers, x)
		}
	}
}

// serves tells whether the steering's frames are those of an interface.
func (d *driver) serves(x nic.Target, index int) bool {
	if d.config.Exchange != nil {
		return d.nics.Serves(x, index)
	}
	return slices.ContainsFunc(d.links, func(l Link) bool { return x == nic.Target{Claimer: l.Steering, VLAN: l.VLAN} && l.Index == index })
}

// reclaim makes the claims those of the socket. One that is refused leaves the packets to the kernel, and so to the shadow.
func (d *driver) reclaim(e *entry) {
	if len(d.steers) == 0 {
		return
	}
	d.tellMembers(e)
	d.tellPort(e)
	want, had := d.flows(e), e.flows
	e.reasons = slices.DeleteFunc(e.reasons, func(r ring.Reason) bool { return r.Code == "xdp.not_claimed" })
	has := setOf(had)
	e.flows = nil
	for _, f := range want {
		if has[f] {
			e.flows = append(e.flows, f)
		} else {
			d.claimFor(e, f)
		}
	}
	d.release(missing(had, want))
}

// claimFor claims a flow for the socket, or says in its path why that cannot be.
func (d *driver) claimFor(e *entry, f wanted) {
	if err := d.claim(f); err != nil {
		if r := (ring.Reason{Code: "xdp.not_claimed", Text: err.Error()}); !slices.Contains(e.reasons, r) {
			e.reasons = append(e.reasons, r)
		}
		return
	}
	e.flows = append(e.flows, f)
	d.shadow.first = claimTurns
}

// isUnclaimed tells whether the steering program takes nothing for the socket because its claims were refused.
func (e *entry) isUnclaimed() bool {
	return len(e.flows) == 0 && slices.ContainsFunc(e.reasons, func(r ring.Reason) bool { return r.Code == "xdp.not_claimed" })
}

// flows are what the socket wants to have of the links: its own address on the interface that it names, or on all of them, and each
// group on the interface that it was joined on.
func (d *driver) flows(e *entry) (list []wanted) {
	local, remote := e.s.LocalAddr(), e.s.RemoteAddr()
	if d.config.ThreeTuple {
		remote = netip.AddrPort{}
	}
	home := e.home
	if device := e.s.Device(); device != 0 {
		home = d.nics.Present(device) // also one that is none of the ring's
	}
	has := map[wanted]bool{}
	for _, at := range d.steers {
		if !d.nics.CanClaim(at) {
			continue
		}
		if !local.Addr().IsMulticast() && !d.cedesPort(e) && (home == 0 || d.serves(at, home)) {
			list = append(list, wanted{at, link.Flow{Protocol: link.UDP, VLAN: at.VLAN, Local: local, Remote: remote}})
		}
		for _, g := range e.groups {
			if f, ok := d.groupFlow(at, e, g); ok && !has[f] {
				has[f] = true
				list = append(list, f)
			}
		}
	}
	return list
}

// groupFlow is what the socket wants of a group from a steering, if anything.
func (d *driver) groupFlow(at nic.Target, e *entry, g group) (f wanted, ok bool) {
	local, a := e.s.LocalAddr(), netip.AddrFrom4(g.addr)
	if !local.Addr().IsUnspecified() && local.Addr() != a || !d.serves(at, int(g.iface)) || d.cedes(e, g) || !d.nics.CanClaim(at) {
		return wanted{}, false
	}
	f = wanted{at, link.Flow{Protocol: link.UDP, VLAN: at.VLAN, Local: netip.AddrPortFrom(a, local.Port())}}
	if g.source != ([4]byte{}) {
		f.Remote = netip.AddrPortFrom(netip.AddrFrom4(g.source), 0)
	}
	return f, true
}

func (d *driver) isLink(index int) bool {
	if d.config.Exchange != nil {
		return d.nics.Has(index)
	}
	return slices.ContainsFunc(d.links, func(l Link) bool { return l.Index == index })
}

func (d *driver) claim(f wanted) error {
	if d.claims[f] == 0 {
		if err := f.at.Claim(f.Flow); err != nil {
			return err
		}
	}
	d.claims[f]++
	return nil
}

func (d *driver) release(list []wanted) {
	for _, f := range list {
		if d.claims[f]--; d.claims[f] > 0 {
			continue
		}
		delete(d.claims, f)
		if f.at.Release(f.Flow) != nil {
			d.stats.ReleaseFailures++
		}
	}
}

// claimAll claims from a steering that is new what the sockets want of it. On an error nothing is claimed there.
func (d *driver) claimAll(at nic.Target) (err error) {
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
		for _, f := range missing(d.flows(e), e.flows) {
			if f.at != at {
				continue
			}
			if err = d.claim(f); err != nil {
				return
			}
			e.flows = append(e.flows, f)
		}
	})
	if err == nil {
		return nil
	}
	failures := d.stats.ReleaseFailures
	d.table.each(func(e *entry) {
		e.flows = slices.DeleteFunc(e.flows, func(f wanted) bool {
			if f.at == at {
				d.release([]wanted{f})
			}
			return f.at == at
		})
	})
	for _, e := range homed {
		e.home = 0
	}
	if d.stats.ReleaseFailures > failures {
		err = errors.Join(err, errors.New("offload: a claim could not be given back"))
	}
	return err
}
