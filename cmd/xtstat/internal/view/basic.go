package view

import (
	"fmt"
	"io"

	"github.com/socketxtreme/socketxtreme/stats"
)

// screen is after how many lines the views 1 and 2 print their header again.
const screen = 24

// Lines prints the views 1 and 2, cycle after cycle: two rows for each socket, then one for each poller.
type Lines struct {
	W      io.Writer
	Queues bool // view 2: with queues
	lines  int  // since the header
}

// Print prints a cycle.
func (l *Lines) Print(s *Snapshot) {
	if l.lines == 0 || l.lines >= screen {
		l.header(s.Interval > 0)
	}
	for i := range s.Blocks[stats.Sockets] {
		l.socket(s, &s.Blocks[stats.Sockets][i])
	}
	for i := range s.Blocks[stats.Pollers] {
		l.poller(s, &s.Blocks[stats.Pollers][i])
	}
	if n := s.Left[stats.Sockets]; n > 0 {
		fmt.Fprintf(l.W, " (%d sockets found no room in the file: VMA_STATS_FD_NUM)\n", n)
		l.lines++
	}
	if len(s.Blocks[stats.Sockets]) > 0 {
		fmt.Fprintln(l.W, "-------------------------------------------------------------------------------")
		l.lines++
	}
}

// header prints vma_stats' header lines of view 1 or 2; rates: the columns are per second.
func (l *Lines) header(rates bool) {
	packets, bytes, again, errors, drops := "pkt", "Kbyte", "eagain", "error", "drop"
	if rates {
		packets, bytes, again, errors, drops = packets+"/s", bytes+"/s", again+"/s", errors+"/s", drops+"/s"
	}
	switch {
	case l.Queues && rates:
		fmt.Fprintf(l.W, " %-7s %65s %31s\n", "fd", "---------------------------- offloaded --------------------------", "---------- os ---------")
	case l.Queues:
		fmt.Fprintf(l.W, " %-7s %65s %31s\n", "fd", "----------------------- total offloaded -------------------------", "--------- total os ----------")
	case rates:
		fmt.Fprintf(l.W, " %-7s %42s %31s\n", "fd", "--------------- offloaded ----------------", "---------- os ---------")
	default:
		fmt.Fprintf(l.W, " %-7s %42s %31s\n", "fd", "------------ total offloaded -------------", "--------- total os ----------")
	}
	l.lines = 2
	if !l.Queues {
		fmt.Fprintf(l.W, " %-7s %10s %7s %8s %7s %6s %7s %7s %7s %7s\n", " ", packets, bytes, again, errors, "poll%", packets, bytes, again, errors)
		return
	}
	queue := "---- queue pkt -----"
	if rates {
		queue = "----- queue pkt ------"
	}
	fmt.Fprintf(l.W, " %-7s %10s %7s %8s %7s %6s%23s %7s %7s %7s %7s\n", " ", packets, bytes, again, errors, "poll%", queue, packets, bytes, again, errors)
	fmt.Fprintf(l.W, " %50s %6s  %6s  %6s \n", " ", "cur", "max", drops)
	l.lines++
}

// traffic is packets, kilobytes, EAGAIN and errors.
type traffic [4]uint64

// split divides a socket's traffic: rx and tx went over the library's stack, rxOS and txOS through the kernel. All traffic of a socket that is
// not offloaded went through the kernel. An offloaded socket counts what it sends by the kernel with the rest, so that txOS is zero.
func split(v *stats.View) (rx, tx, rxOS, txOS traffic) {
	n := v.Value
	received := traffic{n("packets"), n("bytes") / 1024, 0, n("accept_failures")}
	sent := traffic{n("sent_messages"), n("sent_bytes") / 1024, n("short_sends"), n("send_errors")}
	if n("offloaded") == 0 {
		return traffic{}, traffic{}, received, sent
	}
	byKernel := traffic{min(n("kernel_packets"), n("packets")), min(n("kernel_bytes"), n("bytes")) / 1024, 0, 0}
	received[0] -= byKernel[0]
	received[1] = (n("bytes") - min(n("kernel_bytes"), n("bytes"))) / 1024
	return received, sent, byKernel, traffic{}
}

