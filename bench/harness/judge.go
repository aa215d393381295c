package harness

import (
	"fmt"
	"math"
	"strings"
)

// Status says what became of a row.
type Status string

const (
	Met      Status = "met"      // the ratio reaches the goal
	Missed   Status = "missed"   // it does not
	Measured Status = "measured" // there is no goal, or the run was too short to judge it
	NotRun   Status = "not run"  // a server or tool is missing here; Reason says which
	Failed   Status = "failed"   // a process failed, or messages were lost or duplicated; Reason says how
)

// Side is one server's part of a row. Percentiles (ns), rates (per second) and the value are medians of the rounds;
// counts and CPU time are sums over the rounds; memory is the largest of the rounds.
type Side struct {
	Server string  `json:"server"`
	Value  float64 `json:"value"` // the metric of the row, in the row's unit

	P10  float64 `json:"p10,omitempty"`
	P50  float64 `json:"p50,omitempty"`
	P90  float64 `json:"p90,omitempty"`
	P99  float64 `json:"p99,omitempty"`
	P999 float64 `json:"p999,omitempty"`
	Max  float64 `json:"max,omitempty"`

	Rate             float64 `json:"rate,omitempty"`
	MedianWindowRate float64 `json:"median_window_rate,omitempty"`
	BestWindowRate   float64 `json:"best_window_rate,omitempty"`
	WindowMS         uint64  `json:"window_ms,omitempty"`

	N          uint64 `json:"n"`
	Sent       uint64 `json:"sent"`
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	OutOfOrder uint64 `json:"out_of_order"`
	Corrupt    uint64 `json:"corrupt"`
	Timeouts   uint64 `json:"timeouts"`

	CPUSeconds       float64 `json:"cpu_seconds"`
	CPUFraction      float64 `json:"cpu_fraction"` // of one CPU over the measured spans
	ClientCPUSeconds float64 `json:"client_cpu_seconds"`
	Idle             int     `json:"idle,omitempty"`                 // idle connections beside the active ones
	MemoryPerIdle    float64 `json:"memory_per_idle,omitempty"`      // bytes of the server's resident size; median of the rounds
	SlabPerIdle      float64 `json:"kernel_slab_per_idle,omitempty"` // bytes of the kernel's slabs, both ends of the connection
	Mallocs          uint64  `json:"mallocs,omitempty"`              // objects on Go's heap, over the whole lives of the servers
	Kicks            float64 `json:"kicks,omitempty"`                // system calls per message that moved packets; median of the rounds
	Looks            float64 `json:"looks,omitempty"`                // and those that looked for some
	Offered          float64 `json:"offered,omitempty"`              // flood: messages per second that were sent; median of the rounds
	SpoiledWindows   int     `json:"spoiled_windows,omitempty"`      // flood: windows that lost more than they may
	Path             string  `json:"path,omitempty"`                 // how packets travel, in the server's words
	RSSBytes         uint64  `json:"rss_bytes"`
	PeakRSSBytes     uint64  `json:"peak_rss_bytes"`
	HostLostFraction float64 `json:"host_lost_fraction"` // of the client's time; median of the rounds
	ForeignFraction  float64 `json:"foreign_fraction"`   // of the server's CPU; median of the rounds
}

// RoundResult is what one round contributed to the row.
type RoundResult struct {
	Ours             float64 `json:"ours"`
	Peer             float64 `json:"peer"`
	Ratio            float64 `json:"ratio"`
	HostLostFraction float64 `json:"host_lost_fraction"` // of the side and process that lost most
	Attempts         int     `json:"attempts"`
	Noisy            bool    `json:"noisy"`
}

