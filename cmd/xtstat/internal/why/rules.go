package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// blameGap is for a finding of something that was full because nobody polled: it blames the longest gap between polls of that time. Without a
// gap the finding stays as it is.
func (e *Evidence) blameGap(f *Finding) {
	if x := e.gap(f.begin(), f.end()); x != nil {
		f.blame([]*stats.Event{x}, time.Duration(x.Count))
	}
}

// wholeRing: the receive ring of an AF_XDP socket was full.
func wholeRing(e *Evidence) []Finding {
	list := e.losses(counter{stats.Host, "xdp.rx_ring_full"}, counter{stats.Host, "memory.rx_ring_full"})
	for i := range list {
		f := &list[i]
		f.kind, f.Place, f.Cause, f.Unit = aboutRing, Ring, "the ring was full", "frames"
		e.blameGap(f)
	}
	return list
}

// noBuffers: no buffer lay ready for a frame.
func noBuffers(e *Evidence) []Finding {
	list := e.losses(counter{stats.Host, "xdp.rx_dropped"}, counter{stats.Drivers, "stack.no_buffer"})
	for i := range list {
		f := &list[i]
		f.kind, f.Unit = aboutRing, "frames"
		used, all := e.most(f, "poller.buffers_used_peak"), e.most(f, "poller.buffers")
		if len(list) == 1 {
			_, empty := e.delta(stats.Host, "xdp.rx_fill_ring_empty_descs")
			f.Evidence = append(f.Evidence, empty...)
		}
		if all > 0 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("buffers in use: at most %d of %d", used, all))
		}
		if all > 0 && 2*used >= all && !e.stalled(f) { // the rest lies with the card, or is kept for sending
			f.Place, f.Cause = Application, fmt.Sprintf("no buffer lay ready for the card: %d of %d are held, packets are not released", used, all)
			continue
		}
		f.Place, f.Cause = Ring, "the ring was full: all buffers that lay ready for the card were used"
		e.blameGap(f)
	}
	return list
}

// stalled reports whether the loop did not poll while all of a finding was lost: then it is from that gap, whatever was held in the same second.
func (e *Evidence) stalled(f *Finding) bool {
	const least = 20 * time.Millisecond
	x := e.gap(f.begin(), f.end())
	return x != nil && time.Duration(x.Count) >= least && time.Duration(x.Count) > f.end().Sub(f.begin())
}

// budgetSpent is what a dropped datagram says of its socket; why follows, as far as samples know it.
const budgetSpent = "the socket's budget was spent: "

// tellingGap is how long a gap between polls is at least that says something of a socket that is not read.
const tellingGap = 10 * time.Millisecond

// reasons are the places of the drops that an offloaded ring's stack counts, with what they mean. Others than these are damaged or wrong when
// they come.
var reasons = map[string]struct {
	place Place
	means string
}{
	"udp.budget":           {Socket, budgetSpent + "it is read too slowly, or its packets are held"},
	"udp.no_socket":        {Socket, "no socket had the port"},
	"udp.foreign_peer":     {Socket, "the socket is connected to another peer"},
	"udp.group_not_joined": {Socket, "no socket had joined the group on this interface, or its filter of sources refused the sender"},
	"eth.tag":              {Card, "the VLAN tag was another one than expected: the card or a switch has taken it out or put one in"},
	"tcp.backlog":          {Socket, "the listener was full"},
	"tcp.budget":           {Socket, "no room for data out of order"},
	"tcp.no_connection":    {Socket, "no connection and no listener had the port"},
	"tcp.moving":           {Ring, "the connection was being moved"},
}

