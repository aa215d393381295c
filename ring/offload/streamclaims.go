package offload

import (
	"errors"
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

// streamClaim is the claims of a listener, or of a connection.
type streamClaim struct {
	flows   steering.SocketFlows // IfIndex is that of the socket's device when it was tied to it
	held    steering.HeldClaims
	refused ring.Reason // why a claim could not be made again; the zero Reason if each was
	exact   bool        // no more than flows, whatever Config.ConnectionThreeTuple says

	notifyPath bool // refused has changed: its sockets are to receive PATH
}

// streamClaims are the claims of the listeners and connections of a ring.
type streamClaims struct {
	table      *steering.Table
	nics       *nic.Attachments
	threeTuple bool           // Config.ConnectionThreeTuple
	list       []*streamClaim // by number - 1
	free       []int32        // numbers that are not used
}

// add claims a flow of TCP. The number names it until remove.
func (x *streamClaims) add(flows steering.SocketFlows, exact bool) (number int32, err error) {
	c := &streamClaim{exact: exact, flows: flows}
	_, refused := x.table.Set(&c.held, x.wanted(c))
	if len(refused) > 0 {
		x.table.ReleaseAll(&c.held)
		return 0, errors.Join(refused...)
	}
	if n := len(x.free); n > 0 {
		number = x.free[n-1]
		x.free = x.free[:n-1]
		x.list[number-1] = c
		return number, nil
	}
	x.list = append(x.list, c)
	return int32(len(x.list)), nil
}

// remove leaves a flow to the kernel.
func (x *streamClaims) remove(number int32) {
	x.table.ReleaseAll(&x.list[number-1].held)
	x.list[number-1] = nil
	x.free = append(x.free, number)
}

// of is the claims with a number other than 0.
func (x *streamClaims) of(number int32) *streamClaim { return x.list[number-1] }

// wanted lists the claims that a listener or connection is to have, at all targets.
func (x *streamClaims) wanted(c *streamClaim) []steering.Claim {
	flows := c.flows
	flows.IfIndex = x.nics.CurrentIndex(flows.IfIndex)
	if x.threeTuple && !c.exact {
		flows.Remote = netip.AddrPort{}
	}
	return x.table.Claims(&flows, streamTargets{x.nics})
}

// addTarget claims the flows of all listeners and connections at a new target. On an error some are claimed: see removeTarget.
func (x *streamClaims) addTarget(at steering.Target) error {
	for _, c := range x.list {
		if c == nil {
			continue
		}
		if err := x.table.AddAt(&c.held, at, x.wanted(c)); err != nil {
			return err
		}
	}
	return nil
}

// removeTarget releases the claims of all listeners and connections at a target.
func (x *streamClaims) removeTarget(at steering.Target) (err error) {
	for _, c := range x.list {
		if c == nil {
			continue
		}
		if e := x.table.ReleaseAt(&c.held, at); e != nil {
			err = e
		}
	}
	return err
}

// update makes the claims of all listeners and connections what wanted says. Where one is refused the kernel gets the segments, and the path
// says why. The result is whether a path has changed.
func (x *streamClaims) update() (changed bool) {
	for _, c := range x.list {
		if c == nil {
			continue
		}
		_, refused := x.table.Set(&c.held, x.wanted(c))
		was := c.refused
		c.refused = ring.Reason{}
		if len(refused) > 0 {
			c.refused = ring.Reason{Code: "xdp.not_claimed", Text: refused[0].Error()}
		}
		if c.refused != was {
			c.notifyPath, changed = true, true
		}
	}
	return changed
}

// clearNotes forgets which paths have changed.
func (x *streamClaims) clearNotes() {
	for _, c := range x.list {
		if c != nil {
			c.notifyPath = false
		}
	}
}

// updateStreamClaims makes the claims of TCP again; where they have changed a path, its sockets receive PATH.
func (d *driver) updateStreamClaims() {
	if d.tcp.claims.update() {
		d.paths.notify = true
	}
}
