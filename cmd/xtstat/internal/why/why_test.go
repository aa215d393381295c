package why

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// samples are two of a second each, between which counters grow by delta.
func samples(delta map[string]uint64) []stats.Sample {
	before, after := map[string]uint64{"ring.packets": 100}, map[string]uint64{"ring.packets": 200}
	for name, v := range delta {
		before[name], after[name] = 1000, 1000+v
	}
	return []stats.Sample{{Time: noon, Interval: time.Second, Values: before}, {Time: noon.Add(time.Second), Interval: time.Second, Values: after}}
}

// Each cause is named with its place and its count, and no other place is.
func TestCausesAndPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		delta  map[string]uint64
		events []stats.Event
		levels map[string]uint64
		place  Place
		cause  string
		count  uint64
	}{
		"firewall": {delta: map[string]uint64{"host.ip.InReceives": 50, "host.ip.InDelivers": 41, "host.ip.ForwDatagrams": 2, "host.ip.ReasmReqds": 4,
			"host.ip.ReasmOKs": 2}, place: Kernel, cause: "firewall", count: 5},
		"queue without a ring":  {delta: map[string]uint64{"host.eth0.steer.no_queue": 9}, place: Card, cause: "no ring serves", count: 9},
		"backlog":               {delta: map[string]uint64{"host.softnet.dropped": 9, "host.eth0.rx_dropped": 3}, place: Kernel, cause: "netdev_max_backlog", count: 3},
		"card":                  {delta: map[string]uint64{"host.eth0.rx_dropped": 8, "host.eth0.ethtool.rx_out_of_buffer": 8}, place: Card, cause: "the interface dropped", count: 8},
		"source filter, kernel": {delta: map[string]uint64{"host.udp.IgnoredMulti": 4}, place: Socket, cause: "filter of sources", count: 4},
		"source filter, stack":  {events: []stats.Event{drop(500, 6, "udp.group_not_joined")}, place: Socket, cause: "filter of sources", count: 6},
		"VLAN tag":              {events: []stats.Event{drop(500, 2, "eth.tag")}, place: Card, cause: "VLAN tag", count: 2},
		"held buffers": {delta: map[string]uint64{"host.eth0/1.xdp.rx_dropped": 7, "host.eth0/1.xdp.rx_fill_ring_empty_descs": 7},
			levels: map[string]uint64{"poller.buffers": 1000, "poller.buffers_used_peak": 900}, place: Application, cause: "are held", count: 7},
		"collection": {delta: map[string]uint64{"host.eth0/1.xdp.rx_ring_full": 7},
			events: []stats.Event{pollGap(500, 5e6, "garbage collection", "")}, place: Application, cause: "garbage collection", count: 7},
		"host": {delta: map[string]uint64{"host.eth0/1.xdp.rx_ring_full": 7},
			events: []stats.Event{pollGap(500, 50e6, "steal", ": the host took the processors for 40ms")}, place: Kernel, cause: "steal", count: 7},
		"tag, kernel": {delta: map[string]uint64{"host.eth0.rx_otherhost_dropped": 5}, place: Card, cause: "VLAN tag", count: 5},
		"preempted": {delta: map[string]uint64{"host.eth0/1.xdp.rx_ring_full": 7},
			events: []stats.Event{pollGap(500, 5e6, "preempted", "")}, place: Kernel, cause: "preempted", count: 7},
		"checksum, kernel":  {delta: map[string]uint64{"host.udp.InCsumErrors": 3}, place: Upstream, cause: "checksum", count: 3},
		"backlog of others": {delta: map[string]uint64{"host.softnet.dropped": 9}, place: Upstream, cause: "nothing was lost on this host"},
		"nothing":           {place: Upstream, cause: "nothing was lost on this host"},
	} {
		t.Run(name, func(t *testing.T) {
			list := samples(c.delta)
			for i := range c.events {
				c.events[i].Number = 2 // there was one before, which the journal has no more: drops may be missing in it
			}
			for column, v := range c.levels {
				list[0].Values[column], list[1].Values[column] = v, v
			}
			found := Explain(Gather(list, c.events, noon.Add(100*time.Millisecond), noon.Add(900*time.Millisecond)))
			require.Len(t, found, 1, "%+v", found)
			require.Equal(t, c.place, found[0].Place)
			require.Contains(t, found[0].Cause, c.cause)
			require.Equal(t, c.count, found[0].Count)
		})
	}
}

// A gap in a feed is upstream when nothing was lost here, and else it is not known; what nobody wanted does not matter.
func TestFeedGapsBesideLosses(t *testing.T) {
	gap := feedGap(500, 3, 0, "deep 1-3")
	last := func(delta map[string]uint64, events ...stats.Event) Finding {
		found := Explain(Gather(samples(delta), append(events, gap), noon.Add(100*time.Millisecond), noon.Add(900*time.Millisecond)))
		i := slices.IndexFunc(found, func(f Finding) bool { return f.kind == aboutFeed })
		require.GreaterOrEqual(t, i, 0, "%+v", found)
		return found[i]
	}
	f := last(nil)
	require.Equal(t, Upstream, f.Place)
	require.EqualValues(t, 3, f.Count)
	require.Equal(t, Upstream, last(map[string]uint64{"host.udp.NoPorts": 5}).Place)
	require.Equal(t, Unknown, last(nil, drop(500, 1, "udp.budget")).Place)
	require.Equal(t, Unknown, last(map[string]uint64{"host.ip.InReceives": 5}).Place)
}