// stackDrops: frames that the stack of an offloaded ring dropped, by reason.
func stackDrops(e *Evidence) (found []Finding) {
	section := stats.SectionOf(stats.Drops)
	for i := range section.Counters {
		row := &section.Counters[i]
		if !row.Loss {
			continue
		}
		for _, f := range e.losses(counter{stats.Drops, row.Name}) {
			f.Place, f.Cause, f.Unit = Upstream, row.Name+": "+row.Help+"; the sender or the network sent it so", "frames"
			if x, ok := reasons[row.Name]; ok {
				f.Place, f.Cause = x.place, row.Name+": "+x.means
			}
			if row.Name == "udp.group_not_joined" || row.Name == "ipv4.not_ours" {
				f.kind = aboutUnwanted
			}
			if row.Name == "udp.budget" {
				e.nameSockets(&f)
				held, queued := e.mostThen(&f, "socket.held_bytes"), e.mostThen(&f, "socket.queued_packets")
				switch { // a loop stores both between its batches: what is held then is not only being handled
				case held > 0 && queued == 0:
					f.Cause = row.Name + ": " + budgetSpent + "its packets are held"
				case queued > 0 && held == 0:
					f.Cause = row.Name + ": " + budgetSpent + "it is read too slowly"
				}
				if held+queued > 0 {
					f.Evidence = append(f.Evidence, fmt.Sprintf("sockets held %d bytes, and %d packets waited in their queues, when a sample was taken", held, queued))
				}
				if x := e.gap(f.begin(), f.end()); x != nil && time.Duration(x.Count) >= tellingGap {
					f.Evidence = append(f.Evidence, describeGap(x)+": "+x.Text)
				}
			}
			found = append(found, f)
		}
	}
	return found
}

// nameSockets names the sockets that have dropped datagrams for want of room at the time of a finding, with the lines of feeds that they are.
// Their counts are in the journal some tenths of a second later. If these counts are all that the finding has, feeds whose sockets dropped
// nothing are spared.
func (e *Evidence) nameSockets(f *Finding) {
	count, sum := map[string]uint64{}, uint64(0)
	names := map[string]string{}
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventDrop.String() || x.Code != "drops" || x.Time.Before(f.begin().Add(-late)) || x.Time.After(f.end().Add(time.Second)) {
			continue
		}
		count[x.Of], names[x.Of], sum = count[x.Of]+x.Count, x.Of, sum+x.Count // "socket 3"
		if x.About != "" {
			names[x.Of] = "socket " + x.About
		}
	}
	for _, of := range slices.Sorted(maps.Keys(count)) {
		text := fmt.Sprintf("%s: drops +%d", names[of], count[of])
		switch line, ok := e.Lines[of]; {
		case ok:
			f.hit = append(f.hit, line.Feed)
			text += fmt.Sprintf(" (line %s of feed %s)", line.Name, line.Feed)
		case len(e.Lines) > 0:
			text += " (it is no line of a feed)"
		}
		f.Evidence = append(f.Evidence, text)
	}
	for _, line := range e.Lines {
		if sum == f.Count && !slices.Contains(f.hit, line.Feed) {
			f.spared = append(f.spared, line.Feed)
		}
	}
}

// otherRings: datagrams lost on their way from one ring to another.
func otherRings(e *Evidence) (found []Finding) {
	for _, x := range [][2]string{
		{"handover.full", "the queue to the ring that has the socket was full"},
		{"handover.closed", "the ring that has the socket was being closed"},
		{"handover.no_socket", "the socket was closed meanwhile"},
		{"stack.loop_full", "too many datagrams of this host's own waited"},
	} {
		for _, f := range e.losses(counter{stats.Drivers, x[0]}) {
			f.Place, f.Cause, f.Unit = Ring, x[1], "datagrams"
			if x[0] == "handover.full" {
				e.blameGap(&f)
			}
			found = append(found, f)
		}
	}
	return found
}

// kernelSockets: the receive buffers of sockets that the kernel receives for.
func kernelSockets(e *Evidence) (found []Finding) {
	var budget uint64 // socket.drops counts these datagrams too, and stackDrops reports them
	for _, f := range e.losses(counter{stats.Drops, "udp.budget"}) {
		budget += f.Count
	}
	for _, f := range e.losses(counter{stats.Sockets, "drops"}) {
		same := min(f.Count, budget)
		if f.Count, budget = f.Count-same, budget-same; f.Count == 0 {
			continue
		}
		for _, c := range []string{"udp.RcvbufErrors", "udp.MemErrors"} {
			_, more := e.delta(stats.Host, c)
			f.Evidence = append(f.Evidence, more...)
		}
		f.kind, f.Unit = aboutKernel, "datagrams"
		e.blameSocket(&f)
		found = append(found, f)
	}
	return found
}

