package steering

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Wants is what a socket wants to have of the links: its own address on the interface that it names, or on all of them, and each
// group on the interface that it was joined on.
type Wants struct {
	Protocol uint8
	Local    netip.AddrPort
	Remote   netip.AddrPort // the peer that it is connected to; invalid where all datagrams to the address are claimed
	IfIndex  int            // of the interface that it names; 0: none
	Kernel   bool           // its own address is left to the kernel
	Groups   []Group
}

// Group is a group that the socket has joined.
type Group struct {
	Addr    netip.Addr
	Source  netip.Addr // invalid: from any
	IfIndex int
	Kernel  bool // it is left to the kernel
}

// Interfaces is what is known of the links' interfaces.
type Interfaces interface {
	// Serves reports whether the frames of a target are those of an interface.
	Serves(at Target, ifIndex int) bool
	// CanClaim reports whether anything may be claimed at a target.
	CanClaim(at Target) bool
}

// Claims lists what the socket is to have, at all targets.
func (t *Table) Claims(w *Wants, on Interfaces) (list []Claim) {
	has := map[Claim]bool{}
	for _, at := range t.targets {
		if !on.CanClaim(at) {
			continue
		}
		if !w.Local.Addr().IsMulticast() && !w.Kernel && (w.IfIndex == 0 || on.Serves(at, w.IfIndex)) {
			list = append(list, Claim{at, link.Flow{Protocol: w.Protocol, VLAN: at.VLAN, Local: w.Local, Remote: w.Remote}})
		}
		for i := range w.Groups {
			if c, ok := w.groupClaim(at, &w.Groups[i], on); ok && !has[c] {
				has[c] = true
				list = append(list, c)
			}
		}
	}
	return list
}

// GroupClaims lists what the socket wants of one of its groups.
func (t *Table) GroupClaims(w *Wants, g *Group, on Interfaces) (list []Claim) {
	for _, at := range t.targets {
		if !on.CanClaim(at) {
			continue
		}
		if c, ok := w.groupClaim(at, g, on); ok {
			list = append(list, c)
		}
	}
	return list
}

// groupClaim is what the socket wants of a group at a target, if anything: nothing when it is bound to another address.
func (w *Wants) groupClaim(at Target, g *Group, on Interfaces) (c Claim, ok bool) {
	bound := w.Local.Addr()
	if g.Kernel || !bound.IsUnspecified() && bound != g.Addr || !on.Serves(at, g.IfIndex) {
		return c, false
	}
	c = Claim{at, link.Flow{Protocol: w.Protocol, VLAN: at.VLAN, Local: netip.AddrPortFrom(g.Addr, w.Local.Port())}}
	if g.Source.IsValid() {
		c.Remote = netip.AddrPortFrom(g.Source, 0)
	}
	return c, true
}
