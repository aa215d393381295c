package harness

import "fmt"

// Metric is what a row compares, taken from one peer's reading of one round.
type Metric struct {
	Name, Unit   string
	HigherBetter bool
	// Allowed is how much more than the peer ours may have, where that is the question: the ratio is then Allowed divided by the
	// difference. 0: the ratio is that of the values.
	Allowed float64
	Of      func(Reading) float64
	Print   func(float64) string // a value with a unit that keeps it readable
}

// The metrics that several families share.
var (
	MedianLatency = Metric{Name: "p50", Unit: "ns", Print: printTime, Of: func(r Reading) float64 { return r.P50 }}
	TailLatency   = Metric{Name: "p99", Unit: "ns", Print: printTime, Of: func(r Reading) float64 { return r.P99 }}
	// The median of the one-second means: it forgives a second that the host spoiled, and a best second of luck.
	Transactions = Metric{Name: "rate", Unit: "transactions/s", HigherBetter: true, Print: printRate,
		Of: func(r Reading) float64 { return r.MedianWindowRate }}
	Messages = Metric{Name: "rate", Unit: "messages/s", HigherBetter: true, Print: printRate,
		Of: func(r Reading) float64 { return r.MedianWindowRate }}
	ServerCPU = Metric{Name: "server-cpu", Unit: "ns CPU/transaction", Print: printTime,
		Of: func(r Reading) float64 { return r.ServerCPUSeconds * 1e9 / float64(r.N) }}
	IdleCPU = Metric{Name: "cpu", Unit: "CPU fraction", Print: func(v float64) string { return fmt.Sprintf("%.3f %%", v*100) },
		Of: func(r Reading) float64 { return max(r.ServerCPUSeconds/r.Seconds, leastCPUFraction) }}
	PeakMemory = Metric{Name: "rss", Unit: "bytes", Print: func(v float64) string { return fmt.Sprintf("%.1f MB", v/1e6) },
		Of: func(r Reading) float64 { return float64(r.PeakRSSBytes) }}
	RestingMemory = Metric{Name: "rss-at-rest", Unit: "bytes", Print: func(v float64) string { return fmt.Sprintf("%.1f MB", v/1e6) },
		Of: func(r Reading) float64 { return float64(r.RSSBytes) }}
	MemoryPerIdle = Metric{Name: "memory", Unit: "bytes/idle connection", Print: func(v float64) string { return fmt.Sprintf("%.0f B", v) },
		Of: func(r Reading) float64 { return r.perIdle(r.RSSBeforeIdle, r.RSSWithIdle) }}
	Mallocs     = Metric{Name: "mallocs", Unit: "allocations/message", Print: printCount, Of: Reading.mallocsPerMessage}
	SystemCalls = Metric{Name: "calls", Unit: "system calls/message", Print: printCount, Of: Reading.callsPerMessage}
)

// NanosecondsAbove is the time of one turn of a loop, of which ours may have so many more nanoseconds than the peer.
func NanosecondsAbove(allowed float64, per string) Metric {
	return Metric{Name: "ns", Unit: "ns/" + per, Allowed: allowed, Print: func(v float64) string { return fmt.Sprintf("%.1f ns", v) },
		Of: func(r Reading) float64 { return r.P50 }}
}

// leastCPUFraction stands for "no CPU time at all", which would make a ratio infinite: 10 µs in a second.
const leastCPUFraction = 1e-5

// printTime formats a time in nanoseconds.
func printTime(ns float64) string {
	if ns < 1e6 {
		return fmt.Sprintf("%.2f us", ns/1e3)
	}
	return fmt.Sprintf("%.2f ms", ns/1e6)
}

// printRate formats a rate per second.
func printRate(perSecond float64) string {
	if perSecond >= 1e6 {
		return fmt.Sprintf("%.2f M/s", perSecond/1e6)
	}
	return fmt.Sprintf("%.1f k/s", perSecond/1e3)
}

func printCount(v float64) string { return fmt.Sprintf("%.4f", v) }