// socket prints the two rows of a socket, received and sent.
func (l *Lines) socket(s *Snapshot, v *stats.View) {
	rx, tx, rxOS, txOS := split(v)
	poll := hits(s.block(stats.Rings, v.Parent))
	n := v.Value
	if l.Queues {
		fmt.Fprintf(l.W, " %-3d %-3s %10d %7d %8d %7d %6.1f %6d  %6d  %6d %7d %7d %7d %7d\n", v.ID, "Rx:", rx[0], rx[1], rx[2], rx[3], poll,
			n("queued_packets"), n("queued_packets_max"), n("drops"), rxOS[0], rxOS[1], rxOS[2], rxOS[3])
		fmt.Fprintf(l.W, " %-3s %-3s %10d %7d %8d %7d %29s %7d %7d %7d %7d\n", " ", "Tx:", tx[0], tx[1], tx[2], tx[3], " ", txOS[0], txOS[1], txOS[2], txOS[3])
	} else {
		fmt.Fprintf(l.W, " %-3d %-3s %10d %7d %8d %7d %6.1f %7d %7d %7d %7d\n", v.ID, "Rx:", rx[0], rx[1], rx[2], rx[3], poll, rxOS[0], rxOS[1], rxOS[2], rxOS[3])
		fmt.Fprintf(l.W, " %-3s %-3s %10d %7d %8d %7d %-6s %7d %7d %7d %7d\n", " ", "Tx:", tx[0], tx[1], tx[2], tx[3], " ", txOS[0], txOS[1], txOS[2], txOS[3])
	}
	l.lines += 2
}

// polling is what vma_stats shows of select, poll and epoll_wait, of a poller: completions of kernel and of offloaded rings, sleeps (Timeouts),
// errors, the share of polls that returned something, the share of time that it polled.
type polling struct {
	name              string
	kernel, offloaded uint64
	polls, hits       uint64
	sleeps, errors    uint64
	percent           float64
	cpu               string // in percent; "-": not measured
	gaps              uint64
}

// pollingOf sums the rings of a poller, and computes the share of time that it polled where the process measures its sleep
// (VMA_CPU_USAGE_STATS=1).
func pollingOf(s *Snapshot, v *stats.View) polling {
	p := polling{name: "poll[" + v.Info["name"] + "]", gaps: v.Value("poll_gaps"), cpu: "-"}
	for _, r := range s.children(stats.Rings, v.Index) {
		if r.Info["kind"] == "offload" {
			p.offloaded += r.Value("completions")
		} else {
			p.kernel += r.Value("completions")
		}
		p.polls += r.Value("polls")
		p.hits += r.Value("hits")
		p.sleeps += r.Value("sleeps")
		p.errors += r.Value("accept_failures") + r.Value("callback_panics") + r.Value("card_failures")
	}
	if p.polls > 0 {
		p.percent = 100 * float64(p.hits) / float64(p.polls)
	}
	if v.Value("measures_sleep") != 0 {
		begin := v.Opened
		if z := s.Process.Zeroed; z.After(begin) {
			begin = z // as sleep_time does
		}
		whole := s.end().Sub(begin).Seconds()
		if s.Interval > 0 {
			whole = 1
		}
		p.cpu = fmt.Sprint(int(100*max(1-float64(v.Value("sleep_time"))/1e9/whole, 0)+0.5), "%")
	}
	return p
}

// poller prints the row of a poller, nothing for one that has not polled.
func (l *Lines) poller(s *Snapshot, v *stats.View) {
	p := pollingOf(s, v)
	if p.polls == 0 {
		return
	}
	fmt.Fprintf(l.W, "%-8s%-2s %-9s%d%-1s%d %-12s %-9s%-5d %-7s%-4d %-5s%-2.2f%-3s %-5s%s\n", p.name, s.suffix(), "Rx Ready:", p.kernel, "/", p.offloaded,
		"[os/offload]", "Timeouts:", p.sleeps, "Errors:", p.errors, "Poll:", p.percent, "%", "Polling CPU:", p.cpu)
	l.lines++
}
