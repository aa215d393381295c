package handler

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

// Summary is the machine-readable result of a run.
type Summary struct {
	Channels []ChannelSummary  `json:"channels"`
	Books    BookSummary       `json:"books"`
	Latency  map[string]Values `json:"latency"`
	Clock    Clock             `json:"clock"`
	Capture  *CaptureSummary   `json:"capture,omitempty"`
	Ring     *RingSummary      `json:"ring,omitempty"`
	Paths    []string          `json:"paths,omitempty"`
}

// ChannelSummary is one channel's.
type ChannelSummary struct {
	Protocol string            `json:"protocol"`
	Name     string            `json:"name"`
	State    string            `json:"state"`
	Lines    []LineSummary     `json:"lines"`
	Recovery *LineSummary      `json:"recovery,omitempty"`
	Epochs   []EpochSummary    `json:"epochs"`
	Messages uint64            `json:"messages"`
	Types    map[string]uint64 `json:"types"`
	Entries  map[string]uint64 `json:"entries,omitempty"`
	Skipped  uint64            `json:"skipped"`
	Trades   uint64            `json:"trades"`
	Volume   uint64            `json:"trade_volume"`
	Delivery DeliverySummary   `json:"delivery"`
	Gaps     GapSummary        `json:"gaps"`
	Skew     SkewSummary       `json:"ab_skew_ns"`
	RptSeq   *uint64           `json:"rptseq_missed,omitempty"`
	Unknown  *uint64           `json:"unknown_order_references,omitempty"`
	Orders   *int              `json:"live_orders,omitempty"`
}

// LineSummary is one line's. first_wins, duplicates, lost_on_line and reordered are messages, for MDP 3.0 packets.
type LineSummary struct {
	Group       string `json:"group"`
	Packets     uint64 `json:"packets"`
	Bytes       uint64 `json:"bytes"`
	Heartbeats  uint64 `json:"heartbeats"`
	FirstWins   uint64 `json:"first_wins"`
	Duplicates  uint64 `json:"duplicates"`
	Lost        uint64 `json:"lost_on_line"`
	Reordered   uint64 `json:"reordered"`
	Late        uint64 `json:"late"`
	Early       uint64 `json:"early"`
	OldEpoch    uint64 `json:"old_epoch"`
	Wild        uint64 `json:"wild"`
	Oversize    uint64 `json:"oversize"`
	Malformed   uint64 `json:"malformed"`
	Foreign     uint64 `json:"foreign"`
	Unsequenced uint64 `json:"unsequenced"`
	KernelDrops uint64 `json:"kernel_drops"`
	// KernelPackets came to an offloaded socket by the kernel's socket beside it; on kernel rings it is 0.
	KernelPackets uint64 `json:"kernel_packets"`
	MaxLag        int64  `json:"max_lag_ns"`
	Dead          bool   `json:"dead"`
}

