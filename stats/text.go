package stats

import (
	"fmt"
	"io"
	"strings"
)

// Rule is the line in front of each socket that WriteSocket writes, and at the end of VMA_STATS_FILE.
const Rule = "======================================================\n"

// WriteSocket writes what vma_stats shows of a socket in its view 3, as far as it is counted here, with lines that it does not have where there
// is more to say. ring is the socket's, whose polls are shown; nil: they are not known. suffix is "/s" for values that are rates.
func WriteSocket(w io.Writer, v, ring *View, suffix string) {
	fmt.Fprintf(w, "%s\tFd=[%d]\n", Rule, v.ID)
	fmt.Fprintf(w, "- %s, Non-blocked", strings.ToUpper(v.Info["protocol"]))
	switch v.Info["mc_loop"] {
	case "true":
		fmt.Fprint(w, ", MC Loop Enabled ")
	case "false":
		fmt.Fprint(w, ", MC Loop Disabled")
	}
	fmt.Fprintln(w)
	for _, x := range []struct{ label, key string }{{"Local Address  ", "local"}, {"Foreign Address", "remote"}} {
		if a := v.Info[x.key]; a != "" {
			fmt.Fprintf(w, "- %s = [%s]\n", x.label, a)
		}
	}
	if groups := v.Info["groups"]; groups != "" {
		for g := range strings.SplitSeq(groups, ",") {
			fmt.Fprintf(w, "- Member of = [%s]\n", g)
		}
	}
	if path := v.Info["path"]; path != "" {
		fmt.Fprintf(w, "- Path = %s\n", path)
	}
	if logic := v.Info["ring_logic"]; logic != "" {
		fmt.Fprintf(w, "- Ring allocation logic = %s\n", logic)
	}
	n := v.Value
	offloaded := n("offloaded") != 0
	active := false
	four := func(name, what string, bytes, packets, third, fourth uint64) {
		if bytes|packets|third|fourth != 0 {
			fmt.Fprintf(w, "%s %d / %d / %d / %d [kilobytes/packets/%s]%s\n", name, bytes/1024, packets, third, fourth, what, suffix)
			active = true
		}
	}
	if offloaded {
		four("Tx Offload:", "drops/errors", n("sent_bytes"), n("sent_messages"), n("short_sends"), n("send_errors"))
	} else {
		four("Tx OS info:", "eagains/errors", n("sent_bytes"), n("sent_messages"), n("short_sends"), n("send_errors"))
	}
	if d := n("warm_sends") + n("warm_sends_cold"); d != 0 {
		fmt.Fprintf(w, "Tx Dummy messages : %d%s\n", d, suffix)
		active = true
	}
	if offloaded {
		// What came through the kernel may be read later than the sum.
		bytes, packets := min(n("kernel_bytes"), n("bytes")), min(n("kernel_packets"), n("packets"))
		four("Rx Offload:", "eagains/errors", n("bytes")-bytes, n("packets")-packets, 0, 0)
		four("Rx OS info:", "eagains/errors", bytes, packets, 0, 0)
	} else {
		four("Rx OS info:", "eagains/errors", n("bytes"), n("packets"), 0, n("accept_failures"))
	}
	if n("packets")|n("queued_packets")|n("drops") != 0 {
		limit := "pool"
		if b := n("budget"); b != 0 {
			limit = fmt.Sprint(b)
		}
		fmt.Fprintf(w, "Rx byte: cur %d / max %d / limit %s\n", n("queued_bytes"), n("queued_bytes_max"), limit)
		dropped := 100 * float64(n("drops")) / float64(max(1, n("packets")+n("drops"))) // of what came
		fmt.Fprintf(w, "Rx pkt : cur %d / max %d / dropped%s %d (%2.2f%%)\n", n("queued_packets"), n("queued_packets_max"), suffix, n("drops"), dropped)
		active = true
	}
	if h := n("held_bytes"); h != 0 {
		fmt.Fprintf(w, "Rx zero copy buffers: cur %d bytes\n", h)
		active = true
	}
	if ring != nil {
		if polls, hits := ring.Value("polls"), ring.Value("hits"); polls > 0 {
			hits = min(hits, polls) // it may be read later
			fmt.Fprintf(w, "Rx poll: %d / %d (%2.2f%%) [miss/hit]%s\n", polls-hits, hits, 100*float64(hits)/float64(polls), suffix)
		}
	}
	if again := n("retransmits"); again != 0 {
		fmt.Fprintf(w, "Retransmissions: %d%s\n", again, suffix)
		active = true
	}
	if d, h := n("callback_drops"), n("callback_holds"); d|h != 0 {
		fmt.Fprintf(w, "Rx callback: %d / %d [drop/hold]%s\n", d, h, suffix)
		active = true
	}
	if !active {
		fmt.Fprintln(w, "Rx and Tx were not active: nothing was received or sent")
	}
}