// Result is one row of the report.
type Result struct {
	Name     string        `json:"name"`
	Workload string        `json:"workload"`
	Ours     *Side         `json:"ours"` // null when there was no complete round
	Peer     *Side         `json:"peer"`
	Unit     string        `json:"unit"`
	Allowed  float64       `json:"allowed,omitempty"` // ours may be so much above the peer: the ratio is this by the difference
	Ratio    *float64      `json:"ratio"`             // times better than the peer: median of the rounds
	Spread   *Spread       `json:"spread"`            // of the ratio
	Goal     *float64      `json:"goal"`              // null when none is set
	Met      *bool         `json:"met"`               // null when there is nothing to judge
	Steady   *bool         `json:"steady"`            // even the worst quartile of the rounds reaches the goal
	Status   Status        `json:"status"`
	Reason   string        `json:"reason,omitempty"`
	Rounds   []RoundResult `json:"rounds"`

	show     func(float64) string // a value of the metric
	overload bool
}

// judge turns the rounds of a case into one row. A quick run is too short for a verdict, so its goals stay unjudged.
func judge(row Row, out Outcome, quick bool) Result {
	r := Result{Name: row.Name(), Workload: row.Workload.Name, Unit: row.Metric.Unit, Allowed: row.Metric.Allowed,
		Status: Measured, Rounds: []RoundResult{}, show: row.Metric.Print, overload: row.Workload.Overload}
	if row.Goal > 0 {
		r.Goal = &row.Goal
	}
	var ours, peer []Reading
	var ratios []float64
	for _, round := range out.Rounds {
		one := RoundResult{Ours: row.Metric.Of(round.Ours.Reading), Peer: row.Bound, HostLostFraction: round.disturbed(),
			Attempts: round.attempts(), Noisy: round.noisy()}
		if row.Peer != Limit {
			one.Peer = row.Metric.Of(round.Peer.Reading)
		}
		if !usable(one.Ours) || !usable(one.Peer) { // its reading is among the faults; JSON knows no NaN
			continue
		}
		one.Ratio = timesBetter(row.Metric, one.Ours, one.Peer)
		r.Rounds = append(r.Rounds, one)
		ratios = append(ratios, one.Ratio)
		ours, peer = append(ours, round.Ours.Reading), append(peer, round.Peer.Reading)
	}
	if len(ratios) > 0 {
		r.Ours = sideOf(row.Ours, row.Metric, ours)
		r.Peer = &Side{Server: Limit, Value: row.Bound}
		if row.Peer != Limit {
			r.Peer = sideOf(row.Peer, row.Metric, peer)
		}
		ratio, spread := Median(ratios), spreadOf(ratios)
		r.Ratio, r.Spread = &ratio, &spread
		if row.Goal > 0 && !quick {
			met, steady := ratio >= row.Goal, spread.Q1 >= row.Goal
			r.Met, r.Steady = &met, &steady
			r.Status = Missed
			if met {
				r.Status = Met
			}
		}
	}
	switch {
	case out.NotRun != "":
		r.Status, r.Reason = NotRun, out.NotRun
	case out.Failed != "":
		r.Status, r.Reason = Failed, out.Failed
	case len(out.Faults) > 0:
		r.Status, r.Reason = Failed, strings.Join(out.Faults, "; ")
	case len(ratios) == 0:
		r.Status, r.Reason = Failed, "no round gave a usable number"
	}
	if r.Status == Failed || r.Status == NotRun {
		r.Met, r.Steady = nil, nil
	}
	return r
}

