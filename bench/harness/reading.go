package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Reading is what one run of the client saw of one server: the client's line of JSON, and the server's memory. Times
// are in nanoseconds where the name says nothing else.
type Reading struct {
	Mode    Mode    `json:"mode"`
	Seconds float64 `json:"seconds"` // of the measured span
	N       uint64  `json:"n"`       // transactions or messages in it

	P10  float64 `json:"p10"`
	P25  float64 `json:"p25"`
	P50  float64 `json:"p50"`
	P75  float64 `json:"p75"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`

	Rate             float64 `json:"rate"`      // mean of the whole span, per second
	WindowMS         uint64  `json:"window_ms"` // 1000, or 100 when the span is shorter than a second
	Windows          int     `json:"windows"`
	BestWindowRate   float64 `json:"best_window_rate"`
	MedianWindowRate float64 `json:"median_window_rate"`

	// Over the whole run, warm-up included.
	Sent       uint64 `json:"sent"`
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	OutOfOrder uint64 `json:"out_of_order"`
	Corrupt    uint64 `json:"corrupt"`
	Timeouts   uint64 `json:"timeouts"`

	HostLostFraction float64 `json:"host_lost_fraction"` // of the span, taken from the spinning client by the host
	// ForeignFraction is how much of the span the server's CPU worked for other processes, in steps of 10 ms; 0 when
	// the server is not bound to a CPU.
	ForeignFraction  float64 `json:"foreign_fraction"`
	ServerCPUSeconds float64 `json:"server_cpu_seconds"` // user and system, all threads, of the span
	ClientCPUSeconds float64 `json:"client_cpu_seconds"`

	// Flood: messages per second that were sent in the windows, and how many of these lost more than they may.
	Offered        float64 `json:"offered"`
	SpoiledWindows int     `json:"spoiled_windows"`

	// With idle connections beside the active ones: how many, and the server's resident size and the kernel's slabs (of all
	// processes) before they were opened and after.
	Idle           int    `json:"idle"`
	RSSBeforeIdle  uint64 `json:"rss_before_idle"`
	RSSWithIdle    uint64 `json:"rss_with_idle"`
	SlabBeforeIdle uint64 `json:"slab_before_idle"`
	SlabWithIdle   uint64 `json:"slab_with_idle"`

	RSSBytes     uint64 `json:"-"`           // of the server, after the client has gone
	PeakRSSBytes uint64 `json:"-"`           // at its highest, all connections open
	Mallocs      uint64 `json:"mallocs"`     // objects the server, or the loop, allocated on Go's heap while it served
	HasMallocs   bool   `json:"has_mallocs"` // it said so

	Kicks    float64 `json:"-"` // system calls of the server for each message that moved packets
	Looks    float64 `json:"-"` // and those that looked for some
	HasCalls bool    `json:"-"` // it said so
	Path     string  `json:"-"` // how the server's packets travel, in its own words
}

// ParseReading reads the line of JSON that a client prints at its end.
func ParseReading(line []byte) (Reading, error) {
	var r Reading
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("the client's result %q: %w", line, err)
	}
	return r, nil
}

// disturbed is the part of the span, 0 to 1, that the host took away from the client, or that other processes took on the server's CPU,
// whichever is more. It does not matter to an idle server, whose CPU time is counted by the kernel.
func (r Reading) disturbed() float64 {
	if r.Mode == Idle {
		return 0
	}
	return max(r.HostLostFraction, r.ForeignFraction)
}

// mallocsPerMessage is how many objects the server allocated for each message it was sent, NaN when it did not say. Never nothing, so
// that it can be divided by.
func (r Reading) mallocsPerMessage() float64 {
	if !r.HasMallocs || r.Sent == 0 {
		return math.NaN()
	}
	return max(float64(r.Mallocs)/float64(r.Sent), LeastMallocs)
}

// callsPerMessage is how many system calls the server made for each message, NaN when it did not say.
func (r Reading) callsPerMessage() float64 {
	if !r.HasCalls {
		return math.NaN()
	}
	return max(r.Kicks+r.Looks, leastCalls)
}

// leastCalls stands for "no system call at all", which would make a ratio infinite: one in a million messages.
const leastCalls = 1e-6

// LeastMallocs stands for "no allocation at all": one in ten thousand messages.
const LeastMallocs = 1e-4

// perIdle is what one idle connection added to a size that was before and then with; never less than one byte, so that it can be
// divided by.
func (r Reading) perIdle(before, with uint64) float64 {
	return max((float64(with)-float64(before))/float64(max(r.Idle, 1)), 1)
}

// better says that r is worth more than another attempt: it measured something, or was disturbed less.
func (r Reading) better(other Reading, w Workload) bool {
	blank, otherBlank := len(r.empty(w)) > 0, len(other.empty(w)) > 0
	if blank != otherBlank {
		return otherBlank
	}
	return r.disturbed() < other.disturbed()
}

// Faults lists what is wrong with a reading: messages that did not come back as they should, and numbers that cannot be.
func (r Reading) Faults(w Workload) []string { return append(r.Broken(w), r.empty(w)...) }

// Broken lists what the server did to the messages. No noise of the host excuses it.
func (r Reading) Broken(w Workload) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r.Mode != w.Mode {
		add("the client ran %q instead of %q", r.Mode, w.Mode)
	}
	if r.Lost > 0 && !w.Lossy() {
		add("%d of %d messages lost", r.Lost, r.Sent)
	}
	if r.Lost > r.Sent {
		add("%d messages lost of %d sent", r.Lost, r.Sent)
	}
	if r.Duplicated > 0 {
		add("%d messages duplicated", r.Duplicated)
	}
	if r.OutOfOrder > 0 {
		add("%d messages out of order", r.OutOfOrder)
	}
	if r.Corrupt > 0 {
		add("%d messages changed on the way", r.Corrupt)
	}
	return out
}

// empty lists the numbers that are missing or cannot be. A host that is busy elsewhere for the whole of a short span
// leaves nothing to measure.
func (r Reading) empty(w Workload) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !usable(r.Seconds) || r.N == 0 {
		add("nothing was measured: n %d in %g s", r.N, r.Seconds)
	}
	if r.Idle != w.Beside || (w.Beside > 0 && (r.RSSBeforeIdle == 0 || r.RSSWithIdle == 0)) {
		add("memory: %d idle connections instead of %d, %d bytes before and %d with them", r.Idle, w.Beside,
			r.RSSBeforeIdle, r.RSSWithIdle)
	}
	if w.Mode == Flood && r.SpoiledWindows > w.spoiled() {
		add("no rate was found: at %.0f messages/s %d windows lost more than %g of them", r.Offered, r.SpoiledWindows, w.mostLost())
	}
	if w.Mode == PingPong || w.Mode == Pipeline || w.Mode == Gap || w.Mode == Loop || w.Mode == First {
		order := []float64{r.P10, r.P25, r.P50, r.P75, r.P90, r.P99, r.P999, r.Max}
		for i, v := range order {
			if !usable(v) || (i > 0 && v < order[i-1]) {
				add("percentiles %v are not positive and rising", order)
				break
			}
		}
	}
	if w.Mode == PingPong || w.Mode == Pipeline || w.Mode == OneWay || w.Mode == Flood || w.Mode == Loop {
		if r.Windows == 0 || !usable(r.MedianWindowRate) || r.BestWindowRate < r.MedianWindowRate {
			add("rates: %d windows, median %g, best %g", r.Windows, r.MedianWindowRate, r.BestWindowRate)
		}
	}
	return out
}
