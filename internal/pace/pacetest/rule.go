package pacetest

import (
	"fmt"
	"math"
	"time"
)

// Window is the time over which Rule.Windows counts.
const Window = 10 * time.Millisecond

// Rule is what a sender of datagrams of one size has to keep.
type Rule struct {
	Rate  uint64 // bytes a second
	Burst int
	Size  int // of each datagram
	// Drift is by how much the clocks of the sender's bucket and of the receiver's stamps may differ in speed, as a part of the whole: the
	// system's clock is slewed by up to 500 ppm. 0 where there is one clock.
	Drift float64
}

// SystemClocks is the Drift between CLOCK_MONOTONIC and CLOCK_REALTIME, with as much again for stamps that are not quite in order.
const SystemClocks = 1e-3

// Arrival is one datagram at the receiver, times in nanoseconds of one clock.
type Arrival struct {
	Number int   // of those sent, from 0
	At     int64 // when it came
	Since  int64 // it was let go then or later
}

// Check returns an error for the first stretch in which the sender sent too much. The arrivals are in the order of their numbers; a datagram
// that was lost on the way counts as sent.
func (r Rule) Check(all []Arrival) error {
	if len(all) == 0 {
		return fmt.Errorf("nothing came")
	}
	rate := float64(r.Rate) * (1 + r.Drift) / 1e9
	zero := all[0].Since
	// The largest rate × since(i) − bytes before i decides for every j which i is the hardest on it.
	hardest, from := math.Inf(-1), 0
	for j, a := range all {
		if j > 0 && a.Number <= all[j-1].Number {
			return fmt.Errorf("datagram %d came after %d", a.Number, all[j-1].Number)
		}
		if a.Since > a.At {
			return fmt.Errorf("datagram %d came %v before it was let go: not one clock", a.Number, time.Duration(a.Since-a.At))
		}
		if x := rate*float64(a.Since-zero) - float64(a.Number)*float64(r.Size); x > hardest {
			hardest, from = x, j
		}
		sent := float64(a.Number+1) * float64(r.Size)
		if over := sent + hardest - rate*float64(a.At-zero) - float64(r.Burst); over > 1 {
			first := all[from]
			return fmt.Errorf("%.0f bytes too much: %d bytes, datagrams %d to %d, in %v, of which the first may have been under way %v", over,
				(a.Number-first.Number+1)*r.Size, first.Number, a.Number, time.Duration(a.At-first.Since), time.Duration(first.At-first.Since))
		}
	}
	return nil
}

// Least returns an error if the sender sent too little, although it always had something to send; stopped is how long the machine stopped it.
func (r Rule) Least(all []Arrival, stopped time.Duration) error {
	if len(all) == 0 {
		return fmt.Errorf("nothing came")
	}
	first, last := all[0], all[len(all)-1]
	ran := time.Duration(last.Since-first.At) - stopped
	least := float64(r.Burst) + 0.99*float64(r.Rate)*ran.Seconds() - 2*float64(r.Size)
	if got := float64(last.Number-first.Number+1) * float64(r.Size); got < least {
		return fmt.Errorf("%.0f bytes in %v, want at least %.0f; the sender was stopped for %v", got, time.Duration(last.At-first.At), least, stopped)
	}
	return nil
}

// Windows counts the arrivals after which more came within Window than the rule lets go, whatever the reason.
func (r Rule) Windows(all []Arrival) (over int) {
	most := float64(r.Rate)*Window.Seconds() + float64(r.Burst)
	end := 0
	for _, a := range all {
		for end < len(all) && all[end].At < a.At+int64(Window) {
			end++
		}
		if float64((all[end-1].Number-a.Number+1)*r.Size) > most {
			over++
		}
	}
	return over
}