// diverted are the times between which packets of offloaded sockets came through the kernel, as the journal has them, how many, and between
// which looks that began; zero: the journal has no begin, or no end.
func (e *Evidence) diverted(from, to time.Time) (begin, end time.Time, packets uint64, looks span) {
	for i := range e.Events {
		x := &e.Events[i]
		switch {
		case x.Kind != stats.EventPath.String() || x.Name != "kernel_packets" || x.Time.Before(from):
		case x.Code == stats.CodeEnded && !begin.IsZero():
			end, packets = x.Time, packets+x.Count
		case x.Code == stats.CodeBegan && !x.Time.After(to) && begin.IsZero():
			begin, looks = x.Time, span{x.Earliest, x.Latest}
		}
	}
	return begin, end, packets, looks
}

// unservedQueues: claimed frames that came by a queue of the card that no ring serves. The kernel has them; they are late, not lost, unless its
// buffers are full too.
func unservedQueues(e *Evidence) []Finding {
	n, evidence := e.delta(stats.Host, "steer.no_queue")
	if n == 0 {
		return nil
	}
	f := e.sampledAt(Finding{kind: aboutQueue, Place: Card, Cause: "frames came by a queue of the card that no ring serves: they took the way through the " +
		"kernel, late but not lost", Count: n, Unit: "frames", Evidence: evidence}, stats.Host, "steer.no_queue")
	if begin, end, packets, looks := e.diverted(f.Since.Add(-time.Second), f.Until); !begin.IsZero() {
		f.Time, f.Since, f.Until, f.Earliest, f.Latest = begin, time.Time{}, end, looks.from, looks.to
		f.Evidence = append(f.Evidence, divertedEvidence(begin, end, packets))
	}
	return []Finding{f}
}

// divertedEvidence is what diverted has found, in words.
func divertedEvidence(begin, end time.Time, packets uint64) string {
	const layout = "15:04:05.000"
	if end.IsZero() {
		return fmt.Sprintf("journal: packets came through the kernel from %s on", begin.Format(layout))
	}
	return fmt.Sprintf("journal: %d packets came through the kernel, from %s to %s", packets, begin.Format(layout), end.Format(layout))
}

// memberships: a group was left, or, where the journal has no leave, the kernel has fewer groups on an interface than before.
func memberships(e *Evidence) (found []Finding) {
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventLeave.String() {
			continue
		}
		f := Finding{kind: aboutGroup, Place: Application, Cause: "the program left a group: " + x.Text, Time: x.Time, Evidence: []string{"journal: leave " + x.Text}}
		for j := range e.Events[i:] {
			if y := &e.Events[i+j]; y.Kind == stats.EventJoin.String() && y.Text == x.Text {
				f.Until = y.Time
				f.Cause += fmt.Sprintf("; it joined it again %v later", y.Time.Sub(x.Time).Round(time.Microsecond))
				break
			}
		}
		found = append(found, f)
	}
	if len(found) > 0 {
		return found
	}
	for _, name := range slices.Sorted(maps.Keys(e.Before)) {
		before := e.Before[name]
		if !strings.HasPrefix(name, stats.Host+".") || !strings.HasSuffix(name, ".groups") || e.Least[name] >= before {
			continue
		}
		found = append(found, e.fewerGroups(name, before, e.Least[name]))
	}
	return found
}

// programs: the steering program was taken off an interface, or another one put in its place.
func programs(e *Evidence) (found []Finding) {
	for i := range e.Events {
		x := &e.Events[i]
		if !isLink(x, stats.CodeProgramOff, "xdp.busy", "link.detached") {
			continue
		}
		n, evidence := e.delta(stats.Drivers, "offload.os_packets")
		f := Finding{kind: aboutProgram, Place: Kernel, Cause: "the steering program was displaced, and packets take the way through the kernel: " +
			x.Name + ": " + linkText(x), Count: n, Unit: "packets through the kernel", Time: x.Time, Evidence: append(evidence, linkEvidence(x))}
		const noticed = time.Second // at most, after which the driver finds that its program is gone
		if begin, end, packets, looks := e.diverted(x.Time.Add(-noticed), x.Time); !begin.IsZero() {
			f.Time, f.Until, f.Earliest, f.Latest = begin, end, looks.from, looks.to
			f.Evidence = append(f.Evidence, divertedEvidence(begin, end, packets))
		}
		found = append(found, f)
	}
	return found
}

// isLink reports whether an event is of an interface, with one of the codes: those of package stats, or of a ring's link.Reason.
func isLink(x *stats.Event, codes ...string) bool {
	return x.Kind == stats.EventLink.String() && slices.Contains(codes, x.Code)
}

