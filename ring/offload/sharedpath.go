package offload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/internal/stack"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// noQueue is the reason of a socket whose ring has no queue of its interface.
func noQueue(name string) ring.Reason {
	return ring.Reason{Code: "ring.no_queue", Text: "other rings serve all queues of " + name +
		": what comes is handed over and copied, what is sent goes through the kernel"}
}

// clockOf is what stamps the frames of an interface; nothing while it is gone.
func (d *driver) clockOf(x *part) link.Clock {
	if x.count > 0 {
		return d.links[x.links[0]].Link.Path().Clock
	}
	c := x.carrier
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.device == nil {
		return link.ClockNone
	}
	return c.device.Path().Clock
}

// pollStamps is the reason of a socket that asked for stamps where the link has none.
func pollStamps(name string) ring.Reason {
	return ring.Reason{Code: "stamp.poll", Text: "datagrams on " + name + " are stamped when the ring takes them, not when they arrive: " +
		"SX_OFFLOAD_TIME=xdp or hardware (xtreme.OffloadTime, xdp.Config.Time) has the program or the card stamp them"}
}

// sharedPath says how the socket's packets travel over the interfaces of an exchange.
func (d *driver) sharedPath(e *entry, p ring.Path) ring.Path {
	carried := 0
	add := func(text string) {
		if p.Detail != "" {
			p.Detail += "; "
		}
		p.Detail += text
	}
	for _, x := range d.parts {
		if x.quits || !d.uses(e, x) {
			continue
		}
		for _, i := range x.links[:x.count] {
			lp := d.links[i].Link.Path()
			for _, r := range lp.Reasons {
				if r := ring.Reason(r); !slices.Contains(p.Reasons, r) {
					p.Reasons = append(p.Reasons, r)
				}
			}
			lp.Reasons = nil
			text := lp.String()
			if x.VLAN != 0 {
				text += fmt.Sprintf(", VLAN %d", x.VLAN)
			}
			if x.member >= stack.MemberInactive {
				text += ", inactive"
			}
			add(text)
		}
		if e.stamped && d.clockOf(x) == link.ClockNone {
			p.Reasons = append(p.Reasons, pollStamps(x.Name))
		}
		for _, r := range x.Path {
			p.Reasons = append(p.Reasons, ring.Reason(r))
		}
		switch {
		case x.why().Code != "":
			p.Reasons = append(p.Reasons, x.why())
			continue
		case x.standing.tags != "":
			p.Reasons = append(p.Reasons, x.tagsApart())
			continue
		case x.count == 0 && x.vacant.all:
			p.Reasons = append(p.Reasons, x.vacated())
			continue
		case x.count == 0:
			add(x.Name + ", handed over")
			p.Reasons = append(p.Reasons, noQueue(x.Name))
		}
		if x.vacant.queues > 0 {
			p.Reasons = append(p.Reasons, x.vacated())
		}
		carried++
	}
	for _, b := range d.bonds {
		if b.why.Code != "" && d.isOn(e, b.host) {
			p.Reasons = append(p.Reasons, b.why)
		}
	}
	if !e.own || carried == 0 || d.ceded(e) {
		p.Tier = "os"
	}
	if r := d.spans(e); r.Code != "" {
		p.Reasons = append(p.Reasons, r)
	}
	p.Reasons = append(p.Reasons, d.foreignReasons(e)...)
	p.Reasons = append(p.Reasons, d.childReasons(e)...)
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
	if d.config.Exchange == nil {
		for i := range d.links {
			add(d.links[i].Index, d.links[i].Link.Info().Name)
		}
	}
	for _, p := range d.parts {
		if !p.quits {
			add(p.host, p.On)
		}
	}
	if len(names) < 2 {
		return r
	}
	return ring.Reason{Code: "ring.all_interfaces", Text: "one ring serves all interfaces of the owner (" + strings.Join(names, ", ") +
		"), where the ring allocation logic has one for each"}
}
