package offload

import (
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// senderReasons is how many different reasons of declined destinations a socket's path lists.
const senderReasons = 8

// isDeclined reports whether Config.Sender leaves a destination to the kernel; the stack asks it when it finds the route. The reason is in the
// socket's path from then on.
func (d *driver) isDeclined(owner uint64, to wire.Addr, port uint16) bool {
	e := d.table.find(uint32(owner), uint32(owner>>32))
	if e == nil {
		return false // cannot be: who sends is attached
	}
	r, yes := d.config.Sender(e.s, netip.AddrPortFrom(to.Netip(), port))
	if !yes {
		return false
	}
	d.stats.Declined++
	if len(e.declinedReasons) < senderReasons && !slices.Contains(e.declinedReasons, r) {
		e.declinedReasons = append(e.declinedReasons, r)
	}
	return true
}