// Where counters of the host are missing, a loss of the host may be among them: nothing is called upstream for want of a cause here.
func TestCountersThatAreMissing(t *testing.T) {
	for _, events := range [][]stats.Event{nil, {feedGap(500, 3, 0, "deep 1-3")}} {
		e := Gather(samples(nil), events, noon.Add(100*time.Millisecond), noon.Add(900*time.Millisecond))
		e.Homeless = 13
		found := Explain(e)
		require.Len(t, found, 1)
		require.Equal(t, Unknown, found[0].Place)
		require.Contains(t, found[0].Cause, "13 counters of this host found no room")
	}
}

// Events and samples outside of the window are not of it.
func TestWindow(t *testing.T) {
	list := samples(map[string]uint64{"host.softnet.dropped": 3})
	far := drop(3600_000, 9, "udp.budget")
	found := Explain(Gather(list, []stats.Event{far}, noon.Add(2*time.Second), noon.Add(3*time.Second)))
	require.Len(t, found, 1)
	require.Equal(t, Unknown, found[0].Place)
	require.Contains(t, found[0].Cause, "no sample covers")
	require.Equal(t, []string{"outside of this time the journal has, next to it: 13:00:00.000 drop udp.budget (--at 13:00:00)"}, found[0].Evidence)
	near := feedGap(-500, 3, 0, "deep 1-3 missing")
	found = Explain(Gather(list, []stats.Event{near, pollGap(-400, 1e6, "unknown", ""), far}, noon.Add(2*time.Second), noon.Add(3*time.Second)))
	require.Equal(t, []string{"outside of this time the journal has, next to it: 11:59:59.500 feed_gap deep 1-3 missing (--at 11:59:59)"}, found[0].Evidence)
}

// What was lost before the first sample of the file is in the findings: the process has counted it from zero. What the kernel had counted before
// the process began is not, nor is what an older first sample has, in front of which others were written over.
func TestLossesBeforeTheFirstSample(t *testing.T) {
	explain := func(number uint64) (found []Finding) {
		list := []stats.Sample{{Number: number, Time: noon, Interval: time.Second, Values: map[string]uint64{"host.eth0/1.xdp.rx_ring_full": 7, "ring.packets": 100,
			"ring.polls": 1000, "host.softnet.dropped": 900, "host.eth0.rx_dropped": 900, "host.ip.InReceives": 5000, "host.lo.groups": 2}}}
		for i := range 2 {
			next := stats.Sample{Number: number + 1, Time: noon.Add(time.Duration(i+1) * time.Second), Interval: time.Second, Values: list[0].Values}
			list = append(list, next)
		}
		return Explain(Gather(list, nil, noon.Add(-500*time.Millisecond), noon.Add(500*time.Millisecond)))
	}
	found := explain(1)
	require.Len(t, found, 1, "%+v", found)
	require.Contains(t, found[0].Cause, "the ring was full")
	require.EqualValues(t, 7, found[0].Count)
	require.Equal(t, []time.Time{noon.Add(-time.Second), noon}, []time.Time{found[0].Since, found[0].Until})
	found = explain(2)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Cause, "nothing was lost on this host")
}

// What is lost at two times is two findings, each with its time and with the gap between polls that it is from; a gap in a feed at another time
// than a loss of this host is upstream.
func TestEachLossHasItsTime(t *testing.T) {
	found, _ := explained(map[string]uint64{"host.v0/0.xdp.rx_dropped": 49},
		pollGap(1000, 400e6, "timers", ": they took 400ms"),
		drop(1010, 30, "v0/0.xdp.rx_dropped"),
		drop(1020, 12, "v0/0.xdp.rx_dropped"),
		feedGap(1030, 42, 0, "deep 1-42"),
		feedGap(1031, 8, 0, "deep 50-57"),
		feedGap(5000, 3, 0, "deep 100-102"),
		pollGap(8000, 50e6, "garbage collection", ": one was under way"),
		drop(8010, 7, "v0/0.xdp.rx_dropped"))
	require.Len(t, found, 4, "%+v", found)
	first, beside, second, upstream := found[0], found[1], found[2], found[3]
	require.Equal(t, Application, first.Place)
	require.Contains(t, first.Cause, "timers")
	require.EqualValues(t, 42, first.Count)
	require.Equal(t, noon.Add(600*time.Millisecond), first.Time, "when the gap began")
	require.Equal(t, noon.Add(1020*time.Millisecond), first.Until)
	require.Contains(t, second.Cause, "garbage collection")
	require.EqualValues(t, 7, second.Count)
	require.Equal(t, Unknown, beside.Place)
	require.EqualValues(t, 50, beside.Count)
	require.Equal(t, first.Number, beside.BecauseOf)
	require.Equal(t, Upstream, upstream.Place)
	require.EqualValues(t, 3, upstream.Count)
}

