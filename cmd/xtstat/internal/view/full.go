package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/socketxtreme/socketxtreme/stats"
)

const rule = "======================================================\n"

// Full prints view 3: a block for each socket, poller, ring, pool of buffers, and feed, with a rule in front, and one behind the last.
func Full(w io.Writer, s *Snapshot) {
	for i := range s.Blocks[stats.Sockets] {
		v := &s.Blocks[stats.Sockets][i]
		stats.WriteSocket(w, v, s.block(stats.Rings, v.Parent), s.suffix())
	}
	for i := range s.Blocks[stats.Pollers] {
		fullPoller(w, s, &s.Blocks[stats.Pollers][i])
	}
	for i := range s.Blocks[stats.Rings] {
		completionQueue(w, s, &s.Blocks[stats.Rings][i])
	}
	for i := range s.Blocks[stats.Rings] {
		ring(w, s, &s.Blocks[stats.Rings][i])
	}
	for i := range s.Blocks[stats.Pollers] {
		v := &s.Blocks[stats.Pollers][i]
		fmt.Fprintf(w, "%s\tBUFFER_POOL=[%d]\n", rule, v.Index)
		fmt.Fprintf(w, "%-20s %d\n%-20s %d %-3s\n%-20s %d\n", "Size:", v.Value("buffers"), "No buffers error:", v.Value("no_buffer"), s.suffix(),
			"In use:", v.Value("buffers_used"))
		states(w, v)
	}
	for i := range s.Blocks[stats.Feeds] {
		feed(w, s, &s.Blocks[stats.Feeds][i])
	}
	fmt.Fprint(w, rule)
	losses(w, s)
	for _, name := range []string{stats.Pollers, stats.Rings, stats.Drivers, stats.Sockets, stats.Feeds, stats.Lines} {
		if n := s.Left[name]; n > 0 {
			fmt.Fprintf(w, "%d of section %s found no room in the file\n", n, name)
		}
	}
}

// states prints how many buffers of a poller are in each state, of those that have some; nothing of a process that does not publish them.
func states(w io.Writer, poller *stats.View) {
	for _, state := range stats.BufferStates {
		if n := poller.Value("buffers_" + state); n > 0 {
			fmt.Fprintf(w, "%-20s %d\n", strings.ToUpper(state[:1])+state[1:]+":", n)
		}
	}
}

// fullPoller prints a poller as vma_stats prints select, poll and epoll_wait; nothing for one that has not polled.
func fullPoller(w io.Writer, s *Snapshot, v *stats.View) {
	p := pollingOf(s, v)
	if p.polls == 0 {
		return
	}
	if p.cpu == "-" {
		p.cpu = " not measured (VMA_CPU_USAGE_STATS=1 has it measured)"
	}
	fmt.Fprintf(w, "%s\t%s\nPolling CPU%s:%s\n", rule, p.name, s.suffix(), p.cpu)
	fmt.Fprintf(w, "Rx fds ready: %d / %d [os/offload]%s\n", p.kernel, p.offloaded, s.suffix())
	fmt.Fprintf(w, "Polls [miss/hit]%s: %d / %d (%2.2f%%)\n", s.suffix(), p.polls-min(p.hits, p.polls), p.hits, p.percent)
	if p.sleeps > 0 {
		fmt.Fprintf(w, "Timeouts%s: %d\n", s.suffix(), p.sleeps)
	}
	if p.errors > 0 {
		fmt.Fprintf(w, "Errors%s: %d\n", s.suffix(), p.errors)
	}
	if p.gaps > 0 {
		fmt.Fprintf(w, "Poll gaps%s: %d\n", s.suffix(), p.gaps)
	}
}

