package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// blameGap adds the longest poll gap and its cause to a finding of something that was full because nobody polled, and places the finding where
// the cause is. Without a gap the finding stays as it is.
func (e *Evidence) blameGap(f *Finding) {
	longest, cause, at := e.gap()
	if longest == 0 {
		return
	}
	if cause == "" {
		cause = "the cause is not known"
	}
	f.Place = blame(cause)
	f.Cause += fmt.Sprintf("; the loop did not poll for %v: %s", longest.Round(time.Microsecond), cause)
	f.Evidence = append(f.Evidence, fmt.Sprintf("poll gap of %v until %s", longest.Round(time.Microsecond), at.Format("15:04:05.000000")))
}

// wholeRing: the receive ring of an AF_XDP socket was full.
func wholeRing(e *Evidence) []Finding {
	n, first, evidence := e.loss(stats.Host, "xdp.rx_ring_full", "memory.rx_ring_full")
	if n == 0 {
		return nil
	}
	f := Finding{Place: Ring, Cause: "the ring was full", Count: n, Unit: "frames", Time: first, Evidence: evidence}
	e.blameGap(&f)
	return []Finding{f}
}

// noBuffers: no buffer lay ready for a frame.
func noBuffers(e *Evidence) []Finding {
	n, first, evidence := e.loss(stats.Host, "xdp.rx_dropped", "memory.rx_no_buffer")
	m, first2, more := e.loss("driver", "stack.no_buffer")
	if n += m; n == 0 {
		return nil
	}
	if first.IsZero() {
		first = first2
	}
	_, empty := e.delta(stats.Host, "xdp.rx_fill_ring_empty_descs")
	used, all := e.Most["poller.buffers_used_peak"], e.Most["poller.buffers"]
	f := Finding{Place: Ring, Cause: "no buffer lay ready for the card", Count: n, Unit: "frames", Time: first,
		Evidence: append(append(evidence, more...), append(empty, fmt.Sprintf("buffers in use: at most %d of %d", used, all))...)}
	if all > 0 && 2*used >= all { // the rest lies with the card, or is kept for sending
		f.Place, f.Cause = Application, fmt.Sprintf("no buffer lay ready for the card: %d of %d are held, packets are not released", used, all)
	} else {
		e.blameGap(&f)
	}
	return []Finding{f}
}

// reasons are the places of the drops that an offloaded ring's stack counts, with what they mean. Others than these are damaged or wrong when
// they come.
var reasons = map[string]struct {
	place Place
	means string
}{
	"udp.budget":           {Socket, "the socket's budget was spent: it is read too slowly, or its packets are held"},
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
		n, first, evidence := e.loss(stats.Drops, row.Name)
		if n == 0 {
			continue
		}
		f := Finding{Place: Upstream, Cause: row.Name + ": " + row.Help + "; the sender or the network sent it so", Count: n, Unit: "frames", Time: first,
			Evidence: evidence}
		if x, ok := reasons[row.Name]; ok {
			f.Place, f.Cause = x.place, row.Name+": "+x.means
		}
		if row.Name == "udp.budget" {
			f.Evidence = append(f.Evidence, fmt.Sprintf("sockets held at most %d bytes, and %d packets waited in their queues, when a sample was taken",
				e.Most["socket.held_bytes"], e.Most["socket.queued_packets"]))
			if longest, cause, at := e.gap(); longest > 0 {
				f.Evidence = append(f.Evidence, fmt.Sprintf("poll gap of %v until %s: %s", longest, at.Format("15:04:05.000000"), cause))
			}
		}
		found = append(found, f)
	}
	return found
}

// otherRings: datagrams lost on their way from one ring to another.
func otherRings(e *Evidence) (found []Finding) {
	for counter, cause := range map[string]string{
		"handover.full": "the queue to the ring that has the socket was full", "handover.closed": "the ring that has the socket was being closed",
		"handover.no_socket": "the socket was closed meanwhile", "stack.loop_full": "too many datagrams of this host's own waited"} {
		if n, first, evidence := e.loss("driver", counter); n > 0 {
			f := Finding{Place: Ring, Cause: cause, Count: n, Unit: "datagrams", Time: first, Evidence: evidence}
			if counter == "handover.full" {
				e.blameGap(&f)
			}
			found = append(found, f)
		}
	}
	return found
}