// Packets that the kernel has counted as multicast for a member and not delivered were dropped by a rule; others are of groups or sources that
// nothing wants.
func TestFirewallAndFilters(t *testing.T) {
	explain := func(delta map[string]uint64) []Finding {
		list := samples(delta)
		for i := range list {
			list[i].Values["host.v0.groups"] = 2
		}
		return Explain(Gather(list, nil, noon.Add(100*time.Millisecond), noon.Add(900*time.Millisecond)))
	}
	found := explain(map[string]uint64{"host.ip.InReceives": 1000, "host.ip.InDelivers": 960, "host.ip.InMcastPkts": 900, "host.tcp.InSegs": 100})
	require.Len(t, found, 1, "%+v", found)
	require.Equal(t, Kernel, found[0].Place)
	require.EqualValues(t, 40, found[0].Count)
	require.Equal(t, [2]time.Time{noon, noon.Add(time.Second)}, [2]time.Time{found[0].Since, found[0].Until})
	found = explain(map[string]uint64{"host.ip.InReceives": 1000, "host.ip.InDelivers": 960, "host.ip.InMcastPkts": 860, "host.tcp.InSegs": 100})
	require.Len(t, found, 1, "%+v", found)
	require.Equal(t, Socket, found[0].Place)
	require.EqualValues(t, 40, found[0].Count)
}

// Multicast that this host sends on the loopback interface comes back there and is counted as received also where no socket has joined the
// group: its own IGMP reports are no loss, nor is what nobody on this host wants. Only what cannot be of that kind was dropped by a rule for
// certain.
func TestMulticastOfThisHostOnLoopback(t *testing.T) {
	reports := map[string]uint64{"ip.InReceives": 2, "ip.InMcastPkts": 2, "ip.OutMcastPkts": 2, "ip.OutRequests": 2, "lo.rx_packets": 2}
	for name, x := range map[string]struct {
		delta  []map[string]uint64 // added up
		groups uint64              // joined on lo
		want   []string            // findings
		lost   uint64
	}{
		"reports alone": {delta: []map[string]uint64{reports}, groups: 3},
		"reports beside other traffic": {delta: []map[string]uint64{reports, {"ip.InReceives": 600, "ip.InDelivers": 600, "ip.OutRequests": 600, "lo.rx_packets": 600,
			"udp.OutDatagrams": 300, "tcp.InSegs": 250, "tcp.OutSegs": 240, "tcp.RetransSegs": 10, "icmp.OutMsgs": 50}}, groups: 3},
		"reports beside long segments": {delta: []map[string]uint64{reports, {"ip.InReceives": 100, "ip.InDelivers": 100, "ip.OutRequests": 100, "lo.rx_packets": 100,
			"tcp.InSegs": 900, "tcp.OutSegs": 900}}, groups: 3},
		"reports, and a rule for what comes by a card": {delta: []map[string]uint64{reports, {"ip.InReceives": 40, "ip.InMcastPkts": 40}}, groups: 3,
			want: []string{"kernel 40 a rule of the firewall"}, lost: 40},
		"a rule for what this host sends to members": {delta: []map[string]uint64{reports, {"ip.InReceives": 40, "ip.InMcastPkts": 40, "ip.OutMcastPkts": 40,
			"ip.OutRequests": 40, "lo.rx_packets": 40, "udp.OutDatagrams": 40}}, groups: 3, want: []string{"socket 40 a rule of the firewall"}, lost: 40},
		"no member on the loopback interface": {delta: []map[string]uint64{{"ip.InReceives": 40, "ip.InMcastPkts": 40, "ip.OutMcastPkts": 40,
			"ip.OutRequests": 40, "lo.rx_packets": 40, "udp.OutDatagrams": 40}}, groups: 1, want: []string{"socket 40 where no socket had joined"}},
	} {
		t.Run(name, func(t *testing.T) {
			sum := map[string]uint64{}
			for _, part := range x.delta {
				for counter, n := range part {
					sum["host."+counter] += n
				}
			}
			list := samples(sum)
			for i := range list {
				list[i].Values["host.lo.groups"] = x.groups
			}
			require.Equal(t, []uint64{0, x.lost}, Lost(list))
			var got []string
			for _, f := range Explain(Gather(list, nil, noon.Add(100*time.Millisecond), noon.Add(900*time.Millisecond))) {
				if f.Place == Upstream {
					require.Contains(t, f.Cause, "nothing was lost on this host")
					continue
				}
				text := f.Cause + strings.Join(f.Evidence, "")
				for _, cause := range []string{"a rule of the firewall", "where no socket had joined"} {
					if strings.Contains(text, cause) {
						got = append(got, fmt.Sprintf("%s %d %s", f.Place, f.Count, cause))
					}
				}
			}
			require.Equal(t, x.want, got)
		})
	}
}

