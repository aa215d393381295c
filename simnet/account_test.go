package simnet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// expect finds the sockets of a datagram and notes it for each.
func (j *judge) expect(h, from, id int, at int64, source, to netip.AddrPort) {
	found := false
	give := func(k *sockState) {
		found = true
		j.hosts[h].expected++
		q := &k.expect[from]
		q.list = append(q.list, expected{uint32(id), at})
	}
	if to.Addr().IsMulticast() {
		for _, k := range j.places[h] {
			if k != nil && k.group == to.Addr() && k.local.Port() == to.Port() {
				give(k)
			}
		}
	} else if k := j.unicast(h, source, to); k != nil {
		give(k)
	}
	if found && !to.Addr().IsMulticast() {
		return
	}
	for _, k := range j.lingering[h] {
		if k.local.Port() == to.Port() && (k.group == to.Addr() || !to.Addr().IsMulticast()) {
			found = true
			j.hosts[h].lingered++
		}
	}
	if !found {
		j.hosts[h].drops++
	}
}

func (j *judge) unicast(h int, source, to netip.AddrPort) (best *sockState) {
	for _, k := range j.places[h] {
		if k == nil || k.local.Port() != to.Port() || k.local.Addr().IsMulticast() {
			continue
		}
		switch {
		case k.remote.IsValid():
			if k.remote == source {
				return k
			}
		case k.local.Addr() == to.Addr():
			best = k
		case best == nil:
			best = k
		}
	}
	return best
}

// sent is a frame that a driver gave to its card.
func (j *judge) sent(n *NIC, f *frame) {
	if f.kind&(Unicast|Multicast) == 0 {
		return
	}
	h := n.host.number - 1
	id, ok := idOf(f.b[42:])
	if !ok || id >= len(j.posted) {
		j.fail("content", "host %d sends a datagram that nobody gave it", h)
		return
	}
	d := &j.posted[id]
	switch last, before := d.from.lastOut[d.to]; {
	case d.from.host != h:
		j.fail("source", "host %d sends datagram %d of %v", h, id, d.from)
	case d.out:
		j.fail("duplicate", "host %d sends datagram %d twice", h, id)
	case before && last > id:
		j.fail("order", "%v: datagram %d to %v leaves behind %d", d.from, id, d.to, last)
	}
	d.out = true
	d.from.lastOut[d.to] = id
	j.hosts[h].out++
}

// taken is a frame that a driver got from its card.
func (j *judge) taken(n *NIC, f *frame, at int64) {
	h := n.host.number - 1
	a, b, k := &j.hosts[h], f.b, f.spoiled
	group := b[0]&1 != 0
	mine := [6]byte(b[:6]) == n.mac
	header := int32(34) // where Ethernet and IPv4 end
	if f.kind == IGMP {
		header += 4
	}
	switch {
	case b[6]&1 != 0, !mine && !group, k == 12 || k == 13:
		a.drops++
		return
	case f.kind == ARP, f.kind == Other:
		return
	case k == cut, k >= 14 && k < header:
		a.drops++
		return
	}
	target := netip.AddrFrom4([4]byte(b[30:34]))
	if !target.IsMulticast() && (group || target != addrOf(h)) {
		a.drops++
		return
	}
	switch {
	case f.kind == ICMP:
		if k < header && b[34] == wire.ICMPUnreachable {
			a.icmp++
		}
	case f.kind == IGMP:
	case k >= header && (k != 40 && k != 41 || b[40]|b[41] != 0): // without a sum there is nothing to be wrong
		a.drops++
	default:
		id, ok := idOf(b[42:])
		if !ok {
			j.fail("content", "host %d gets a datagram that nobody sent", h)
			return
		}
		source := netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[26:30])), binary.BigEndian.Uint16(b[34:]))
		j.expect(h, j.posted[id].from.host, id, at, source, netip.AddrPortFrom(target, binary.BigEndian.Uint16(b[36:])))
	}
}

// compare compares the accounts with the counters, when nothing is under way any more.
func (j *judge) compare() error {
	for h := range j.hosts {
		a, host := &j.hosts[h], j.w.hosts[h]
		var drops uint64
		count := map[string]uint64{}
		for _, c := range host.ring.Stats().Driver {
			count[c.Name] = c.Value
			switch prefix, _, _ := strings.Cut(c.Name, "."); prefix {
			case "eth", "ipv4", "udp":
				drops += c.Value
			}
		}
		drops -= count["udp.budget"] // of a socket, not of a frame
		// What stays on the host and finds no buffer counts once, whether it has two members or none; an answer of the stack counts, too.
		none := count["stack.no_buffer"] + count["stack.loop_full"]
		if a.drops+a.lingered < drops || a.drops > drops+none {
			return fmt.Errorf("losses: host %d: %d frames had to be dropped, perhaps %d more, %d were counted, %d found no buffer",
				h, a.drops, a.lingered, drops, none)
		}
		lost := count["stack.lost"] + count["offload.lost_sends"] + a.failed
		for name, v := range count {
			if strings.HasPrefix(name, "neighbour.") {
				lost += v
			}
		}
		if a.accepted != a.out+a.looped+lost {
			return fmt.Errorf("losses: host %d: %d datagrams were accepted, %d left, %d stayed, %d are counted as lost",
				h, a.accepted, a.out, a.looped, lost)
		}
		missing := a.expected - a.delivered
		why := count["udp.budget"] + host.ring.Stats().ClosedDrops + count["stack.discarded"]
		if missing+a.lingered < why || missing > why+2*none || a.drops+missing+a.lingered < drops+why {
			return fmt.Errorf("losses: host %d: %d datagrams missed their sockets, perhaps %d more, %d are counted, %d found no buffer",
				h, missing, a.lingered, why, none)
		}
	}
	for _, k := range j.sockets {
		if !k.closing && (k.wantOut || len(k.tokens) > 0) {
			return fmt.Errorf("out: %v: OUT is still promised: %v; %d sends are not told", k, k.wantOut, len(k.tokens))
		}
	}
	return nil
}