// linkText is what happened to an interface in words, without its name and code in front, and without the error that is the code once more.
func linkText(x *stats.Event) string {
	text := strings.TrimPrefix(strings.TrimPrefix(x.Text, x.Name+": "), x.Code+": ")
	return strings.TrimSuffix(strings.TrimPrefix(text, "xdp: "), ": link: detached")
}

// linkEvidence is the same as the journal has it: linkText tells the rest.
func linkEvidence(x *stats.Event) string { return "journal: link " + x.Name + " " + x.Code }

// links: an interface was down.
func links(e *Evidence) (found []Finding) {
	for i := range e.Events {
		x := &e.Events[i]
		if !isLink(x, stats.CodeDown, stats.CodeCarrierLost, stats.CodeDeleted, "link.down", "link.gone") {
			continue
		}
		// What is told of one interface within a while is one thing: the ring and the kernel both tell.
		if n := len(found); n > 0 && found[n-1].of == x.Name && x.Time.Sub(found[n-1].end()) < pause {
			found[n-1].Cause += "; " + linkText(x)
			found[n-1].Evidence = append(found[n-1].Evidence, linkEvidence(x))
			continue
		}
		f := Finding{kind: aboutLink, of: x.Name, Place: Card, Cause: "the interface carried nothing: " + x.Name + ": " + linkText(x), Time: x.Time,
			Evidence: []string{linkEvidence(x)}}
		for j := range e.Events[i:] {
			if y := &e.Events[i+j]; isLink(y, stats.CodeUp, stats.CodeCarrierBack, stats.CodeCame) && y.Name == x.Name {
				f.Until = y.Time
				break
			}
		}
		found = append(found, f)
	}
	return found
}

// notDelivered: packets that reached the kernel's IP, and no protocol of it, and no counter says why. What comes by a card the kernel counts as
// multicast once it has found a member of the group that wants the source (InMcastPkts): what of that was not delivered was dropped behind, by a
// rule. What this host sends on the loopback interface comes back with the route of its sender, and is counted so without a member.
func notDelivered(e *Evidence) (found []Finding) {
	host := func(name string) uint64 { return e.Deltas[stats.Host+"."+name] }
	all := missing(host)
	if all == 0 {
		return nil
	}
	reports := ownReports(host)
	unicast := min(host("tcp.InSegs"), host("ip.InDelivers"))
	wanted := less(less(host("ip.InMcastPkts"), reports), host("ip.InDelivers")-unicast) // and not delivered
	undelivered := min(all, wanted)
	looped := min(undelivered, less(ownMulticast(host), reports)) // that may be
	evidence := func(names ...string) (list []string) {
		for _, name := range append([]string{"ip.InReceives", "ip.InDelivers", "ip.InMcastPkts"}, names...) {
			list = append(list, fmt.Sprintf("%s +%d", name, host(name)))
		}
		return list
	}
	unwanted, more := e.unwanted()
	loopedKind, loopedCause := aboutUnwanted, "multicast that this host sent on the loopback interface was not delivered: no socket had joined the group there, or "+
		"it was a rule of the firewall (xtstat -v 4 shows groups, nft list ruleset rules)"
	if e.Most[stats.Host+"."+loopback+".groups"] == 1 { // that of all hosts
		loopedKind, loopedCause = aboutOthers, "this host sent multicast on the loopback interface, where no socket had joined a group"
	}
	for _, x := range []struct {
		kind     kind
		place    Place
		count    uint64
		cause    string
		evidence []string
	}{
		{aboutLoss, Kernel, undelivered - looped, "the kernel dropped packets for members of groups between IP and UDP without an error: a rule of the " +
			"firewall (nft list ruleset)", evidence()},
		{loopedKind, Socket, looped, loopedCause, evidence("ip.OutMcastPkts", loopback+".rx_packets")},
		{aboutUnwanted, e.groupsPlace(), all - undelivered, "the kernel dropped packets without an error: " + unwanted, append(evidence(), more...)},
	} {
		if x.count > 0 {
			s := e.missingIn()
			found = append(found, Finding{kind: x.kind, Place: x.place, Cause: x.cause, Count: x.count, Unit: "packets", Evidence: x.evidence, Since: s.from, Until: s.to,
				counter: "ip.not_delivered"})
		}
	}
	return found
}

// loopback is the interface's name in every network namespace.
const loopback = "lo"