// EpochSummary is one run of sequence numbers.
type EpochSummary struct {
	Session  string `json:"session"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	Packets  uint64 `json:"packets"`
	Messages uint64 `json:"messages"`
}

// DeliverySummary is what came out of the sequencer: delivered plus unrecovered is all there was.
type DeliverySummary struct {
	Delivered   uint64 `json:"delivered"`
	Recovered   uint64 `json:"recovered"`
	Unrecovered uint64 `json:"unrecovered"`
	ParkedMax   int    `json:"parked_max"`
	Overflows   uint64 `json:"overflows"`
}

// GapSummary is the holes: seen counts holes, filled_by counts messages, unrecovered are inclusive ranges.
type GapSummary struct {
	Seen             uint64      `json:"seen"`
	FilledByLine     uint64      `json:"filled_by_other_line"`
	FilledByRecovery uint64      `json:"filled_by_recovery"`
	Unrecovered      [][2]uint64 `json:"unrecovered"`
	Requests         uint64      `json:"requests"`
	Rejects          uint64      `json:"rejects"`
}

// SkewSummary is how much later line B brought the same packet than line A.
type SkewSummary struct {
	AFirst uint64 `json:"a_first"`
	BFirst uint64 `json:"b_first"`
	Pairs  uint64 `json:"pairs"`
	P50    int64  `json:"p50"`
	Min    int64  `json:"min"`
	Max    int64  `json:"max"`
}

// BookSummary is the state of all books.
type BookSummary struct {
	Symbols   int    `json:"symbols"`
	TwoSided  int    `json:"two_sided"`
	Crossed   int    `json:"crossed"`
	Stale     int    `json:"stale"`
	Levels    int    `json:"levels"`
	BidLevels int    `json:"bid_levels"`
	AskLevels int    `json:"ask_levels"`
	Published uint64 `json:"published"`
	Digest    string `json:"digest_sha256"`
}

// Values is a histogram in nanoseconds.
type Values struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P99   int64 `json:"p99"`
	P999  int64 `json:"p99_9"`
	Max   int64 `json:"max"`
}

// Clock says what times were taken from.
type Clock struct {
	Source    string `json:"source"`
	OffsetNs  int64  `json:"offset_ns"`
	Outside   uint64 `json:"send_times_outside"` // after the receive time, or an hour before it: no latencies
	Suspicion string `json:"suspicion,omitempty"`
}

// CaptureSummary is what a capture file held.
type CaptureSummary struct {
	File      string `json:"file"`
	Records   uint64 `json:"records"`
	NonUDP    uint64 `json:"non_udp_records"`
	Truncated uint64 `json:"truncated_records"`
	Unrouted  uint64 `json:"unrouted"`
}

// RingSummary is what the rings of live lines counted. Buffers is where their buffers were when every packet was dealt
// with and before the rings were closed: Held, Received and Lent are 0 then, or somebody forgot one.
type RingSummary struct {
	Packets   uint64            `json:"packets"`            // delivered, those of recovery sockets included
	LinkDrops uint64            `json:"link_drops"`         // frames that links lost before their ring took them
	Counters  map[string]uint64 `json:"counters,omitempty"` // of an offloaded ring, those that are not 0
	Buffers   buffers.Ledger    `json:"buffers"`
}

// Quantiles reads a histogram.
func Quantiles(h *hdrhistogram.Histogram) Values {
	return Values{h.TotalCount(), h.ValueAtQuantile(50), h.ValueAtQuantile(90), h.ValueAtQuantile(99),
		h.ValueAtQuantile(99.9), h.Max()}
}

// Summarize puts channels together.
func Summarize(channels []*Channel, clock Clock) Summary {
	s := Summary{Channels: []ChannelSummary{}, Latency: map[string]Values{}, Clock: clock}
	sent := hdrhistogram.New(1, 3600e9, 3)
	for _, c := range channels {
		s.Channels = append(s.Channels, c.summary())
		sent.Merge(c.sendReceive)
		s.Clock.Outside += c.outside
		s.Books.Published += c.published
		if c.levels != nil {
			for i := range c.levels.Securities() {
				if c.levels.Securities()[i].Damaged > 0 {
					s.Books.Stale++
				}
			}
		}
	}
	for _, t := range Tops(channels...) {
		s.Books.Symbols++
		s.Books.BidLevels += t.BidLevels
		s.Books.AskLevels += t.AskLevels
		if t.BidLevels > 0 && t.AskLevels > 0 {
			s.Books.TwoSided++
			if t.Bid.Price >= t.Ask.Price {
				s.Books.Crossed++
			}
		}
		if t.Stale {
			s.Books.Stale++
		}
	}
	s.Books.Symbols += len(Positions(channels...))
	s.Books.Levels = s.Books.BidLevels + s.Books.AskLevels
	s.Books.Digest = Digest(channels...)
	if sent.TotalCount() > 0 {
		s.Latency["send_to_receive"] = Quantiles(sent)
		if p := sent.ValueAtQuantile(50); p > 36e9 && p < 38e9 {
			s.Clock.Suspicion = "send to receive is about 37 s: the receive clock counts TAI; -clock-offset 37s"
		}
	}
	return s
}

// WriteJSON writes the summary.
func (s *Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(s)
}

// summary returns the counters of a channel for the report.
func (c *Channel) summary() ChannelSummary {
	st := c.seq.Stats()
	s := ChannelSummary{Protocol: c.proto.String(), Name: c.cfg.Name, State: st.State.String(), Lines: []LineSummary{},
		Epochs: []EpochSummary{}, Messages: c.messages, Types: map[string]uint64{}, Skipped: c.skipped,
		Trades: c.trades, Volume: c.volume,
		Delivery: DeliverySummary{st.Delivered, st.Recovered, st.Unrecovered, st.ParkedMax, st.Overflows},
		Gaps:     GapSummary{st.Gaps, st.FilledByLine, st.FilledByRecovery, [][2]uint64{}, st.Requests, st.Rejects},
		Skew:     SkewSummary{c.skew.a, c.skew.b, c.skew.n, c.skew.median(), c.skew.min, c.skew.max}}
	for i, g := range c.cfg.Lines {
		s.Lines = append(s.Lines, c.lineSummary(uint8(i), g.String(), c.lines[i]))
	}
	if r := c.lineSummary(feed.Recovery, "", c.lines[len(c.lines)-1]); r.Packets+r.Malformed+r.Foreign > 0 {
		s.Recovery = &r
	}
	for _, e := range c.epochs {
		s.Epochs = append(s.Epochs, EpochSummary{c.sessionName(e.Session), e.First, e.Last, e.Packets, e.Messages})
	}
	for _, r := range c.unrecovered {
		s.Gaps.Unrecovered = append(s.Gaps.Unrecovered, [2]uint64{r.From, r.To - 1})
	}
	name := func(i int) string {
		switch c.proto {
		case MDP3:
			return fmt.Sprint(i)
		case PITCH:
			return fmt.Sprintf("0x%02x", i)
		}
		return string(rune(i))
	}
	for i, n := range c.types {
		if n > 0 {
			s.Types[name(i)] = n
		}
		if c.entries[i] > 0 {
			if s.Entries == nil {
				s.Entries = map[string]uint64{}
			}
			s.Entries[name(i)] = c.entries[i]
		}
	}
	if c.levels != nil {
		n := c.levels.Missed()
		s.RptSeq = &n
	}
	if c.orders != nil {
		n, unknown := c.orders.Len(), c.orders.Unknown()
		s.Unknown, s.Orders = &unknown, &n
	}
	return s
}

// lineSummary returns the counters of one line for the report.
func (c *Channel) lineSummary(i uint8, group string, own lineCount) LineSummary {
	l := c.seq.Line(i)
	return LineSummary{Group: group, Packets: l.Segments, Bytes: l.Bytes, Heartbeats: l.Heartbeats, FirstWins: l.FirstWins,
		Duplicates: l.Duplicates, Lost: l.Lost, Reordered: l.Reordered, Late: l.Late, Early: l.Early, OldEpoch: l.OldEpoch,
		Wild: l.Wild, Oversize: l.Oversize, Malformed: l.Malformed + own.malformed, Foreign: own.foreign,
		Unsequenced: own.unsequenced, KernelDrops: own.kernelDrops,
		KernelPackets: own.kernelPackets, MaxLag: l.MaxLag, Dead: l.Dead}
}

// sessionName is the session as the protocol writes it.
func (c *Channel) sessionName(k uint64) string {
	if c.proto != MoldUDP64 {
		return fmt.Sprint(k)
	}
	return moldudp64.SessionName(k)
}
