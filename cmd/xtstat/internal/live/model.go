package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Series is a quantity, a value for each second, the oldest first.
type Series []float64

// Last is the newest value; 0 without one.
func (s Series) Last() float64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1]
}

// Count is something that is counted by name.
type Count struct {
	Name  string  `json:"name"`
	Total uint64  `json:"total"`
	Rate  float64 `json:"rate"` // a second, over the last minute
}

// Socket is a row of the sockets.
type Socket struct {
	View     stats.View `json:"-"`
	Ring     stats.View `json:"-"`
	ID       uint64     `json:"id"`
	Protocol string     `json:"protocol"`
	Local    string     `json:"local"`
	Remote   string     `json:"remote"`
	Packets  float64    `json:"packets"` // received a second, since the last update, as Bytes and Sent
	Bytes    float64    `json:"bytes"`
	Sent     float64    `json:"sent"` // messages
	Queued   uint64     `json:"queued"`
	Drops    uint64     `json:"drops"`
}

// Text is what view 3 shows of the socket.
func (s *Socket) Text() string {
	var b strings.Builder
	stats.WriteSocket(&b, &s.View, &s.Ring, "")
	return b.String()
}

// Pool is the buffers of a poller. Used are those that are neither free nor waiting to be filled.
type Pool struct {
	Name   string       `json:"name"`
	Used   uint64       `json:"used"`
	Total  uint64       `json:"total"`
	States []StateCount `json:"states"` // of the last second, those with buffers; none of a process that does not publish them
}

// StateCount is how many buffers of a pool are in a state.
type StateCount struct {
	State string `json:"state"`
	Count uint64 `json:"count"`
}

// StatesOf are the states of a poller's buffers that have any.
func StatesOf(poller *stats.View) (list []StateCount) {
	for _, state := range stats.BufferStates {
		if n := poller.Totals["buffers_"+state]; n > 0 {
			list = append(list, StateCount{state, n})
		}
	}
	return list
}

// StatesText is the states in words: "filling 512, held 3".
func StatesText(list []StateCount) string {
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = fmt.Sprintf("%s %d", x.State, x.Count)
	}
	return strings.Join(words, ", ")
}

// FeedLine is a line of a feed. What is counted is since the begin; Lost is what the line has not brought.
type FeedLine struct {
	Feed       string  `json:"feed"`
	Line       string  `json:"line"`
	Rate       float64 `json:"rate"` // packets a second, since the last update
	Packets    uint64  `json:"packets"`
	First      uint64  `json:"first"` // messages
	Duplicates uint64  `json:"duplicates"`
	Gaps       uint64  `json:"gaps"`
	Lost       uint64  `json:"lost"`
	Recovered  uint64  `json:"recovered"` // messages of the feed's gaps that it filled
	Last       uint64  `json:"last"`      // sequence number
	Dead       bool    `json:"dead"`
}

// Model is what the screens show. The series have a value for each second, the newest last.
type Model struct {
	Process stats.Process `json:"process"`
	At      time.Time     `json:"at"`

	RxPackets Series `json:"rx_packets"` // and the next three: a second
	RxBytes   Series `json:"rx_bytes"`
	TxPackets Series `json:"tx_packets"`
	TxBytes   Series `json:"tx_bytes"`
	HitRatio  Series `json:"hit_ratio"` // of polls, 0 to 1
	Lost      Series `json:"lost"`      // a second
	Batch     Series `json:"batch"`     // and the next two: the largest of the second
	Queue     Series `json:"queue"`
	Gap       Series `json:"gap"` // ns

	Gaps        []Count       `json:"gaps"`  // by length, in the last minute
	Drops       []Count       `json:"drops"` // what was lost, the most in the last minute first
	Pools       []Pool        `json:"pools"`
	Lines       []FeedLine    `json:"lines"`
	Sockets     []Socket      `json:"sockets"`
	Unpublished uint64        `json:"unpublished"`
	Events      []stats.Event `json:"events"` // without gaps between polls, which have a histogram

	ofKernel kernelLosses
	before   map[blockKey]*stats.View // sockets and lines at the last update
	taken    time.Time
}

// blockKey is one use of a block's place.
type blockKey struct {
	section string
	index   int
	opened  int64
}

