package offload

import (
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// senderReasons is how many different reasons of declined destinations a socket's path lists.
const senderReasons = 8

// declined asks Config.Sender for a destination whose way is being found. What it says is on the socket's path from then on.
func (d *driver) declined(owner uint64, to wire.Addr, port uint16) bool {
	e := d.table.find(uint32(owner), uint32(owner>>32))
	if e == nil {
		return false // cannot be: who sends is attached
	}
	r, yes := d.config.Sender(e.s, netip.AddrPortFrom(to.Netip(), port))
	if !yes {
		return false
	}
	d.stats.Declined++
	if len(e.sender) < senderReasons && !slices.Contains(e.sender, r) {
		e.sender = append(e.sender, r)
	}
	return true
}