// kernelSockets: the receive buffers of sockets that the kernel receives for.
func kernelSockets(e *Evidence) []Finding {
	n, first, evidence := e.loss("socket", "drops")
	if budget, _, _ := e.loss(stats.Drops, "udp.budget"); budget > 0 {
		n -= min(n, budget) // socket.drops counts these datagrams too, and stackDrops reports them
	}
	if n == 0 {
		return nil
	}
	for _, c := range []string{"udp.RcvbufErrors", "udp.MemErrors"} {
		_, more := e.delta(stats.Host, c)
		evidence = append(evidence, more...)
	}
	f := Finding{Place: Socket, Cause: "the kernel's receive buffer of the socket was full: it is read too slowly", Count: n, Unit: "datagrams", Time: first,
		Evidence: evidence}
	e.blameGap(&f)
	if f.Place == Ring { // the gap has no cause outside the program: here the socket's buffer was full, not a ring
		f.Place = Socket
	}
	return []Finding{f}
}

// unservedQueues: claimed frames that came by a queue of the card that no ring serves. The kernel has them; they are late, not lost, unless its
// buffers are full too.
func unservedQueues(e *Evidence) []Finding {
	n, evidence := e.delta(stats.Host, "steer.no_queue")
	if n == 0 {
		return nil
	}
	return []Finding{{Place: Card, Cause: "frames came by a queue of the card that no ring serves: they take the way through the kernel", Count: n,
		Unit: "frames", Evidence: evidence}}
}

// memberships: a group was left, or the kernel has fewer than before.
func memberships(e *Evidence) (found []Finding) {
	for i := range e.Events {
		if x := &e.Events[i]; x.Kind == stats.EventLeave.String() {
			found = append(found, Finding{Place: Application, Cause: "the program left a group: " + x.Text, Time: x.Time, Evidence: []string{"journal: leave " + x.Text}})
		}
	}
	for name, before := range e.Before {
		if !strings.HasPrefix(name, stats.Host+".") || !strings.HasSuffix(name, ".groups") || e.Least[name] >= before || len(found) > 0 {
			continue
		}
		found = append(found, Finding{Place: Kernel, Cause: "a membership was lost: the kernel has fewer groups on the interface than before",
			Count: before - e.Least[name], Unit: "groups", Evidence: []string{fmt.Sprintf("%s %d, before %d", name, e.Least[name], before)}})
	}
	return found
}

// programs: the steering program was taken off an interface, or another one put in its place.
func programs(e *Evidence) (found []Finding) {
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind == stats.EventLink.String() && (strings.Contains(x.Text, "XDP program was") && !strings.Contains(x.Text, "was none") ||
			strings.Contains(x.Text, "xdp.busy") || strings.Contains(x.Text, "link.detached")) {
			n, evidence := e.delta("driver", "offload.os_packets")
			found = append(found, Finding{Place: Kernel, Cause: "the steering program was displaced, and packets take the way through the kernel: " + x.Text,
				Count: n, Unit: "packets through the kernel", Time: x.Time, Evidence: append(evidence, "journal: link "+x.Text)})
		}
	}
	return found
}

// links: an interface was down.
func links(e *Evidence) (found []Finding) {
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventLink.String() {
			continue
		}
		for _, sign := range []string{"was set down", "carrier was lost", "link.down", "link.gone", "was deleted"} {
			if strings.Contains(x.Text, sign) {
				found = append(found, Finding{Place: Card, Cause: "the interface carried nothing: " + x.Text, Time: x.Time, Evidence: []string{"journal: link " + x.Text}})
				break
			}
		}
	}
	return found
}