// sideOf returns the medians, over the rounds, of one side's readings.
func sideOf(server string, m Metric, readings []Reading) *Side {
	mid := func(of func(Reading) float64) float64 {
		var values []float64
		for _, r := range readings {
			values = append(values, of(r))
		}
		return Median(values)
	}
	s := &Side{
		Server: server, Value: mid(m.Of), WindowMS: readings[0].WindowMS,
		P10: mid(func(r Reading) float64 { return r.P10 }), P50: mid(func(r Reading) float64 { return r.P50 }),
		P90: mid(func(r Reading) float64 { return r.P90 }), P99: mid(func(r Reading) float64 { return r.P99 }),
		P999: mid(func(r Reading) float64 { return r.P999 }), Max: mid(func(r Reading) float64 { return r.Max }),
		Rate:             mid(func(r Reading) float64 { return r.Rate }),
		MedianWindowRate: mid(func(r Reading) float64 { return r.MedianWindowRate }),
		BestWindowRate:   mid(func(r Reading) float64 { return r.BestWindowRate }),
		Kicks:            mid(func(r Reading) float64 { return r.Kicks }),
		Looks:            mid(func(r Reading) float64 { return r.Looks }),
		Offered:          mid(func(r Reading) float64 { return r.Offered }),
		Path:             readings[0].Path,
		HostLostFraction: mid(func(r Reading) float64 { return r.HostLostFraction }),
		ForeignFraction:  mid(func(r Reading) float64 { return r.ForeignFraction }),
	}
	if s.Idle = readings[0].Idle; s.Idle > 0 {
		s.MemoryPerIdle = mid(func(r Reading) float64 { return r.perIdle(r.RSSBeforeIdle, r.RSSWithIdle) })
		s.SlabPerIdle = mid(func(r Reading) float64 { return r.perIdle(r.SlabBeforeIdle, r.SlabWithIdle) })
	}
	var seconds float64
	for _, r := range readings {
		s.N += r.N
		s.Sent += r.Sent
		s.Lost += r.Lost
		s.Duplicated += r.Duplicated
		s.OutOfOrder += r.OutOfOrder
		s.Corrupt += r.Corrupt
		s.Timeouts += r.Timeouts
		s.SpoiledWindows += r.SpoiledWindows
		s.Mallocs += r.Mallocs
		s.CPUSeconds += r.ServerCPUSeconds
		s.ClientCPUSeconds += r.ClientCPUSeconds
		s.RSSBytes = max(s.RSSBytes, r.RSSBytes)
		s.PeakRSSBytes = max(s.PeakRSSBytes, r.PeakRSSBytes)
		seconds += r.Seconds
	}
	s.CPUFraction = s.CPUSeconds / seconds
	return s
}

// malformed lists what a reader of the JSON could not rely on. It repeats what judge guarantees, from the outside.
func (r Result) malformed() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, r.Name+": "+fmt.Sprintf(format, args...)) }
	if r.Name == "" || r.Unit == "" || r.Workload == "" {
		add("name %q, unit %q or workload %q is empty", r.Name, r.Unit, r.Workload)
	}
	if r.Goal != nil && !usable(*r.Goal) {
		add("goal %g", *r.Goal)
	}
	switch r.Status {
	case NotRun, Failed:
		if r.Reason == "" {
			add("%s without a reason", r.Status)
		}
		return out
	case Met, Missed, Measured:
	default:
		add("unknown status %q", r.Status)
	}
	if r.Ours == nil || r.Peer == nil || r.Ratio == nil || r.Spread == nil || len(r.Rounds) == 0 {
		add("%s, yet ours, peer, ratio, spread or rounds are missing", r.Status)
		return out
	}
	if !usable(*r.Ratio) || !usable(r.Ours.Value) || !usable(r.Peer.Value) {
		add("ratio %g of ours %g and peer %g", *r.Ratio, r.Ours.Value, r.Peer.Value)
	}
	if s := *r.Spread; s.Min > s.Q1 || s.Q1 > *r.Ratio || *r.Ratio > s.Q3 || s.Q3 > s.Max || math.IsNaN(s.Min+s.Max) {
		add("spread %+v around ratio %g", s, *r.Ratio)
	}
	if r.Met != nil && (r.Goal == nil || *r.Met != (*r.Ratio >= *r.Goal)) {
		add("met does not follow from ratio and goal")
	}
	for _, s := range []*Side{r.Ours, r.Peer} {
		if s.Server == "" || (s.Server != Limit && (s.N == 0 || s.PeakRSSBytes == 0)) {
			add("side %q: n %d, peak memory %d", s.Server, s.N, s.PeakRSSBytes)
		}
		if s.P50 > 0 && (s.P10 > s.P50 || s.P50 > s.P99) {
			add("side %q: p10 %g, p50 %g, p99 %g do not rise", s.Server, s.P10, s.P50, s.P99)
		}
	}
	return out
}