// A membership that was lost is told of each interface that has fewer groups.
func TestLostMembershipsOfInterfaces(t *testing.T) {
	list := samples(nil)
	for _, name := range []string{"host.eth0.groups", "host.eth1.groups", "host.eth2.groups"} {
		list[0].Values[name], list[1].Values[name] = 3, 2
	}
	list[1].Values["host.eth2.groups"] = 3
	e := Gather(list, nil, noon.Add(100*time.Millisecond), noon.Add(900*time.Millisecond))
	e.JoinedOn = map[string]int{"eth0": 2, "eth1": 2, "eth2": 2}
	found := Explain(e)
	require.Len(t, found, 2, "%+v", found)
	for i, evidence := range []string{"host.eth0.groups 2, before 3", "host.eth1.groups 2, before 3"} {
		require.Equal(t, Kernel, found[i].Place)
		require.EqualValues(t, 1, found[i].Count)
		require.Equal(t, []string{evidence}, found[i].Evidence)
	}
}

// An interface that comes up again ends the finding of that interface, not of one whose name is the end of its name.
func TestInterfaceIsUpAgain(t *testing.T) {
	found := Explain(Gather(samples(nil), []stats.Event{link(100, "eth0", stats.CodeCarrierLost, "the carrier was lost"),
		link(200, "veth0", stats.CodeCarrierBack, "the carrier is there"), link(700, "eth0", stats.CodeCarrierBack, "the carrier is there")}, noon,
		noon.Add(time.Second)))
	require.Len(t, found, 1, "%+v", found)
	require.Equal(t, noon.Add(700*time.Millisecond), found[0].Until)
}

// journal is an event of the journal some milliseconds after noon.
func journal(ms int, kind stats.EventKind, count uint64, text string) stats.Event {
	at := noon.Add(time.Duration(ms) * time.Millisecond)
	return stats.Event{Number: 1, Time: at, Kind: kind.String(), Count: count, Text: text, Earliest: at, Latest: at, End: at}
}

// pollGap is a gap between polls that ends then.
func pollGap(ms int, length uint64, code, more string) stats.Event {
	x := journal(ms, stats.EventPollGap, length, code+more)
	x.Name, x.Code, x.Earliest = "feed", code, x.Time.Add(-time.Duration(length))
	x.Latest = x.Earliest
	return x
}

// drop is a counter of a loss that has grown.
func drop(ms int, n uint64, counter string) stats.Event {
	x := journal(ms, stats.EventDrop, n, counter)
	x.Code = counter
	if of, row := stats.SectionOf(stats.Drivers).Split(counter); row != nil {
		x.Name, x.Code = of, row.Name
	}
	return x
}

// feedGap is a gap in a feed that is noticed then, so many milliseconds behind the last packet in front of it; 0: that is not known.
func feedGap(ms int, messages uint64, before int, text string) stats.Event {
	x := journal(ms, stats.EventFeedGap, messages, text)
	x.Name, _, _ = strings.Cut(text, " ")
	x.Earliest = x.Time.Add(-time.Duration(before) * time.Millisecond)
	x.Latest = x.Earliest
	return x
}

// link is what happened to an interface.
func link(ms int, name, code, text string) stats.Event {
	x := journal(ms, stats.EventLink, 1, name+": "+text)
	x.Name, x.Code = name, code
	return x
}

// kernelPackets tells that packets of a socket begin to come through the kernel, or that they have ended.
func kernelPackets(ms int, n uint64, code string) stats.Event {
	x := journal(ms, stats.EventPath, n, "kernel_packets")
	x.Name, x.Code = "kernel_packets", code
	return x
}

// explained are the findings of a window of ten seconds as "number<because of: place count".
func explained(delta map[string]uint64, events ...stats.Event) (found []Finding, list []string) {
	found = Explain(Gather(samples(delta), events, noon, noon.Add(10*time.Second)))
	for _, f := range found {
		list = append(list, fmt.Sprintf("%d<%d: %s %d", f.Number, f.BecauseOf, f.Place, f.Count))
	}
	return found, list
}

// The cause of the largest loss comes first, behind it what follows from it, then the next cause.
func TestCausesStandBeforeWhatFollows(t *testing.T) {
	found, list := explained(map[string]uint64{"host.ip.InReceives": 40, "host.ip.InDelivers": 0},
		journal(100, stats.EventLeave, 1, "233.252.0.1 fd=9"),
		drop(110, 12, "udp.group_not_joined"),
		journal(200, stats.EventJoin, 1, "233.252.0.1 fd=9"),
		feedGap(202, 90, 101, "deep 1-90 missing on a: no recovery"),
		pollGap(6000, 400e6, "timers", ": they took 400ms"),
		drop(6010, 70, "v0/0.xdp.rx_dropped"),
		feedGap(6011, 210, 5, "deep 100-309 missing on a: no recovery"))
	require.Equal(t, []string{"1<0: application 70", "2<1: unknown 210", "3<0: application 52", "4<3: kernel 40", "5<3: socket 12", "6<3: application 90"}, list, "%+v", found)
	require.Equal(t, "6 findings; 1 and 3 are causes, that of the largest loss first; behind each what follows from it", Summary(found))
	require.Contains(t, found[2].Cause, "left a group")
	require.Equal(t, noon.Add(101*time.Millisecond), found[5].Time, "since the last packet in front of it")
}