// historyLength is how many seconds of samples are shown.
const historyLength = 120

// eventsShown is how many events the model keeps.
const eventsShown = 50

// gapNames are the buckets of gaps, as the table and the screens call them.
var gapNames = []struct{ counter, label string }{{"gaps_below_200us", "< 200 µs"}, {"gaps_below_500us", "< 500 µs"}, {"gaps_below_1ms", "< 1 ms"},
	{"gaps_below_2ms", "< 2 ms"}, {"gaps_below_5ms", "< 5 ms"}, {"gaps_below_10ms", "< 10 ms"}, {"gaps_below_100ms", "< 100 ms"}, {"gaps_longer", "longer"}}

// Update reads the file.
func (m *Model) Update(r *stats.Reader, now time.Time) error {
	var err error
	if m.Process, err = r.Process(); err != nil {
		return err
	}
	m.At = now
	samples := r.Samples()
	samples = samples[max(0, len(samples)-historyLength-1):]
	m.RxPackets, m.RxBytes = rates(samples, "ring.packets"), rates(samples, "ring.bytes")
	m.TxPackets, m.TxBytes = rates(samples, "ring.sent_messages"), rates(samples, "ring.sent_bytes")
	m.HitRatio = ratio(rates(samples, "ring.hits"), rates(samples, "ring.polls"))
	m.Batch, m.Queue, m.Gap = levels(samples, "ring.batch"), levels(samples, "ring.queue"), levels(samples, "poller.poll_gap")
	m.losses(samples)
	m.Gaps = m.Gaps[:0]
	for _, g := range gapNames {
		m.Gaps = append(m.Gaps, lastMinute(samples, "poller."+g.counter, g.label))
	}
	m.Pools = m.Pools[:0]
	for _, b := range r.Blocks(stats.Pollers) {
		m.Pools = append(m.Pools, Pool{b.Info["name"], b.Totals["buffers_used"], b.Totals["buffers"], StatesOf(&b)})
	}
	seconds, before := now.Sub(m.taken).Seconds(), map[blockKey]*stats.View{}
	m.sockets(r, before, seconds)
	m.lines(r, before, seconds)
	m.before, m.taken = before, now
	events := slices.DeleteFunc(r.Events(), func(e stats.Event) bool { return e.Kind == stats.EventPollGap.String() })
	m.Events = events[max(0, len(events)-eventsShown):]
	return nil
}

// losses finds what counts something lost, and how much was lost in each second. Two counters may have the same packet: the sum has it once.
// What the kernel alone has counted is in the list by the kernel's counters, so that what is in the sum has a reason there.
func (m *Model) losses(samples []stats.Sample) {
	lost := m.ofKernel.add(samples)
	m.Drops = m.Drops[:0]
	m.Lost = make(Series, max(0, len(samples)-1))
	for i := 1; i < len(samples); i++ {
		if seconds := samples[i].Interval.Seconds(); seconds > 0 {
			m.Lost[i-1] = float64(lost[i].Count) / seconds
		}
	}
	for _, s := range stats.Sections() {
		for i := range s.Counters {
			row := &s.Counters[i]
			if !row.Loss || row.Name == "" || len(samples) == 0 {
				continue
			}
			name := s.Name + "." + row.Name
			c := lastMinute(samples, name, row.Name)
			if c.Total == 0 {
				continue
			}
			m.Drops = append(m.Drops, c)
		}
	}
	m.Drops = append(m.Drops, m.ofKernel.counts(samples, lost)...)
	slices.SortStableFunc(m.Drops, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Total, a.Total))
	})
}

// sockets are the open sockets with their rates since the last update, seconds ago.
func (m *Model) sockets(r *stats.Reader, before map[blockKey]*stats.View, seconds float64) {
	m.Unpublished = r.Unpublished(stats.Sockets)
	m.Sockets = m.Sockets[:0]
	rings := map[int]stats.View{}
	for _, v := range r.Blocks(stats.Rings) {
		rings[v.Index] = v
	}
	for _, v := range r.Blocks(stats.Sockets) {
		rate := m.rateOf(&v, before, seconds)
		m.Sockets = append(m.Sockets, Socket{View: v, Ring: rings[v.Parent], ID: v.ID, Protocol: v.Info["protocol"], Local: v.Info["local"], Remote: v.Info["remote"],
			Packets: rate("packets"), Bytes: rate("bytes"), Sent: rate("sent_messages"), Queued: v.Totals["queued_packets"], Drops: v.Totals["drops"]})
	}
}

