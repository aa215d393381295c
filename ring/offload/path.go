package offload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// noQueue is the reason of a socket whose ring has no queue of its interface.
func noQueue(name string) ring.Reason {
	return ring.Reason{Code: "ring.no_queue", Text: "other rings serve all queues of " + name +
		": what comes is handed over and copied, what is sent goes through the kernel"}
}

// pollStamps is the reason of a socket that asked for stamps where the link has none.
func pollStamps(name string) ring.Reason {
	return ring.Reason{Code: "stamp.poll", Text: "datagrams on " + name + " are stamped when the ring takes them, not when they arrive: " +
		"SX_OFFLOAD_TIME=xdp or hardware (xtreme.OffloadTime, xdp.Config.Time) has the program or the card stamp them"}
}

// Path says by which links the socket's packets travel, and why not by others.
func (d *driver) Path(s *ring.Socket) ring.Path {
	p := ring.Path{Tier: "offload", Kind: d.Kind()}
	e := d.table.of(s)
	if e == nil {
		return p
	}
	carried := 0
	add := func(text string) {
		if p.Detail != "" {
			p.Detail += "; "
		}
		p.Detail += text
	}
	addReason := func(r link.Reason) { p.Reasons = append(p.Reasons, ring.Reason(r)) }
	for _, x := range d.nics.Statuses() {
		if !d.isOn(e, x.IfIndex) {
			continue
		}
		for _, i := range x.Places {
			lp := d.links[i].Link.Path()
			for _, r := range lp.Reasons {
				if !slices.Contains(p.Reasons, ring.Reason(r)) {
					addReason(r)
				}
			}
			lp.Reasons = nil
			text := lp.String()
			if x.Interface.VLAN != 0 {
				text += fmt.Sprintf(", VLAN %d", x.Interface.VLAN)
			}
			if x.Inactive {
				text += ", inactive"
			}
			add(text)
		}
		if e.stamped && x.Clock == link.ClockNone {
			p.Reasons = append(p.Reasons, pollStamps(x.Interface.Name))
		}
		for _, r := range x.Interface.Path {
			addReason(r)
		}
		if x.Why.Code != "" {
			addReason(x.Why)
			continue
		}
		if x.HandedOver {
			add(x.Interface.Name + ", handed over")
			p.Reasons = append(p.Reasons, noQueue(x.Interface.Name))
		}
		if x.Idle.Code != "" {
			addReason(x.Idle)
		}
		carried++
	}
	for _, b := range d.nics.LostBonds() {
		if d.isOn(e, b.IfIndex) {
			addReason(b.Why)
		}
	}
	if !e.own || carried == 0 && d.config.MemoryHost == nil || d.ceded(e) || e.isUnclaimed() {
		p.Tier = "os"
	}
	if r := d.spans(e); r.Code != "" {
		p.Reasons = append(p.Reasons, r)
	}
	p.Reasons = append(p.Reasons, d.groupReasons(e)...)
	p.Reasons = append(p.Reasons, d.stackedReasons(e)...)
	p.Reasons = append(p.Reasons, d.portReasons(e)...)
	p.Reasons = append(append(p.Reasons, e.reasons...), e.sender...)
	p.Reasons = append(p.Reasons, d.sendReasons(e)...)
	return p
}

// spans is the reason of a socket whose ring allocation logic has a ring for each interface, when the ring has several.
func (d *driver) spans(e *entry) (r ring.Reason) {
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