// An interface that was down is the cause of the program that went with it, and of packets that came through the kernel then.
func TestTheInterfaceBeforeItsProgram(t *testing.T) {
	found, list := explained(map[string]uint64{"host.v0.steer.no_queue": 5},
		link(100, "v0", "link.detached", "link.detached: the program is no longer on interface 2"),
		link(100, "v0", stats.CodeDown, "the interface was set down"),
		link(300, "v0", stats.CodeUp, "the interface was set up"))
	require.Equal(t, []string{"1<0: card 0", "2<1: card 5", "3<1: kernel 0"}, list, "%+v", found)
}

// A gap in a feed that says since when messages are missing does not follow from what this host lost before or after: it is upstream, although a
// loop that did not poll stands beside it in the same second.
func TestAStallBesideIsNotTheCause(t *testing.T) {
	found, list := explained(nil,
		pollGap(1000, 300e6, "preempted", ": another thread had the processor for 300ms"),
		drop(1000, 500, "v0/0.xdp.rx_dropped"),
		feedGap(1300, 3, 4, "deep 1-3 missing on a: no recovery"),
		pollGap(1500, 90e6, "preempted", ": another thread had the processor for 90ms"))
	require.Equal(t, []string{"1<0: upstream 3", "2<0: kernel 500"}, list, "%+v", found)
	require.Equal(t, "2 findings that do not follow from each other, that of the largest loss first; finding 2: this machine was busy, no feed has a gap then",
		Summary(found))
	_, list = explained(nil,
		drop(1000, 500, "v0/0.xdp.rx_dropped"),
		feedGap(1300, 3, 0, "deep 1-3 missing on a"))
	require.Equal(t, []string{"1<0: ring 500", "2<1: unknown 3"}, list, "without since it is not known")
}

// Of what samples have counted in a second a gap in a feed tells the time, unless something else explains that gap.
func TestAGapInAFeedTellsTheTime(t *testing.T) {
	rule := map[string]uint64{"host.ip.InReceives": 40, "host.ip.InMcastPkts": 40}
	gap := feedGap(520, 120, 20, "deep 1-120 missing on a: no recovery")
	found, list := explained(rule, gap)
	require.Equal(t, []string{"1<0: kernel 40", "2<1: unknown 120"}, list, "%+v", found)
	require.Equal(t, [2]time.Time{noon.Add(500 * time.Millisecond), noon.Add(520 * time.Millisecond)}, [2]time.Time{found[0].Time, found[0].Until})
	found, _ = explained(rule, drop(515, 40, "udp.budget"), gap)
	i := slices.IndexFunc(found, func(f Finding) bool { return f.Place == Kernel })
	require.Zero(t, found[i].Time, "%+v", found)
	require.Equal(t, noon, found[i].Since)
}

// Buffers that were held explain a loss that lasts; one that a gap between polls covers is from the gap.
func TestHeldBuffersAndAGap(t *testing.T) {
	explain := func(events ...stats.Event) string {
		list := samples(nil)
		for i := range list {
			list[i].Values["poller.buffers"], list[i].Values["poller.buffers_used_peak"] = 1000, 900
		}
		found := Explain(Gather(list, events, noon, noon.Add(10*time.Second)))
		require.Len(t, found, 1, "%+v", found)
		return found[0].Cause
	}
	lost := func(ms int) stats.Event { return drop(ms, 12, "v0.xdp.rx_dropped") }
	gap := func(ms int, length uint64) stats.Event {
		return pollGap(ms, length, stats.CodePreempted, ": another thread had the processor")
	}
	require.Contains(t, explain(gap(100, 60e6), lost(105)), "did not poll for 60ms")
	require.Contains(t, explain(lost(105), gap(200, 60e6), lost(300)), "900 of 1000 are held")
	require.Contains(t, explain(gap(100, 2e6), lost(105)), "900 of 1000 are held")
}

// What was lost in a gap between polls was lost until its end, also if the journal has it in the middle: a gap in a feed behind it is no loss
// upstream.
func TestALossLastsUntilTheEndOfItsGap(t *testing.T) {
	found, list := explained(nil,
		drop(1200, 500, "v0.xdp.rx_dropped"),
		pollGap(1400, 400e6, "stopped", ": no thread of the process ran"),
		feedGap(1405, 1500, 2, "deep 1-1500 missing on a: no recovery"))
	require.Equal(t, []string{"1<0: application 500", "2<1: unknown 1500"}, list, "%+v", found)
	require.Equal(t, noon.Add(1400*time.Millisecond), found[0].Until)
}

