package ring

import (
	"fmt"
	"math"
	"time"
)

// HardwareTimestamps is what is made of the stamps that a network card takes. The values are VMA's (VMA_HW_TS_CONVERSION, whose default is 3).
//
// A card counts nanoseconds on a clock of its own (a PTP hardware clock), which need not have the Unix epoch and runs at its own speed.
// Conversion makes them comparable to the system's time.
type HardwareTimestamps uint8

// The conversions.
const (
	HardwareTimestampsOff  HardwareTimestamps = 0 // cards are not asked
	HardwareTimestampsRaw  HardwareTimestamps = 1 // as the card counts: StampRawHardware
	HardwareTimestampsBest HardwareTimestamps = 2 // HardwareTimestampsSync where the clocks can be compared, else HardwareTimestampsRaw
	HardwareTimestampsSync HardwareTimestamps = 3 // on the system's clock (CLOCK_REALTIME), by measuring the card's against it: StampHardware
	// HardwareTimestampsPTP: the card's clock is kept by PTP (IEEE 1588) and counts TAI, which is ahead of the Unix clock by
	// Config.TAIOffset. Nothing is measured: the stamps are as good as the PTP service. Without an offset it is HardwareTimestampsSync.
	HardwareTimestampsPTP HardwareTimestamps = 4
)

var hardwareTimestampsNames = [...]string{"off", "raw", "best", "sync", "ptp"}

// String is the value in words.
func (c HardwareTimestamps) String() string {
	if int(c) < len(hardwareTimestampsNames) {
		return hardwareTimestampsNames[c]
	}
	return itoa(int(c))
}

// Sync says where a card's clock stood against the system's, and how fast it goes. The zero value knows nothing.
type Sync struct {
	Card, System int64   // the same instant on both, nanoseconds
	Rate         float64 // nanoseconds of the system's clock in one of the card's, less 1: 1e-6 is one part in a million
}

// IsZero reports that the clocks were not compared.
func (s Sync) IsZero() bool { return s == Sync{} }

// At is the system's time at a time of the card's.
func (s Sync) At(card int64) int64 {
	d := card - s.Card
	return s.System + d + int64(math.Round(float64(d)*s.Rate))
}

// maxClockRate is the most that two clocks are believed to differ in speed; what looks like more is one of them being set.
const maxClockRate = 1e-3

// Follow is s after another comparison of the clocks. The speed is taken from the last two, when they are far enough apart to tell.
func (s Sync) Follow(card, system int64) Sync {
	next := Sync{Card: card, System: system, Rate: s.Rate}
	if past := card - s.Card; s.IsZero() || past <= 0 {
		next.Rate = 0
	} else if past >= int64(100*time.Millisecond) {
		next.Rate = float64(system-s.System-past) / float64(past)
	}
	if math.Abs(next.Rate) > maxClockRate {
		next.Rate = 0
	}
	return next
}

// convert is the stamp that a card's time becomes; the zero Stamp where there is none to be had: then the next best source counts. tai is
// how far TAI is ahead of the Unix clock, 0 for not known. A card that says 0 has not stamped.
func (c HardwareTimestamps) convert(card int64, sync Sync, tai time.Duration) Stamp {
	switch {
	case card == 0 || c == HardwareTimestampsOff || c > HardwareTimestampsPTP:
		return Stamp{}
	case c == HardwareTimestampsPTP && tai != 0:
		return Stamp{Nanos: card - int64(tai), Source: StampHardware}
	case c != HardwareTimestampsRaw && !sync.IsZero():
		return Stamp{Nanos: sync.At(card), Source: StampHardware}
	case c == HardwareTimestampsRaw || c == HardwareTimestampsBest:
		return Stamp{Nanos: card, Source: StampRawHardware}
	}
	return Stamp{}
}

// checkTime refuses a HardwareTimestamps or TAIOffset that is out of range or has no effect with the other fields.
func (c *Config) checkTime() error {
	const mostTAI = time.Hour // it is 37 s, and moves by a second every few years
	switch {
	case c.HardwareTimestamps > HardwareTimestampsPTP:
		return badArgument("socket", "card time", int(c.HardwareTimestamps))
	case c.TAIOffset < 0 || c.TAIOffset > mostTAI || c.TAIOffset%time.Second != 0:
		return badArgument("socket", "TAI offset", c.TAIOffset)
	case c.TAIOffset != 0 && c.HardwareTimestamps != HardwareTimestampsPTP:
		return badArgument("socket", fmt.Sprintf("TAI offset with card time %v:", c.HardwareTimestamps), c.TAIOffset)
	case c.HardwareTimestamps != HardwareTimestampsOff && !c.Timestamps && !c.TxTimestamps:
		return badArgument("socket", "card time without timestamps or transmit time:", c.HardwareTimestamps)
	}
	return nil
}
