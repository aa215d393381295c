package offload

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
)

// The claims of TCP follow the interfaces of the ring: one that is opened later, and one that was lost and is back, has the flows of all
// listeners and connections.

// streamTargets are the targets at which flows of TCP may be claimed: those of interfaces of which the ring has a queue. By others it could not
// answer.
type streamTargets struct{ *nic.Attachments }

// CanClaim reports whether flows of TCP may be claimed at a target.
func (t streamTargets) CanClaim(at steering.Target) bool {
	return t.Attachments.CanClaim(at) && t.Sends(at)
}

// wantedStreamClaims lists the claims that a listener or connection is to have, at all targets.
func (d *driver) wantedStreamClaims(c *streamClaim) []steering.Claim {
	flows := c.flows
	flows.IfIndex = d.nics.CurrentIndex(flows.IfIndex)
	if d.config.ConnectionThreeTuple && !c.exact {
		flows.Remote = netip.AddrPort{}
	}
	return d.claims.Claims(&flows, streamTargets{d.nics})
}

// claimStreamsAt claims the flows of all listeners and connections at a new target. On an error some are claimed: see releaseStreamsAt.
func (d *driver) claimStreamsAt(at steering.Target) error {
	for _, c := range d.streamClaims {
		if c == nil {
			continue
		}
		if err := d.claims.AddAt(&c.held, at, d.wantedStreamClaims(c)); err != nil {
			return err
		}
	}
	return nil
}

// releaseStreamsAt releases the claims of all listeners and connections at a target.
func (d *driver) releaseStreamsAt(at steering.Target) (err error) {
	for _, c := range d.streamClaims {
		if c == nil {
			continue
		}
		if e := d.claims.ReleaseAt(&c.held, at); e != nil {
			err = e
		}
	}
	return err
}

// updateStreamClaims makes the claims of all listeners and connections what wantedStreamClaims says. Where one is refused the kernel gets the
// segments, and the path says why.
func (d *driver) updateStreamClaims() {
	for _, c := range d.streamClaims {
		if c == nil {
			continue
		}
		_, refused := d.claims.Set(&c.held, d.wantedStreamClaims(c))
		was := c.refused
		c.refused = ring.Reason{}
		if len(refused) > 0 {
			c.refused = ring.Reason{Code: "xdp.not_claimed", Text: refused[0].Error()}
		}
		if c.refused != was {
			c.notifyPath, d.notifyPaths = true, true
		}
	}
}
