package pacetest

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// LongRun is how long a run is with SOCKETXTREME_LONG in the environment; 0 without.
func LongRun(t testing.TB) time.Duration {
	text := os.Getenv("SOCKETXTREME_LONG")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("SOCKETXTREME_LONG=%s: want a time above 0: %v", text, err)
	}
	return d
}

// Keeps lets run send without pause for a time, and checks the arrivals. A violation of the rule is an error on any machine. If the machine
// stopped the sender so much that little can be asked of it, another run is made, three in all.
//
// In the long form the rule is also checked by the arrivals alone, as a receiver would: in 99 % of all windows of 10 ms not more than rate
// and burst, and on average the rate within 1 %, not counting the time for which the sender was stopped. That needs an idle machine, and one
// run of five must pass.
func (r Rule) Keeps(t testing.TB, ordinary time.Duration, run func(time.Duration) ([]Arrival, *Notes)) {
	t.Helper()
	long := LongRun(t)
	tries := 3
	if long != 0 {
		tries = 5
	}
	var wrong error
	for range tries {
		all, notes := run(max(ordinary, long))
		t.Logf("%d datagrams in %v, the sender was stopped %d times, for %v; %d windows have too much", len(all), notes.Ran(), notes.Times,
			notes.Stopped, r.Windows(all))
		if err := r.Check(all); err != nil {
			t.Fatal(err)
		}
		if err := r.Least(all, notes.Stopped); err != nil {
			t.Fatal(err)
		}
		if long != 0 {
			wrong = r.strict(all, notes.Stopped)
		}
		if wrong == nil && !notes.Disturbed() {
			return
		}
	}
	if wrong != nil {
		t.Fatal(wrong)
	}
}

// strict checks the rule by the arrivals alone; see Keeps.
func (r Rule) strict(all []Arrival, stopped time.Duration) error {
	if over := r.Windows(all); 100*over > len(all) {
		return fmt.Errorf("%d of %d windows have too much", over, len(all))
	}
	first, last := all[min(r.Burst/r.Size+1, len(all)-1)], all[len(all)-1] // after the burst it began with
	took := time.Duration(last.At - first.At)
	least, most := 0.99*float64(r.Rate)*(took-stopped).Seconds()-float64(r.Size), 1.01*float64(r.Rate)*took.Seconds()+float64(r.Size)
	if got := float64((last.Number - first.Number) * r.Size); got > most || got < least {
		return fmt.Errorf("%.0f bytes in %v, want %.0f to %.0f", got, took, least, most)
	}
	return nil
}