// Packets that came through the kernel have the begin, the end and the number that the journal has.
func TestWayThroughTheKernel(t *testing.T) {
	found, list := explained(map[string]uint64{"host.v0.steer.no_queue": 30},
		kernelPackets(240, 12, stats.CodeBegan), kernelPackets(260, 30, stats.CodeEnded))
	require.Equal(t, []string{"1<0: card 30"}, list)
	require.Equal(t, [2]time.Time{noon.Add(240 * time.Millisecond), noon.Add(260 * time.Millisecond)}, [2]time.Time{found[0].Time, found[0].Until})
	require.Contains(t, found[0].Evidence, "journal: 30 packets came through the kernel, from 12:00:00.240 to 12:00:00.260")
}

// The budget's finding names the sockets that have dropped.
func TestBudgetNamesTheSocket(t *testing.T) {
	of := drop(110, 93, "drops")
	of.Of, of.About = "socket 3", "fd=48 10.0.0.1:5000"
	found, _ := explained(nil, drop(100, 93, "udp.budget"), of)
	require.Equal(t, []string{"journal: udp.budget +93", "socket fd=48 10.0.0.1:5000: drops +93"}, found[0].Evidence)
}

// Of a process of an older version, whose events have only a text, it is said that the journal's part is missing.
func TestJournalWithoutFields(t *testing.T) {
	e := Gather(samples(map[string]uint64{"host.udp.InCsumErrors": 3}), nil, noon, noon.Add(time.Second))
	e.TextOnly = true
	found := Explain(e)
	require.Len(t, found, 2)
	require.Equal(t, 2, found[1].Number)
	require.Contains(t, found[1].Cause, "older version")
}

// A gap in a feed begins with the last packet in front of it, if the feed's pace fills the time until the first packet behind it. A sender that
// was silent before lost less: what it skipped took as long as the pace says. It ends with the first packet behind.
func TestBeginOfAGapInAFeed(t *testing.T) {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct{ earliest, latest, end, noticed, begin int }{
		{1000, 1005, 1100, 1102, 1000}, // an outage
		{1000, 1997, 2000, 2002, 1997}, // silence, and then some were skipped
		{1000, 1000, 1004, 1006, 1000},
	} {
		gap := feedGap(c.noticed, 20, 0, "deep 1-20 missing on a: no recovery")
		gap.Earliest, gap.Latest, gap.End = at(c.earliest), at(c.latest), at(c.end)
		found, _ := explained(nil, gap)
		require.Len(t, found, 1)
		require.Equal(t, [2]time.Time{at(c.begin), at(c.end)}, [2]time.Time{found[0].Time, found[0].Until}, "%+v", c)
	}
}

// An interface that went down has one begin: the kernel tells of it when all is done, and the last packet in front of the feed's gap came
// before. It has the count of what follows from it; without a feed the finding says that nothing counts what did not come.
func TestAnInterfaceThatWentDown(t *testing.T) {
	down, up := link(1029, "v0", stats.CodeDown, "the interface was set down"), link(1100, "v0", stats.CodeUp, "the interface was set up")
	found, list := explained(nil, down, link(1031, "v0", "link.down", "link.down: interface v0 is down"), up, feedGap(1110, 310, 110, "deep 1-310 missing on a: no recovery"))
	require.Equal(t, []string{"1<0: card 310", "2<1: card 310"}, list, "%+v", found)
	require.Equal(t, noon.Add(time.Second), found[0].Time)
	require.Equal(t, "messages", found[0].Unit)
	require.Contains(t, found[0].Evidence, "counted by 2, which follows from it: 310 messages of a feed")
	require.Equal(t, "one cause, and what follows from it", Summary(found))
	found, _ = explained(nil, down, up)
	require.Equal(t, noon.Add(1029*time.Millisecond), found[0].Time)
	require.Contains(t, found[0].Evidence, "no counter of this host has what did not come, and no feed has noted a gap at that time")
}

// Gaps of two feeds at one time are two findings.
func TestGapsOfTwoFeeds(t *testing.T) {
	_, list := explained(nil, feedGap(1000, 5, 2, "deep 1-5 missing on a: no recovery"), feedGap(1001, 7, 2, "tops 1-7 missing on b: no recovery"),
		feedGap(1003, 6, 2, "deep 9-14 missing on a: no recovery"))
	require.Equal(t, []string{"1<0: upstream 11", "2<0: upstream 7"}, list)
}