// ownMulticast is how much multicast this host may have sent on the loopback interface: the kernel has one counter for that of all interfaces.
func ownMulticast(grew func(name string) uint64) uint64 {
	return min(grew("ip.OutMcastPkts"), grew(loopback+".rx_packets"))
}

// ownReports is how many of them were no UDP: the kernel's own IGMP reports, which it sends to 224.0.0.22 also on the loopback interface, where
// it is no member of that group and discards them without a counter. Two bounds tell, of which each is low at times: multicast that cannot be
// UDP, since so few datagrams were sent; and packets of any kind that no protocol has counted, which long TCP segments hide (tcp.OutSegs counts
// parts). Where the loopback interface carries other packets, the reports that left by cards are among them: a few for each group that is
// joined.
func ownReports(grew func(name string) uint64) uint64 {
	multicast := less(grew("ip.OutMcastPkts"), grew("udp.OutDatagrams"))
	others := less(grew("ip.OutRequests"), grew("udp.OutDatagrams")+grew("tcp.OutSegs")+grew("tcp.RetransSegs")+grew("icmp.OutMsgs"))
	return min(ownMulticast(grew), max(multicast, others))
}

// less is a difference that does not go below 0.
func less(a, b uint64) uint64 { return a - min(a, b) }

// missing is how many packets reached the kernel's IP and no protocol of it, and are in no counter of what happens to others: computed from how
// much counters of the host grew.
func missing(grew func(name string) uint64) uint64 {
	out := grew("ip.InDelivers")
	for _, c := range []string{"InHdrErrors", "InAddrErrors", "InUnknownProtos", "InDiscards", "ForwDatagrams", "InNoRoutes", "InTruncatedPkts", "InCsumErrors"} {
		out += grew("ip." + c)
	}
	out += less(grew("ip.ReasmReqds"), grew("ip.ReasmOKs"))
	return less(grew("ip.InReceives"), out+ownReports(grew))
}

// missingIn is from the begin of the first sample in which more packets were missing to the end of the last one. What is missing in a sample and
// not in a later one was under way when the kernel's counters were read.
func (e *Evidence) missingIn() (s span) {
	until := make([]uint64, len(e.samples)) // from the begin of the window to the end of each sample
	for i := range e.samples {
		until[i] = missing(func(name string) uint64 {
			name = stats.Host + "." + name
			return e.samples[i].Values[name] - min(e.first[name], e.samples[i].Values[name])
		})
	}
	for i := len(until) - 2; i >= 0; i-- {
		until[i] = min(until[i], until[i+1])
	}
	for i := range e.samples {
		if x := &e.samples[i]; until[i] > until[max(0, i-1)] || i == 0 && until[0] > 0 {
			s.add(span{x.Time.Add(-x.Interval), x.Time})
		}
	}
	return s
}

// unwanted says what multicast was that the kernel counted for no member, and what shows it. Sockets have joined groups, or groups from a source
// alone. Where a feed misses messages at that time, and all groups are joined from a source, the filter of sources has refused them; where
// nothing is joined so there is no filter. Else it may have been either.
func (e *Evidence) unwanted() (cause string, evidence []string) {
	const rules = "a rule of a firewall in front of the kernel's routing counts the same: nft list ruleset"
	const group, filter = "multicast for a group that no socket had joined here", "multicast from another sender than the filter of sources lets pass"
	filtered := 0
	for _, s := range e.Joined {
		if strings.Contains(s, " from ") {
			filtered++
		}
	}
	gap := slices.ContainsFunc(e.Events, func(x stats.Event) bool { return x.Kind == stats.EventFeedGap.String() })
	left := slices.ContainsFunc(e.Events, func(x stats.Event) bool { return x.Kind == stats.EventLeave.String() })
	joined := "joined: " + strings.Join(e.Joined, ", ")
	switch {
	case len(e.Joined) == 0:
		return "multicast for a group that no socket had joined here, or from a sender that its filter of sources refuses; or a rule of the firewall " +
			"(xtstat -v 4 shows groups and sources, nft list ruleset rules)", nil
	case filtered == 0 || left:
		return group, []string{joined, rules}
	case filtered == len(e.Joined) && gap:
		return "the filter of sources refused multicast (no counter has the sender that was refused); what was joined, and is let pass: " +
			strings.Join(e.Joined, ", "), []string{rules}
	}
	return filter + ", or for a group that no socket had joined here", []string{joined, rules}
}