// firewall: packets that reached the kernel's IP, and no protocol of it, and no counter says why.
func firewall(e *Evidence) []Finding {
	ip := func(name string) uint64 { n, _ := e.delta(stats.Host, "ip."+name); return n }
	in, out := ip("InReceives"), ip("InDelivers")
	for _, c := range []string{"InHdrErrors", "InAddrErrors", "InUnknownProtos", "InDiscards", "ForwDatagrams", "InNoRoutes", "InTruncatedPkts", "InCsumErrors"} {
		out += ip(c)
	}
	out += ip("ReasmReqds") - min(ip("ReasmReqds"), ip("ReasmOKs"))
	if in <= out {
		return nil
	}
	return []Finding{{Place: Kernel, Cause: "the kernel dropped packets between IP and UDP without an error: a rule of the firewall (nft list ruleset), or " +
		"multicast for groups that no socket has joined", Count: in - out, Unit: "packets",
		Evidence: []string{fmt.Sprintf("ip.InReceives +%d", in), fmt.Sprintf("ip.InDelivers +%d", ip("InDelivers"))}}}
}

// kernelDrops: what the kernel counts before its sockets.
func kernelDrops(e *Evidence) (found []Finding) {
	for _, x := range []struct {
		counter, cause string
		place          Place
	}{
		{"softnet.dropped", "the kernel's backlog between card and IP was full (net.core.netdev_max_backlog)", Kernel},
		{"udp.InCsumErrors", "the UDP checksum was wrong: the sender or the network damages datagrams", Upstream},
		{"ip.InHdrErrors", "the IPv4 header was wrong: the sender or the network damages packets", Upstream},
		{"ip.InCsumErrors", "the IPv4 checksum was wrong: the sender or the network damages packets", Upstream},
		{"ip.InNoRoutes", "no route, or the reverse path filter refused the sender (net.ipv4.conf.*.rp_filter)", Kernel},
		{"ip.InDiscards", "the kernel discarded packets for want of memory", Kernel},
		{"ip.ReasmFails", "fragments could not be put together: one was lost", Upstream},
		{"udp.IgnoredMulti", "multicast that no socket wanted: none had joined the group here, or its filter of sources refused the sender", Socket},
		{"udp.NoPorts", "no socket had the port", Socket},
	} {
		if n, evidence := e.delta(stats.Host, x.counter); n > 0 {
			found = append(found, Finding{Place: x.place, Cause: x.cause, Count: n, Unit: "packets", Evidence: evidence,
				unrelated: x.counter == "udp.NoPorts"})
		}
	}
	return found
}

// cards: what interfaces and their cards have lost.
func cards(e *Evidence) (found []Finding) {
	var evidence []string
	var n uint64
	for _, c := range []string{"rx_dropped", "rx_errors", "rx_fifo_errors"} {
		k, list := e.delta(stats.Host, c)
		n, evidence = n+k, append(evidence, list...)
	}
	for name, v := range e.Deltas {
		if v > 0 && strings.HasPrefix(name, stats.Host+".") && strings.Contains(name, ".ethtool.") && strings.Contains(name, "rx") {
			evidence = append(evidence, fmt.Sprintf("%s +%d", strings.TrimPrefix(name, stats.Host+"."), v))
		}
	}
	if n > 0 {
		found = append(found, Finding{Place: Card, Cause: "the interface dropped packets before the ring and the kernel's IP", Count: n, Unit: "packets",
			Evidence: evidence})
	}
	return found
}

// feedGaps: messages that a feed's lines did not bring. With no loss here they were lost upstream; beside one it is not known which.
func feedGaps(e *Evidence, found []Finding) (more []Finding) {
	local, other := false, false
	for i := range found {
		if found[i].unrelated {
			continue
		}
		local = local || found[i].Lost()
		other = other || found[i].Place != Upstream
	}
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventFeedGap.String() {
			continue
		}
		f := Finding{Place: Upstream, Cause: "the sender or the network lost messages, and nothing was lost on this host: " + x.Text, Count: x.Count, Unit: "messages",
			Time: x.Time, Evidence: append([]string{"journal: feed_gap " + x.Text}, e.received()...)}
		if local || other {
			f.Place, f.Cause = Unknown, "messages are missing, perhaps because of what else was found here: "+x.Text
		}
		more = append(more, f)
	}
	return more
}