// What sockets have joined decides whether a filter of sources refused packets: with a gap in a feed, and all groups joined from a source alone,
// it did, and where nothing is joined so it did not.
func TestSourceFilterOrGroup(t *testing.T) {
	unwanted := func(joined []string, events ...stats.Event) Finding {
		list := samples(map[string]uint64{"host.ip.InReceives": 20})
		for i := range list {
			list[i].Values["host.v0.groups"] = 2
		}
		e := Gather(list, events, noon, noon.Add(time.Second))
		e.Joined = joined
		found := Explain(e)
		require.Equal(t, Socket, found[0].Place, "%+v", found)
		require.EqualValues(t, 20, found[0].Count)
		return found[0]
	}
	gap := feedGap(500, 60, 3, "deep 1-60 missing on a: no recovery")
	f := unwanted([]string{"233.252.0.1 from 10.57.0.2"}, gap)
	require.Contains(t, f.Cause, "filter of sources")
	require.Contains(t, f.Cause, "233.252.0.1 from 10.57.0.2")
	require.NotContains(t, f.Cause, " or ")
	f = unwanted([]string{"233.252.0.1"}, gap)
	require.Contains(t, f.Cause, "group that no socket had joined")
	require.NotContains(t, f.Cause, "filter of sources")
	require.Contains(t, unwanted([]string{"233.252.0.1 from 10.57.0.2"}).Cause, " or ", "it may have been another group")
	require.Contains(t, unwanted(nil, gap).Cause, " or ", "what was joined is not known")
}

// What the kernel has not delivered is counted between the samples that differ in it, also where packets come all the time. A packet that was
// under way while the counters were read is no loss.
func TestBoundsOfSamplesThatDiffer(t *testing.T) {
	var list []stats.Sample
	for i, missing := range []uint64{0, 0, 1, 0, 143, 143, 144, 143, 143} {
		n := uint64(10_000 * i)
		list = append(list, stats.Sample{Time: noon.Add(time.Duration(i) * time.Second), Interval: time.Second, Values: map[string]uint64{"host.ip.InReceives": n,
			"host.ip.InDelivers": n - missing, "host.ip.InMcastPkts": n}})
	}
	from, to := noon.Add(500*time.Millisecond), noon.Add(8*time.Second)
	found := Explain(Gather(list, []stats.Event{feedGap(3520, 404, 20, "deep 1-404 missing on a: no recovery")}, from, to))
	require.Equal(t, Kernel, found[0].Place, "%+v", found)
	require.EqualValues(t, 143, found[0].Count)
	require.Contains(t, found[0].Evidence, "counted between 12:00:03.000 and 12:00:04.000; a feed has a gap in that time")
	found = Explain(Gather(list, nil, from, to))
	require.Equal(t, [2]time.Time{noon.Add(3 * time.Second), noon.Add(4 * time.Second)}, [2]time.Time{found[0].Since, found[0].Until})
}

// A begin that is not exact to a millisecond has its bounds, in a short form: within the second of the begin without hour and minute.
func TestBoundsOfLooks(t *testing.T) {
	for apart, want := range map[time.Duration]string{1200 * time.Microsecond: "", 10200 * time.Microsecond: "begun between .094 and .105",
		17600 * time.Microsecond: "begun between .091 and .108", 300 * time.Millisecond: "begun between 11:59:59.950 and .250"} {
		x := drop(100, 132, "udp.budget")
		x.Earliest, x.Latest, x.End = x.Time.Add(-apart/2), x.Time.Add(apart/2), x.Time.Add(apart/2)
		found, _ := explained(nil, x)
		require.Equal(t, want, found[0].Bounds())
	}
}

// A gap in a feed that began between the looks of the first loss, and ended at the last one, tells when frames were lost, whatever lost them:
// the cause does not begin behind the gap. One that began at another time does not, nor does one beside what did not lose its messages.
func TestAGapTellsTheTimeOfDrops(t *testing.T) {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	look := func(from, to int, n uint64, counter string) stats.Event {
		x := drop((from+to)/2, n, counter)
		x.Earliest, x.Latest, x.End = at(from), at(to), at(to)
		return x
	}
	gap := func(from, paced, to int) stats.Event {
		x := feedGap(to+2, 95, 0, "deep 1-95 missing on a: no recovery")
		x.Earliest, x.Latest, x.End = at(from), at(paced), at(to)
		return x
	}
	for _, counter := range []string{"udp.sum", "v0.xdp.rx_dropped"} { // the second one: buffers are held
		for _, c := range []struct {
			from, paced, to, begin, end int
			bounds                      string
		}{
			{246, 246, 252, 246, 252, ""},
			{236, 236, 252, 236, 252, ""}, // what came then was counted when the loop polled
			{236, 240, 259, 236, 259, "begun before .240"},
			{210, 246, 252, 246, 252, "begun after .238"}, // the sender was silent, and lost some then
			{246, 246, 290, 246, 259, ""},
			{200, 200, 252, 243, 259, "begun between .238 and .248"},
			{246, 246, 247, 243, 259, "begun between .238 and .248"},
		} {
			list := samples(nil)
			for i := range list {
				list[i].Values["poller.buffers"], list[i].Values["poller.buffers_used_peak"] = 1000, 900
			}
			found := Explain(Gather(list, []stats.Event{look(238, 248, 26, counter), look(248, 259, 6, counter), gap(c.from, c.paced, c.to)}, noon, noon.Add(time.Second)))
			require.Equal(t, [2]time.Time{at(c.begin), at(c.end)}, [2]time.Time{found[0].Time, found[0].Until}, "%s %+v", counter, c)
			require.Equal(t, 1, found[1].BecauseOf)
			require.Equal(t, c.bounds, found[0].Bounds(), "%s %+v", counter, c)
		}
	}
}

