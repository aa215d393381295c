package ip

import (
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// igmp is the member's side of IGMPv3 (RFC 9776): changes are reported at once and once more, queries are answered after a random
// part of the time they give.
type igmp struct {
	groups  []groupState // as reported last: what routers know, not what sockets have joined
	pending []report
}

type groupState struct {
	group   wire.Addr
	iface   uint32
	exclude bool
	sources []wire.Addr
}

// report is a report that is to be sent later.
type report struct {
	at    clock.Time
	iface uint32
	group wire.Addr // zero: all groups of the interface
	// change repeats a change of state; otherwise it answers a query, which may be about some sources only.
	change  bool
	sources []wire.Addr
}

// unsolicited is the time within which a change is reported for the second time (RFC 9776 section 8.11). Robustness is 2 (8.1): twice in all.
const unsolicited = uint64(time.Second)

// querySources is how many sources queries about a group may ask for together. Queries that ask for more are answered with the group's whole
// filter, which says as much: a query can delay its answer for most of an hour, and further queries may add to its list meanwhile.
const querySources = 64

// maxPending limits how many reports are pending: queries about many groups must not make the list grow. A report beyond it is not sent. A query
// that has no answer is followed by others, and a change that is not repeated was reported once.
const maxPending = 256

// MembershipChanged reports the filter of a group, if it is not the one that was reported last. Beside a kernel (localHost is nil) it does
// nothing: the kernel reports.
func (s *Stack) MembershipChanged(now clock.Time, group wire.Addr, iface uint32) {
	if s.localHost == nil || s.linkOf(int(iface)) < 0 || group == wire.AllSystems { // which is never reported (section 6)
		return
	}
	is := groupState{group: group, iface: iface}
	is.exclude, is.sources = s.members.Filter(group, iface)
	was := groupState{group: group, iface: iface}
	i := slices.IndexFunc(s.igmp.groups, func(g groupState) bool { return g.group == group && g.iface == iface })
	if i >= 0 {
		was = s.igmp.groups[i]
		s.igmp.groups = slices.Delete(s.igmp.groups, i, i+1)
	}
	if is.exclude || len(is.sources) > 0 {
		s.igmp.groups = append(s.igmp.groups, is)
	}
	records := changeRecords(&was, &is)
	if len(records) == 0 {
		return
	}
	s.sendReport(iface, records)
	s.schedule(report{at: now + clock.Time(s.random()%unsolicited), iface: iface, group: group, change: true})
}

// changeRecords are the records that report the change of a group's filter from one state to another (RFC 9776 section 5.1).
func changeRecords(was, is *groupState) (list []wire.Record) {
	const always, unlessEmpty = true, false // RFC 9776: a change of mode is reported without sources too
	add := func(kind uint8, sources []wire.Addr, always bool) {
		if len(sources) > 0 || always {
			list = append(list, wire.Record{Type: kind, Group: is.group, Sources: bytesOf(sources)})
		}
	}
	switch {
	case !was.exclude && is.exclude:
		add(wire.ChangeToExclude, is.sources, always)
	case was.exclude && !is.exclude:
		add(wire.ChangeToInclude, is.sources, always)
	case is.exclude:
		add(wire.AllowNew, without(was.sources, is.sources), unlessEmpty)
		add(wire.BlockOld, without(is.sources, was.sources), unlessEmpty)
	default:
		add(wire.AllowNew, without(is.sources, was.sources), unlessEmpty)
		add(wire.BlockOld, without(was.sources, is.sources), unlessEmpty)
	}
	return list
}

// without lists the elements of a that are not in b.
func without(a, b []wire.Addr) (rest []wire.Addr) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			rest = append(rest, x)
		}
	}
	return rest
}

// bytesOf is a list of addresses as a record has them.
func bytesOf(list []wire.Addr) (b []byte) {
	for _, a := range list {
		b = append(b, a[:]...)
	}
	return b
}

// igmpInput answers queries. Reports of other members change nothing (RFC 9776 has no suppression), but what is wrong with one is counted.
func (s *Stack) igmpInput(now clock.Time, i int, p *Parsed) wire.Drop {
	h, body, d := wire.ParseIGMP(p.Payload())
	switch {
	case d != wire.Accept:
		return d
	case p.IPv4().TTL() != 1:
		return wire.IGMPTTL
	case h.Type() == wire.IGMPv3Report:
		return checkRecords(h.Records(), body)
	case h.Type() != wire.IGMPQuery:
		return wire.Accept
	}
	q, d := wire.ParseQuery(h, body)
	if d != wire.Accept {
		return d
	}
	iface := uint32(s.links[i].Index)
	if s.members == nil || !q.Group.IsZero() && !s.members.Joined(q.Group, iface) {
		return wire.Accept
	}
	at := now
	if q.MaxResponse > 0 { // 0 is at once
		at += clock.Time(s.random() % uint64(q.MaxResponse))
	}
	r := report{at: at, iface: iface, group: q.Group}
	if n := q.NumSources(); n <= querySources { // else the report is about all sources, as for a query without any
		for i := range n {
			r.sources = append(r.sources, q.Source(i))
		}
	}
	s.schedule(r)
	return wire.Accept
}