// completionQueue prints what vma_stats has of a completion queue.
func completionQueue(w io.Writer, s *Snapshot, v *stats.View) {
	var card, dropped uint64
	for _, d := range driverOf(s, stats.Drivers, v) {
		for _, name := range d.Names {
			if strings.HasSuffix(name, ".rx_lost") {
				card += d.Value(name)
			}
		}
	}
	for _, d := range driverOf(s, stats.Drops, v) {
		for _, name := range d.Names {
			dropped += d.Value(name)
		}
	}
	pool := s.block(stats.Pollers, v.Parent)
	fmt.Fprintf(w, "%s\tCQ=[%d]\n", rule, v.Index)
	fmt.Fprintf(w, "%-20s %d %-3s\n%-20s %d %-3s\n", "HW RX Packets dropped:", card, s.suffix(), "Packets dropped:", dropped, s.suffix())
	fmt.Fprintf(w, "%-20s %d\n%-20s %d\n%-20s %d\n", "Packets queue len:", v.Value("queue"), "Drained max:", v.Value("batch"),
		"Buffer pool size:", pool.Value("buffers")-min(pool.Value("buffers_used"), pool.Value("buffers")))
}

// driverOf are the blocks of an offloaded ring's driver, in a section: a poller has one such ring.
func driverOf(s *Snapshot, section string, ring *stats.View) []stats.View {
	if ring.Info["kind"] != "offload" {
		return nil
	}
	return s.children(section, ring.Parent)
}

// ring prints a ring: its traffic, and each other counter that is not zero.
func ring(w io.Writer, s *Snapshot, v *stats.View) {
	fmt.Fprintf(w, "%s\tRING_%s=[%d]\n", rule, strings.ToUpper(v.Info["kind"]), v.Index)
	label := "OS:"
	if v.Info["kind"] == "offload" {
		label = "Offload:"
	}
	fmt.Fprintf(w, "%-20s %d / %d [kilobytes/packets] %-3s\n", "Tx "+label, v.Value("sent_bytes")/1024, v.Value("sent_messages"), s.suffix())
	fmt.Fprintf(w, "%-20s %d / %d [kilobytes/packets] %-3s\n", "Rx "+label, v.Value("bytes")/1024, v.Value("packets"), s.suffix())
	for _, name := range v.Names {
		switch name {
		case "sent_bytes", "sent_messages", "bytes", "packets", "polls", "hits", "completions", "batch", "queue":
			continue
		}
		if n := v.Value(name); n > 0 {
			fmt.Fprintf(w, "%-20s %d %-3s\n", name+":", n, s.suffix())
		}
	}
}

// feed prints a feed, and each of its lines on a line.
func feed(w io.Writer, s *Snapshot, v *stats.View) {
	n := v.Value
	fmt.Fprintf(w, "%s\tFEED=[%s]\n", rule, v.Info["feed"])
	fmt.Fprintf(w, "Delivered: %d / %d / %d / %d [messages/gaps/came late/given up]%s, next %d\n", n("delivered_messages"), n("gaps"), n("recovered_messages"),
		n("unrecovered_messages"), s.suffix(), n("next_sequence"))
	for _, x := range s.children(stats.Lines, v.Index) {
		state := ""
		if x.Value("dead") != 0 {
			state = ", silent"
		}
		n := x.Value
		fmt.Fprintf(w, "Line %s: %d / %d / %d / %d / %d / %d [packets/brought first/duplicates/gaps/lost/filled gaps of the feed]%s, last %d%s\n", x.Info["line"], n("segments"),
			n("first_messages"), n("duplicate_messages"), n("gaps"), n("lost_messages"), n("filled_messages"), s.suffix(), n("last_sequence"), state)
	}
}

// losses prints what is not zero of all reasons for drops, of the drivers' counters of losses, and of the one that explains most of those.
func losses(w io.Writer, s *Snapshot) {
	for _, section := range []string{stats.Drops, stats.Drivers} {
		for _, v := range s.Blocks[section] {
			for _, name := range v.Names {
				row := stats.SectionOf(section).Find(name)
				shown := row != nil && (row.Loss || section == stats.Drops || row.Name == "xdp.rx_fill_ring_empty_descs")
				if n := v.Value(name); n > 0 && shown {
					fmt.Fprintf(w, "%s: %d%s (%s)\n", name, n, s.suffix(), row.Help)
				}
			}
		}
	}
}
