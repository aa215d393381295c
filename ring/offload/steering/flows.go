package steering

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// SocketFlows are the flows that must be redirected for a socket: its own address on the interface that it is bound to, or on all of them, and
// each group on the interface that it was joined on.
type SocketFlows struct {
	Protocol      uint8
	Local         netip.AddrPort
	Remote        netip.AddrPort // the peer that it is connected to; invalid where all datagrams to the address are claimed
	IfIndex       int            // of the interface that it names; 0: none
	LeaveToKernel bool           // its own address is left to the kernel
	Groups        []Group
}

// Group is a group that the socket has joined.
type Group struct {
	Addr          netip.Addr
	Source        netip.Addr // invalid: from any
	IfIndex       int
	LeaveToKernel bool // it is left to the kernel
}

// Interfaces answers questions about the interfaces of targets; nic.Attachments does.
type Interfaces interface {
	// Serves reports whether the frames of a target are those of an interface.
	Serves(at Target, ifIndex int) bool
	// CanClaim reports whether anything may be claimed at a target.
	CanClaim(at Target) bool
}

// Claims lists the claims that the socket is to have, at all targets.
func (t *Table) Claims(w *SocketFlows, on Interfaces) (list []Claim) {
	has := map[Claim]bool{}
	for _, at := range t.targets {
		if !on.CanClaim(at) {
			continue
		}
		if w.ownAddress() && (w.IfIndex == 0 || on.Serves(at, w.IfIndex)) {
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

// ownAddress reports whether the socket's own address is to be claimed: a socket that is connected to a group is sent nothing there, because
// no datagram comes from a group.
func (w *SocketFlows) ownAddress() bool {
	return !w.Local.Addr().IsMulticast() && !w.Remote.Addr().IsMulticast() && !w.LeaveToKernel
}

// GroupClaims lists the claims that the socket is to have for one of its groups.
func (t *Table) GroupClaims(w *SocketFlows, g *Group, on Interfaces) (list []Claim) {
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

// groupClaim is the claim for a group at a target; none if the socket is bound to another address, the group is left to the kernel, or it was
// joined on another interface.
func (w *SocketFlows) groupClaim(at Target, g *Group, on Interfaces) (c Claim, ok bool) {
	bound := w.Local.Addr()
	if g.LeaveToKernel || !bound.IsUnspecified() && bound != g.Addr || !on.Serves(at, g.IfIndex) {
		return c, false
	}
	c = Claim{at, link.Flow{Protocol: w.Protocol, VLAN: at.VLAN, Local: netip.AddrPortFrom(g.Addr, w.Local.Port())}}
	if g.Source.IsValid() {
		c.Remote = netip.AddrPortFrom(g.Source, 0)
	}
	return c, true
}