// checkRecords returns what is wrong with the first bad one of n group records; Accept if they are all there and right.
func checkRecords(n int, body []byte) wire.Drop {
	for range n { // a record is of eight bytes at least: the body bounds them
		_, rest, d := wire.ParseRecord(body)
		if d != wire.Accept {
			return d
		}
		body = rest
	}
	return wire.Accept
}

// schedule adds a report to the pending ones. If one for the same interface and group is pending, and both repeat a change or both answer a
// query, the two become one, at the earlier time: about all sources if either is about all, else about the sources of both (section 5.2).
func (s *Stack) schedule(r report) {
	for n := range s.igmp.pending {
		p := &s.igmp.pending[n]
		if p.iface != r.iface || p.change != r.change || p.group != r.group {
			continue
		}
		p.at = min(p.at, r.at)
		if len(p.sources) == 0 || len(r.sources) == 0 {
			p.sources = nil
		} else {
			p.sources = append(p.sources, without(r.sources, p.sources)...)
		}
		if len(p.sources) > querySources {
			p.sources = nil
		}
		return
	}
	if len(s.igmp.pending) < maxPending {
		s.igmp.pending = append(s.igmp.pending, r)
	}
}

// igmpDeadline is when igmpAdvance has a report to send.
func (s *Stack) igmpDeadline() clock.Time {
	next := clock.Never
	for n := range s.igmp.pending {
		next = min(next, s.igmp.pending[n].at)
	}
	return next
}

// igmpAdvance sends the reports that are due.
func (s *Stack) igmpAdvance(now clock.Time) {
	for n := 0; n < len(s.igmp.pending); {
		r := s.igmp.pending[n]
		if r.at > now {
			n++
			continue
		}
		s.igmp.pending = slices.Delete(s.igmp.pending, n, n+1)
		s.sendPending(&r)
	}
}

// sendPending sends a report that was pending, a repeated change or an answer, with the members' filters as they are now.
func (s *Stack) sendPending(r *report) {
	groups := []wire.Addr{r.group}
	if r.group.IsZero() {
		groups = s.members.Groups(r.iface, groups[:0])
	}
	var list []wire.Record
	for _, g := range groups {
		if g == wire.AllSystems {
			continue
		}
		exclude, sources := s.members.Filter(g, r.iface)
		kind := wire.ModeIsInclude
		switch {
		case r.change && exclude:
			kind = wire.ChangeToExclude
		case r.change:
			kind = wire.ChangeToInclude
		case len(r.sources) > 0: // which of these are wanted: always reported as an inclusion (section 5.2, table)
			wanted := without(r.sources, sources)
			if !exclude {
				wanted = without(r.sources, wanted)
			}
			if sources = wanted; len(sources) == 0 {
				continue
			}
		case exclude:
			kind = wire.ModeIsExclude
		case len(sources) == 0:
			continue // left meanwhile
		}
		list = append(list, wire.Record{Type: kind, Group: g, Sources: bytesOf(sources)})
	}
	s.sendReport(r.iface, list)
}

// sendReport sends records, in as many packets as they need.
func (s *Stack) sendReport(iface uint32, list []wire.Record) {
	i := s.linkOf(int(iface))
	if i < 0 {
		return
	}
	l := &s.links[i]
	var source wire.Addr // zero is legal: no address yet (section 4.2.13)
	for _, a := range s.snapshot.Addresses() {
		if a.Interface == l.Index {
			source, _ = wire.AddrFrom(a.Local)
			break
		}
	}
	room := l.MTU - wire.IPv4Len - len(wire.RouterAlert) - wire.IGMPLen
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && (n == 0 || size+8+len(list[n].Sources) <= room) {
			size += 8 + len(list[n].Sources)
			n++
		}
		first, rest := list[:n], list[n:]
		if size > room { // one record longer than a packet
			first, rest = divideRecord(list, (room-8)&^3)
		}
		body, err := wire.AppendReport(nil, first)
		if err != nil {
			return
		}
		eth := wire.EthernetFields{Target: wire.GroupMAC(wire.AllIGMPRouters), Source: l.MAC, Tag: wire.Tag(l.VLAN), Type: wire.TypeIPv4}
		ip := wire.IPv4Fields{TOS: 0xc0, TTL: 1, Protocol: wire.ProtocolIGMP, ID: s.NextID(), Source: source, Target: wire.AllIGMPRouters,
			Options: wire.RouterAlert[:]}
		b, err := ip.Append(eth.Append(s.scratch[:0]), len(body))
		if err != nil {
			return
		}
		s.scratch = append(b, body...)
		s.sendControl(i, s.scratch)
		list = rest
	}
}

// divideRecord cuts the first record of a list after so many bytes of sources (RFC 9776 section 4.2.16). The others follow in a record of their
// own; of an exclusion they are left out, because the sources of two exclusions would not add up.
func divideRecord(list []wire.Record, most int) (first, rest []wire.Record) {
	r := list[0]
	head := r
	head.Sources = r.Sources[:most]
	if r.Type == wire.ModeIsExclude || r.Type == wire.ChangeToExclude {
		return []wire.Record{head}, list[1:]
	}
	list[0].Sources = r.Sources[most:]
	return []wire.Record{head}, list
}
