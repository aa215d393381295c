package offload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// noQueueReason is the reason in the path of a socket whose ring has no queue of the interface.
func noQueueReason(name string) ring.Reason {
	return ring.Reason{Code: "ring.no_queue", Text: "other rings serve all queues of " + name +
		": what comes is handed over and copied, what is sent goes through the kernel"}
}

// pollStampReason is the reason of a socket with Timestamps whose datagrams on an interface the ring stamps; by is what stamps there.
func pollStampReason(name string, by link.Clock) ring.Reason {
	remedy := "SX_OFFLOAD_TIME=xdp (xtreme.PollerConfig.OffloadTime, xdp.Config.Time) has the program stamp them, and hardware the card, for sockets with " +
		"a conversion"
	if by == link.ClockHardware {
		remedy = "those of the card are for sockets with a conversion (VMA_HW_TS_CONVERSION, ring.Config.HardwareTimestamps)"
	}
	return ring.Reason{Code: "stamp.poll", Text: "datagrams on " + name + " are stamped when the ring takes them, not when they arrive: " + remedy}
}

// Path lists the links by which the socket's packets travel, and the reasons for which it does not travel better. Its Tier is kernel when no
// flow of the socket reaches a link: Lost is the reason then.
func (d *driver) Path(s *ring.Socket) ring.Path {
	e := d.table.of(s)
	switch {
	case d.hasStream(s) && e != nil && e.viaKernel:
		return d.kernelStreamPath(e)
	case d.hasStream(s) && e == nil && isKernels(s): // closed: why the kernel had it is forgotten
		p := ring.Path{Tier: ring.TierKernel, Kind: d.Kind(), Shadow: true}
		if d.tcp.viaKernel.Driver != nil {
			p.Kind, p.Shadow = d.tcp.viaKernel.Kind(), false
		}
		return p
	case d.hasStream(s):
		return d.streamPath(s)
	}
	p := ring.Path{Tier: ring.TierBypass, Kind: d.Kind()}
	if e == nil {
		return p
	}
	carried := 0 // interfaces that carry the socket's packets
	lost := ""   // the code of one that carries nothing
	addReason := func(r link.Reason) { p.Reasons = append(p.Reasons, ring.Reason(r)) }
	for _, x := range d.nics.Statuses() {
		if !d.isOn(e, x.IfIndex) {
			continue
		}
		for _, i := range x.Places {
			lp := d.links[i].path()
			for _, r := range lp.Reasons {
				if !slices.Contains(p.Reasons, ring.Reason(r)) {
					addReason(r)
				}
			}
			var properties []string
			if x.Interface.VLAN != 0 {
				properties = append(properties, fmt.Sprintf("VLAN %d", x.Interface.VLAN))
			}
			if x.Inactive {
				properties = append(properties, "inactive")
			}
			p.Links = append(p.Links, lp.With(properties...))
		}
		if e.stamped && (x.Clock == link.ClockNone || x.Clock == link.ClockHardware && ring.ConfigOf(s).HardwareTimestamps == ring.HardwareTimestampsOff) {
			p.Reasons = append(p.Reasons, pollStampReason(x.Interface.Name, x.Clock))
		}
		for _, r := range x.Interface.Path {
			if !slices.Contains(p.Reasons, ring.Reason(r)) { // members of a bond have the same
				addReason(r)
			}
		}
		if x.Why.Code != "" {
			addReason(x.Why)
			lost = x.Why.Code
			continue
		}
		if x.HandedOver {
			p.Links = append(p.Links, x.Interface.Name+" (handed over)")
			p.Reasons = append(p.Reasons, noQueueReason(x.Interface.Name))
		}
		if x.Idle.Code != "" {
			addReason(x.Idle)
		}
		carried++
	}
	for _, b := range d.nics.LostBonds() {
		if d.isOn(e, b.IfIndex) {
			addReason(b.Why)
			lost = b.Why.Code
		}
	}
	group, stacked, port := d.groupReasons(e), d.stackedReasons(e), d.portReasons(e)
	switch {
	case !e.inStack:
		p.Lost = firstCode(e.reasons)
	case carried == 0 && d.below.memoryHost == nil: // a memory host has no kernel that would carry the socket
		if p.Lost = lost; lost == "" {
			p.Lost = firstCode(e.reasons)
		}
	case d.leavesAllToKernel(e) && d.leavesPortToKernel(e):
		p.Lost = sharedPort.Code
	case d.leavesAllToKernel(e) && d.sharesGroup(e):
		p.Lost = sharedGroup.Code
	case d.leavesAllToKernel(e):
		p.Lost = firstCode(stacked, group)
	case e.isUnclaimed():
		p.Lost = "xdp.not_claimed"
	}
	if p.Lost != "" {
		p.Tier, p.Shadow = ring.TierKernel, true
	}
	if r := d.allInterfacesReason(e); r.Code != "" {
		p.Reasons = append(p.Reasons, r)
	}
	p.Reasons = slices.Concat(p.Reasons, group, stacked, port)
	p.Reasons = append(append(p.Reasons, e.reasons...), e.declinedReasons...)
	p.Reasons = append(p.Reasons, d.sendReasons(e)...)
	return p
}

// kernelStreamPath is that of a TCP socket which the kernel carries: attachKernelStream has noted why. Its kind is that of the driver inside
// this one, which reads the kernel's socket.
func (d *driver) kernelStreamPath(e *entry) ring.Path {
	p := ring.Path{Tier: ring.TierKernel, Kind: d.tcp.viaKernel.Kind(), Lost: e.reasons[0].Code, Reasons: slices.Clone(e.reasons)}
	if r := d.tcp.moves.refused[e.s]; r.Code != "" {
		p.Reasons = append(p.Reasons, r)
	}
	return p
}

// firstCode is the code of the first reason of the lists.
func firstCode(lists ...[]ring.Reason) string {
	for _, list := range lists {
		if len(list) > 0 {
			return list[0].Code
		}
	}
	return "offload.unknown"
}

// allInterfacesReason is the reason in a socket's path when its ring serves several interfaces though the ring allocation logic has one ring for
// each; zero otherwise.
func (d *driver) allInterfacesReason(e *entry) (r ring.Reason) {
	switch e.s.Logic() {
	case ring.PerIP, ring.PerSocket, ring.PerUserID: // the ring's own reason says it
		return r
	}
	var names []string
	var indexes []int
	add := func(index int, name string) {
		if !slices.Contains(indexes, index) {
			indexes, names = append(indexes, index), append(names, name)
		}
	}
	for _, x := range d.nics.Statuses() {
		add(x.IfIndex, x.Interface.On)
	}
	if len(names) < 2 {
		return r
	}
	return ring.Reason{Code: "ring.all_interfaces", Text: "one ring serves all interfaces of the owner (" + strings.Join(names, ", ") +
		"), where the ring allocation logic has one for each"}
}