// Which sender was refused is not known: what is named is what the filter lets pass, and is called so.
func TestRefusedSourceIsNotTheJoinedOne(t *testing.T) {
	e := Gather(samples(map[string]uint64{"host.ip.InReceives": 20}), []stats.Event{feedGap(500, 60, 3, "deep 1-60 missing on a: no recovery")}, noon,
		noon.Add(time.Second))
	e.Joined = []string{"233.252.0.1 from 10.57.0.2"}
	require.Equal(t, "the kernel dropped packets without an error: the filter of sources refused multicast (no counter has the sender that was refused); what "+
		"was joined, and is let pass: 233.252.0.1 from 10.57.0.2", Explain(e)[0].Cause)
}

// The summary names the findings that are causes, and those for which the machine was busy.
func TestSummaryNamesFindings(t *testing.T) {
	busy := func(ms int) []stats.Event {
		return []stats.Event{pollGap(ms, 60e6, stats.CodePreempted, ": another thread had the processor"), drop(ms+5, 12, "v0/0.xdp.rx_dropped")}
	}
	events := slices.Concat([]stats.Event{drop(100, 20, "udp.sum"), feedGap(105, 60, 5, "deep 1-60 missing on a")}, busy(2000), busy(4000))
	found, _ := explained(nil, events...)
	require.Equal(t, "4 findings; 1, 3 and 4 are causes, that of the largest loss first; behind each what follows from it; findings 3 and 4: this machine was "+
		"busy, no feed has a gap then", Summary(found))
	found, _ = explained(nil, append(events, feedGap(4005, 36, 2, "deep 90-125 missing on a"))...)
	require.Contains(t, Summary(found), "; findings 3 and 5: this machine was busy")
	require.NotContains(t, Summary(found), "no feed has a gap")
	found, _ = explained(nil, slices.Concat(busy(2000), busy(4000))...)
	require.NotContains(t, Summary(found), "no feed has a gap", "the program may have no feed")
}

// The feed's own statistics tell how many packets the missing messages are. Where these are most of what the ring lost while the loop did not
// poll, or an interface was down for just that time, the gap follows for certain; else perhaps.
func TestAGapFollowsForCertain(t *testing.T) {
	lines := map[string]uint64{"feed_line.segments": 1000, "feed_line.first_messages": 2900, "feed_line.duplicate_messages": 100}
	stall := func(frames uint64) []stats.Event {
		return []stats.Event{pollGap(1400, 400e6, stats.CodeStopped, ": no thread of the process ran"), drop(1405, frames, "v0/0.xdp.rx_dropped")}
	}
	const missing = "deep 1-6000 missing on a"
	for name, c := range map[string]struct {
		delta  map[string]uint64
		events []stats.Event
		place  Place
		text   string // of the evidence
	}{
		"all of what was lost":        {lines, append(stall(2010), feedGap(1410, 6000, 2, missing)), Application, ""},
		"most of it":                  {lines, append(stall(3000), feedGap(1410, 6000, 2, missing)), Application, "the 3000 frames of 1 include other traffic"},
		"a part":                      {lines, append(stall(9000), feedGap(1410, 6000, 2, missing)), Unknown, "the 9000 frames of 1 include other traffic"},
		"more":                        {lines, append(stall(900), feedGap(1410, 6000, 2, missing)), Unknown, "more than the 900 frames of 1: some may be missing for another reason"},
		"the rate is not known":       {nil, append(stall(2010), feedGap(1410, 6000, 2, missing)), Unknown, ""},
		"of two feeds":                {lines, append(stall(2010), feedGap(1410, 3000, 2, missing), feedGap(1411, 3000, 3, "tops 1-3000 missing on b")), Application, ""},
		"it began long before":        {lines, append(stall(2010), feedGap(1410, 6000, 600, missing)), Unknown, ""},
		"an interface that was down":  {nil, []stats.Event{link(1000, "v0", stats.CodeDown, "down"), link(1100, "v0", stats.CodeUp, "up"), feedGap(1105, 6000, 103, missing)}, Card, ""},
		"an interface, for some time": {nil, []stats.Event{link(1000, "v0", stats.CodeDown, "down"), link(1900, "v0", stats.CodeUp, "up"), feedGap(1105, 6000, 103, missing)}, Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, _ := explained(c.delta, c.events...)
			gap := found[1]
			require.Equal(t, aboutFeed, gap.kind, "%+v", found)
			require.Equal(t, 1, gap.BecauseOf)
			require.Equal(t, c.place, gap.Place, "%+v", found)
			if c.delta != nil && len(found) == 2 {
				require.EqualValues(t, 2000, gap.Packets)
			}
			require.Equal(t, c.text, strings.Join(gap.Evidence[1:], ""))
		})
	}
	found, _ := explained(lines, feedGap(1410, 7, 2, missing))
	require.Equal(t, Upstream, found[0].Place)
	require.EqualValues(t, 2, found[0].Packets)
}
