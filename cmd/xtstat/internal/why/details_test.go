package why

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Frames that came while the program attached anew had no ring are among the packets that came through the kernel, and the finding says so.
func TestFramesWithoutARingAreAmongTheDiverted(t *testing.T) {
	delta := func(frames uint64) map[string]uint64 {
		return map[string]uint64{"driver.offload.os_packets": 489, "host.v0.steer.no_queue": frames}
	}
	events := []stats.Event{link(100, "v0", "link.detached", "link.detached: xdp: the program is no longer on interface 2: link: detached"),
		kernelPackets(98, 489, stats.CodeBegan), kernelPackets(150, 489, stats.CodeEnded)}
	found, list := explained(delta(167), events...)
	require.Equal(t, []string{"1<0: kernel 489", "2<1: card 167"}, list, "%+v", found)
	require.Equal(t, "frames came before the program that was attached again had its ring: they are among the 489 packets of 1", found[1].Cause)
	require.Equal(t, []string{"v0.steer.no_queue +167"}, found[1].Evidence)
	require.Contains(t, found[0].Evidence, "journal: 489 packets came through the kernel, from 12:00:00.098 to 12:00:00.150")
	found, _ = explained(delta(600), events...)
	i := slices.IndexFunc(found, func(f Finding) bool { return f.kind == aboutQueue })
	require.Contains(t, found[i].Cause, "by a queue of the card that no ring serves", "they are more")
	found, _ = explained(delta(167))
	require.Contains(t, found[0].Cause, "by a queue of the card that no ring serves", "the program is in its place")
}

// What is told of an interface is told once, and in words.
func TestTextsOfInterfacesDoNotRepeat(t *testing.T) {
	found, _ := explained(nil, link(100, "v0", "link.detached", "link.detached: xdp: the program is no longer on interface 2: link: detached"))
	require.Equal(t, "the steering program was displaced, and packets take the way through the kernel: v0: the program is no longer on interface 2", found[0].Cause)
	require.Equal(t, []string{"journal: link v0 link.detached"}, found[0].Evidence)
	found, _ = explained(nil, link(100, "v0", "link.down", "link.down: interface v0 is down"), link(101, "v0", stats.CodeDown, "the interface was set down"))
	require.Equal(t, "the interface carried nothing: v0: interface v0 is down; the interface was set down", found[0].Cause)
	require.Equal(t, []string{"journal: link v0 link.down", "journal: link v0 down"}, found[0].Evidence[:2])
}

// A finding that nothing was lost here says in one line what came.
func TestReceivedInOneLine(t *testing.T) {
	found, _ := explained(map[string]uint64{"ring.polls": 97_697_561, "host.v0.rx_packets": 159_352, "host.lo.rx_packets": 8},
		feedGap(500, 3, 2, "deep 1-3 missing on a"))
	require.Equal(t, []string{"journal: feed_gap deep 1-3 missing on a", "in this time rings received 100 packets, interfaces 159360"}, found[0].Evidence)
}

// Whether a socket is read too slowly or its packets are held is said where a sample knows it. A short gap between polls is no detail of it.
func TestBudgetSaysHeldOrSlow(t *testing.T) {
	explain := func(held, queued uint64) Finding {
		list := samples(nil)
		for i := range list {
			list[i].Values["socket.held_bytes"], list[i].Values["socket.queued_packets"] = held, queued
		}
		events := []stats.Event{drop(500, 93, "udp.budget"), pollGap(501, 137e3, stats.CodeUnknown, ""), pollGap(502, 12e6, stats.CodeHandler, ": of socket 3")}
		return Explain(Gather(list, events[:2+int(held&1)], noon, noon.Add(time.Second)))[0]
	}
	f := explain(132_160, 0)
	require.Equal(t, "udp.budget: the socket's budget was spent: its packets are held", f.Cause)
	require.Equal(t, []string{"journal: udp.budget +93", "sockets held 132160 bytes, and 0 packets waited in their queues, when a sample was taken"}, f.Evidence)
	require.Equal(t, "udp.budget: the socket's budget was spent: it is read too slowly", explain(0, 70).Cause)
	require.Equal(t, "udp.budget: the socket's budget was spent: it is read too slowly, or its packets are held", explain(132_160, 70).Cause)
	require.Equal(t, "udp.budget: the socket's budget was spent: it is read too slowly, or its packets are held", explain(0, 0).Cause)
	require.Contains(t, strings.Join(explain(1, 0).Evidence, "\n"), "poll gap of 12ms")
}

// The sum of a group that was left names the findings that it is of.
func TestSumOfAGroupNamesItsParts(t *testing.T) {
	found, list := explained(map[string]uint64{"host.ip.InReceives": 1053}, journal(100, stats.EventLeave, 1, "233.252.0.1 fd=9"), drop(110, 25, "udp.group_not_joined"),
		journal(200, stats.EventJoin, 1, "233.252.0.1 fd=9"))
	require.Equal(t, []string{"1<0: application 1078", "2<1: kernel 1053", "3<1: socket 25"}, list)
	require.Equal(t, []string{"journal: leave 233.252.0.1 fd=9", "the sum of 2 and 3"}, found[0].Evidence)
}

// A socket of a process that has ended has its number alone.
func TestSocketWithoutATextIsNamedOnce(t *testing.T) {
	of := drop(110, 93, "drops")
	of.Of = "socket 3"
	found, _ := explained(nil, drop(100, 93, "udp.budget"), of)
	require.Equal(t, []string{"journal: udp.budget +93", "socket 3: drops +93"}, found[0].Evidence)
}

// The begin of packets that came through the kernel lies between two looks, which are its bounds.
func TestBoundsOfTheWayThroughTheKernel(t *testing.T) {
	began := kernelPackets(98, 489, stats.CodeBegan)
	began.Earliest, began.Latest = began.Time.Add(-6*time.Millisecond), began.Time.Add(6*time.Millisecond)
	off := link(100, "v0", "link.detached", "link.detached: xdp: the program is no longer on interface 2: link: detached")
	found, _ := explained(map[string]uint64{"host.v0.steer.no_queue": 30}, began, kernelPackets(150, 489, stats.CodeEnded))
	require.Equal(t, "begun between .092 and .104", found[0].Bounds())
	found, _ = explained(nil, off, began, kernelPackets(150, 489, stats.CodeEnded))
	require.Equal(t, "begun between .092 and .104", found[0].Bounds())
}

// What samples have counted has the bounds of the gap that tells its time.
func TestNarrowedFindingHasTheBoundsOfItsGap(t *testing.T) {
	gap := feedGap(549, 61, 22, "deep 1-61 missing on a")
	gap.Latest, gap.End = noon.Add(547*time.Millisecond), noon.Add(549*time.Millisecond)
	found, list := explained(map[string]uint64{"host.v0.rx_otherhost_dropped": 20}, gap)
	require.Equal(t, []string{"1<0: card 20", "2<1: unknown 61"}, list)
	require.Equal(t, "begun after .527", found[1].Bounds())
	require.Equal(t, "begun after .527", found[0].Bounds())
}

// An interface that is up again is in the journal some ten milliseconds later: the gap in a feed follows for certain all the same.
func TestInterfaceThatIsUpBeforeItIsTold(t *testing.T) {
	_, list := explained(nil, link(1000, "v0", stats.CodeDown, "down"), link(1118, "v0", stats.CodeUp, "up"), feedGap(1102, 6000, 102, "deep 1-6000 missing on a"))
	require.Equal(t, []string{"1<0: card 6000", "2<1: card 6000"}, list)
}
