package offload

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// What a socket sends to a group with IP_MULTICAST_LOOP on is for members on this host too. The stack loops it to the sockets of the
// exchange's rings. Sockets of the kernel get it only when the kernel sends it: so the kernel sends while there are any, and until it is known
// that there are none.
//
//	sockets of the kernel that receive the group on the interface and port     who sends
//	not known: the first datagrams, or the kernel's tables cannot be read      kernel
//	some                                                                       kernel, which loops it to ours too (Completion.ViaKernel)
//	none                                                                       link; the stack loops it to ours

// maxGroupFlows is how many groups a socket may send to in this way; the kernel sends to others.
const maxGroupFlows = 256

// needsKernel reports whether the kernel must send what a socket sends to a group by an interface, because other sockets of the host receive
// it, or may. The stack asks it when it finds the route. owner is udp.Endpoint.Owner.
func (d *driver) needsKernel(owner uint64, to wire.Addr, port uint16, iface int) bool {
	e := d.table.find(uint32(owner), uint32(owner>>32))
	if e == nil {
		return true // cannot be: who sends is attached
	}
	f := shadow.GroupFlow{GroupOn: host.GroupOn{Group: to, Interface: uint32(iface)}, Port: port}
	if !slices.Contains(e.groupFlows, f) {
		if len(e.groupFlows) == maxGroupFlows {
			return true
		}
		e.groupFlows = append(e.groupFlows, f)
		if w := d.others.watcher; w != nil {
			w.AddSend(d.keyOf(e), d.inode(e), f)
		}
	}
	return d.kernelReceives(f) != nobody
}

// receivers says whether sockets of the kernel on this host receive what is sent to a group.
type receivers uint8

const (
	unknown receivers = iota
	some
	nobody
)

// kernelReceives looks a group up in what the exchange's watcher knows.
func (d *driver) kernelReceives(f shadow.GroupFlow) receivers {
	switch received, known := d.others.known.Received[f]; {
	case !known:
		return unknown
	case received:
		return some
	}
	return nobody
}

// withdrawGroupFlows tells the watcher that a socket which is detached sends to no group any more.
func (d *driver) withdrawGroupFlows(e *entry) {
	if w := d.others.watcher; w != nil && len(e.groupFlows) > 0 {
		w.RemoveSends(d.keyOf(e))
	}
}

// reviewSends is called when the watcher has found other receivers of groups than before. Where it has changed whether others of this host
// receive a group that a socket sends to (see needsKernel), routes are found again and the socket receives PATH. before is the state until now.
func (d *driver) reviewSends(before *shadow.OtherSockets) {
	changed := false
	d.table.each(func(e *entry) {
		for _, f := range e.groupFlows {
			was, known := before.Received[f]
			is, knownNow := d.others.known.Received[f]
			if was == is && known == knownNow {
				continue
			}
			changed = true
			if known && ring.OptionsOf(e.s).MulticastLoop { // what was not known before has not changed
				d.paths.note(e)
			}
		}
	})
	if changed {
		d.ip.InvalidateRoutes()
		d.shadows.LookSoon() // what the kernel has looped is older than what the stack will
		d.stats.PathChanges++
	}
}

// sendReasons are the reasons in a socket's path for groups that the kernel sends to.
func (d *driver) sendReasons(e *entry) (list []ring.Reason) {
	if !e.inStack || !ring.OptionsOf(e.s).MulticastLoop {
		return nil
	}
	add := func(what receivers, text string) {
		var to []string
		for _, f := range e.groupFlows {
			if d.kernelReceives(f) != what {
				continue
			}
			if len(to) == senderReasons {
				to = append(to, "others")
				break
			}
			to = append(to, netip.AddrPortFrom(netip.AddrFrom4(f.Group), f.Port).String())
		}
		if len(to) > 0 {
			list = append(list, ring.Reason{Code: "mcast.loop",
				Text: fmt.Sprintf("the kernel sends to %s, because IP_MULTICAST_LOOP is on and %s", strings.Join(to, ", "), text)})
		}
	}
	add(some, "sockets of the kernel on this host receive it")
	switch w := d.others.watcher; {
	case w == nil: // without a kernel nothing is left to it
	case w.Why() != nil:
		add(unknown, "whether sockets of the kernel receive it cannot be known: "+w.Why().Error())
	default:
		add(unknown, "whether sockets of the kernel receive it is not known yet")
	}
	return list
}