// lines are the lines of feeds, in the order in which they were published.
func (m *Model) lines(r *stats.Reader, before map[blockKey]*stats.View, seconds float64) {
	m.Lines = m.Lines[:0]
	for _, v := range r.Blocks(stats.Lines) {
		n := v.Totals
		m.Lines = append(m.Lines, FeedLine{Feed: v.Info["feed"], Line: v.Info["line"], Rate: m.rateOf(&v, before, seconds)("segments"),
			Packets: n["segments"], First: n["first_messages"], Duplicates: n["duplicate_messages"], Gaps: n["gaps"], Lost: n["lost_messages"],
			Recovered: n["filled_messages"], Last: n["last_sequence"], Dead: n["dead"] != 0})
	}
}

// rateOf returns what a total of a block has grown by a second since the last update, by its name, and remembers the block for the next one.
func (m *Model) rateOf(v *stats.View, before map[blockKey]*stats.View, seconds float64) func(name string) float64 {
	key := blockKey{v.Section, v.Index, v.Opened.UnixNano()}
	before[key] = v
	old := m.before[key]
	return func(name string) float64 {
		if old == nil || seconds <= 0 {
			return 0
		}
		return float64(v.Totals[name]-min(old.Totals[name], v.Totals[name])) / seconds
	}
}

// rates are a total's growth by the second.
func rates(samples []stats.Sample, name string) Series {
	var list Series
	for i := 1; i < len(samples); i++ {
		seconds := samples[i].Interval.Seconds()
		v, old := samples[i].Values[name], samples[i-1].Values[name]
		if seconds <= 0 || v < old {
			list = append(list, 0)
			continue
		}
		list = append(list, float64(v-old)/seconds)
	}
	return list
}

// ratio divides each value of a by the one of b at the same time; 0 where b is 0. Both are of the same samples.
func ratio(a, b Series) Series {
	list := make(Series, len(b))
	for i := range b {
		if b[i] > 0 {
			list[i] = a[i] / b[i]
		}
	}
	return list
}

// levels are the values of a peak, without that of the first sample: as many as there are rates.
func levels(samples []stats.Sample, name string) Series {
	var list Series
	for i := 1; i < len(samples); i++ {
		list = append(list, float64(samples[i].Values[name]))
	}
	return list
}

// lastMinute is a total as it is, and its rate over the last minute of samples.
func lastMinute(samples []stats.Sample, name, label string) Count {
	c := Count{Name: label}
	if len(samples) == 0 {
		return c
	}
	end := samples[len(samples)-1]
	c.Total = end.Values[name]
	begin := samples[max(0, len(samples)-61)]
	if seconds := end.Time.Sub(begin.Time).Seconds(); seconds > 0 && begin.Values[name] <= c.Total {
		c.Rate = float64(c.Total-begin.Values[name]) / seconds
	}
	return c
}

// Order is what sockets are sorted by.
type Order rune

// The orders, by their keys.
const (
	ByPackets Order = 'p'
	ByBytes   Order = 'b'
	BySent    Order = 's'
	ByQueue   Order = 'u'
	ByDrops   Order = 'd'
	ByID      Order = 'i'
)

// Orders are the keys of all orders.
const Orders = "pbsudi"

// Sort sorts the sockets, the largest first.
func (m *Model) Sort(o Order) {
	slices.SortStableFunc(m.Sockets, func(a, b Socket) int {
		first := 0
		switch o {
		case ByPackets:
			first = cmp.Compare(b.Packets, a.Packets)
		case ByBytes:
			first = cmp.Compare(b.Bytes, a.Bytes)
		case BySent:
			first = cmp.Compare(b.Sent, a.Sent)
		case ByQueue:
			first = cmp.Compare(b.Queued, a.Queued)
		case ByDrops:
			first = cmp.Compare(b.Drops, a.Drops)
		}
		return cmp.Or(first, cmp.Compare(a.ID, b.ID))
	})
}