// groupsPlace is where packets were dropped that may have been multicast: at sockets, where any interface has joined more than the group of all
// hosts, else in the kernel.
func (e *Evidence) groupsPlace() Place {
	for name, n := range e.Most {
		if n > 1 && strings.HasPrefix(name, stats.Host+".") && strings.HasSuffix(name, ".groups") {
			return Socket
		}
	}
	return Kernel
}

// kernelDrops: what the kernel counts before its sockets.
func kernelDrops(e *Evidence) (found []Finding) {
	for _, x := range []struct {
		counter, cause string
		place          Place
		kind           kind
	}{
		{"rx_otherhost_dropped", "frames had a VLAN tag for which there is no interface here, or another station's address: a switch or a card has put " +
			"a tag in, or not taken it out", Card, aboutLoss},
		{"udp.InCsumErrors", "the UDP checksum was wrong: the sender or the network damages datagrams", Upstream, aboutLoss},
		{"ip.InHdrErrors", "the IPv4 header was wrong: the sender or the network damages packets", Upstream, aboutLoss},
		{"ip.InCsumErrors", "the IPv4 checksum was wrong: the sender or the network damages packets", Upstream, aboutLoss},
		{"ip.InNoRoutes", "no route, or the reverse path filter refused the sender (net.ipv4.conf.*.rp_filter)", Kernel, aboutLoss},
		{"ip.InDiscards", "the kernel discarded packets for want of memory", Kernel, aboutLoss},
		{"ip.ReasmFails", "fragments could not be put together: one was lost", Upstream, aboutLoss},
		{"udp.IgnoredMulti", "multicast that no socket wanted: none had joined the group here, or its filter of sources refused the sender", Socket, aboutUnwanted},
		{"udp.NoPorts", "no socket had the port", Socket, aboutOthers},
	} {
		if n, evidence := e.delta(stats.Host, x.counter); n > 0 {
			found = append(found, e.sampledAt(Finding{kind: x.kind, Place: x.place, Cause: x.cause, Count: n, Unit: "packets", Evidence: evidence,
				counter: x.counter}, stats.Host, x.counter))
		}
	}
	if n := e.backlogDrops(); n > 0 {
		_, evidence := e.delta(stats.Host, "softnet.dropped")
		found = append(found, e.sampledAt(Finding{Place: Kernel, Cause: "the kernel's backlog between card and IP was full (net.core.netdev_max_backlog)",
			Count: n, Unit: "packets", Evidence: evidence, counter: "softnet.dropped"}, stats.Host, "softnet.dropped"))
	}
	return found
}

// backlogDrops is how many packets of this namespace found the kernel's backlog full. softnet.dropped is of the whole machine; the kernel counts
// each of these packets as dropped by its interface too (enqueue_to_backlog).
func (e *Evidence) backlogDrops() uint64 {
	all, _ := e.delta(stats.Host, "softnet.dropped")
	ours, _ := e.delta(stats.Host, "rx_dropped")
	return min(all, ours)
}

// cards: what interfaces and their cards have lost. A driver counts what an AF_XDP socket could not take as dropped too.
func cards(e *Evidence) (found []Finding) {
	var evidence []string
	var n uint64
	f := Finding{counter: "interface.rx_dropped"}
	for _, c := range []string{"rx_dropped", "rx_errors", "rx_fifo_errors"} {
		k, list := e.delta(stats.Host, c)
		if n, evidence = n+k, append(evidence, list...); k > 0 && f.Since.IsZero() {
			f = e.sampledAt(f, stats.Host, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Deltas)) {
		if v := e.Deltas[name]; v > 0 && strings.HasPrefix(name, stats.Host+".") && strings.Contains(name, ".ethtool.") && strings.Contains(name, "rx") {
			evidence = append(evidence, fmt.Sprintf("%s +%d", strings.TrimPrefix(name, stats.Host+"."), v))
		}
	}
	ring, _ := e.delta(stats.Host, "xdp.rx_dropped")
	if full, _ := e.delta(stats.Host, "xdp.rx_ring_full"); ring+full+e.backlogDrops() >= n {
		return nil
	}
	f.Place, f.Cause, f.Count, f.Unit, f.Evidence = Card, "the interface dropped packets before the ring and the kernel's IP", n, "packets", evidence
	return []Finding{f}
}
