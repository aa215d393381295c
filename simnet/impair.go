package simnet

import (
	"fmt"
	"strings"
	"time"
)

// Impairment is how one direction of a cable treats frames. The zero value carries everything at once. Probabilities are 0 to 1, each for
// one frame.
//
// What happens to the n-th frame of a line depends on the seed, the line's name, n and the probability in question only: an impairment more
// or less does not change what the others hit.
type Impairment struct {
	Delay  time.Duration // of every frame
	Jitter time.Duration // up to so much more; order is kept
	Rate   int64         // bits per second; 0: no limit
	Queue  int           // with Rate: bytes that may wait for the line, more are lost; 0: no limit

	Loss       float64 // one by one
	BurstBegin float64 // that a frame begins a time of losses (Gilbert and Elliott's model)
	BurstEnd   float64 // that a frame ends it
	BurstLoss  float64 // while it lasts
	Nth        uint64  // every n-th frame is lost, counted from when this was set; 0: none
	Lose       Kind    // all frames of these kinds are lost
	Kinds      Kind    // the kinds that Loss, Burst… and Nth hit; 0: all

	Duplicate float64       // a frame comes twice
	Reorder   float64       // a frame comes later than those behind it
	ReorderBy time.Duration // by so much; 0 means 1 ms
	Corrupt   float64       // one bit is flipped, anywhere in the frame
	Truncate  float64       // the end of the frame is missing

	MTU  int  // longer IP packets are lost without a word; 0: none
	Down bool // nothing gets through
}

// check returns an error that names the first value out of range.
func (m *Impairment) check() error {
	for _, p := range []struct {
		name  string
		value float64
	}{{"Loss", m.Loss}, {"BurstBegin", m.BurstBegin}, {"BurstEnd", m.BurstEnd}, {"BurstLoss", m.BurstLoss}, {"Duplicate", m.Duplicate},
		{"Reorder", m.Reorder}, {"Corrupt", m.Corrupt}, {"Truncate", m.Truncate}} {
		if !(p.value >= 0 && p.value <= 1) {
			return fmt.Errorf("simnet: %s is %v, must be 0 to 1", p.name, p.value)
		}
	}
	for _, d := range []struct {
		name  string
		value int64
	}{{"Delay", int64(m.Delay)}, {"Jitter", int64(m.Jitter)}, {"ReorderBy", int64(m.ReorderBy)}, {"Rate", m.Rate},
		{"Queue", int64(m.Queue)}, {"MTU", int64(m.MTU)}} {
		if d.value < 0 {
			return fmt.Errorf("simnet: %s is %d, must not be negative", d.name, d.value)
		}
	}
	return nil
}

// String lists what is set.
func (m Impairment) String() string {
	var list []string
	add := func(on bool, format string, args ...any) {
		if on {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(m.Delay > 0, "delay %v", m.Delay)
	add(m.Jitter > 0, "jitter %v", m.Jitter)
	add(m.Rate > 0, "rate %d bit/s", m.Rate)
	add(m.Queue > 0, "queue %d bytes", m.Queue)
	add(m.Loss > 0, "loss %v", m.Loss)
	add(m.BurstBegin > 0, "bursts %v to %v of %v", m.BurstBegin, m.BurstEnd, m.BurstLoss)
	add(m.Nth > 0, "every %d-th lost", m.Nth)
	add(m.Lose > 0, "all %v lost", m.Lose)
	add(m.Kinds > 0, "(losses hit %v)", m.Kinds)
	add(m.Duplicate > 0, "duplicate %v", m.Duplicate)
	add(m.Reorder > 0, "reorder %v by %v", m.Reorder, m.ReorderBy)
	add(m.Corrupt > 0, "corrupt %v", m.Corrupt)
	add(m.Truncate > 0, "truncate %v", m.Truncate)
	add(m.MTU > 0, "MTU %d", m.MTU)
	add(m.Down, "down")
	if list == nil {
		return "clear"
	}
	return strings.Join(list, ", ")
}

// Cause is why a line lost a frame.
type Cause uint8

// The causes of losses.
const (
	LostDown   Cause = iota // the line is down
	LostMTU                 // longer than the line's MTU
	LostKind                // its kind is lost always
	LostNth                 // it was the n-th
	LostBurst               // in a time of losses
	LostRandom              // one by one
	LostQueue               // the line's queue was full
	NumCauses
)

var causeNames = [NumCauses]string{"line.down", "line.mtu", "line.kind", "line.nth", "line.burst", "line.random", "line.queue_full"}

// String is the stable name of the cause.
func (c Cause) String() string {
	if c < NumCauses {
		return causeNames[c]
	}
	return "unknown"
}
