package ring

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// VMA's conversions (VMA_HW_TS_CONVERSION 0 to 4), with a card that counts TAI (37 s ahead of the Unix clock, and 250 ns off) and one that
// began to count when the machine was started.
func TestConvert(t *testing.T) {
	const (
		unixTime = int64(1_700_000_000_000_000_000)
		tai      = 37 * time.Second
		ptp      = unixTime + int64(tai) + 250
		boot     = int64(86_400_000_000_123)
	)
	none := Sync{}
	ptpSync := Sync{Card: ptp - 1_000_000_000, System: unixTime - 1_000_000_000}
	bootSync := Sync{Card: boot - 1_000_000_000, System: unixTime - 1_000_010_000, Rate: 10e-6}
	hardware := func(n int64) Stamp { return Stamp{Nanos: n, Source: StampHardware} }
	card := func(n int64) Stamp { return Stamp{Nanos: n, Source: StampRawHardware} }
	for _, test := range []struct {
		name string
		how  HardwareTimestamps
		card int64
		sync Sync
		tai  time.Duration
		want Stamp
	}{
		{"0: off", HardwareTimestampsOff, ptp, ptpSync, tai, Stamp{}},
		{"1: raw", HardwareTimestampsRaw, ptp, ptpSync, tai, card(ptp)},
		{"1: raw, nothing known", HardwareTimestampsRaw, boot, none, 0, card(boot)},
		{"2: best, synchronised", HardwareTimestampsBest, boot, bootSync, 0, hardware(unixTime)},
		{"2: best, not comparable", HardwareTimestampsBest, boot, none, 0, card(boot)},
		{"3: sync", HardwareTimestampsSync, ptp, ptpSync, tai, hardware(unixTime)},
		{"3: sync, from boot time, 10 ppm slow", HardwareTimestampsSync, boot, bootSync, 0, hardware(unixTime)},
		{"3: sync, not comparable", HardwareTimestampsSync, boot, none, tai, Stamp{}},
		{"4: PTP", HardwareTimestampsPTP, ptp, none, tai, hardware(unixTime + 250)},
		{"4: PTP, not measured though it could be", HardwareTimestampsPTP, ptp, ptpSync, tai, hardware(unixTime + 250)},
		{"4: PTP without an offset is 3", HardwareTimestampsPTP, ptp, ptpSync, 0, hardware(unixTime)},
		{"4: PTP with nothing known", HardwareTimestampsPTP, ptp, none, 0, Stamp{}},
		{"no such conversion", 5, ptp, ptpSync, tai, Stamp{}},
	} {
		require.Equal(t, test.want, test.how.convert(test.card, test.sync, test.tai), test.name)
	}
	for how := HardwareTimestampsOff; how <= HardwareTimestampsPTP; how++ {
		require.True(t, how.convert(0, ptpSync, tai).IsZero(), "%v: a card that says 0 has not stamped", how)
		require.NotContains(t, how.String(), "5")
	}
	require.True(t, Stamp{Nanos: boot, Source: StampRawHardware}.Time().IsZero(), "a card's own time has no place in the calendar")
	require.Equal(t, "5", HardwareTimestamps(5).String())
}

// A clock that goes 30 ppm fast, compared once a second with up to 200 ns of error, is followed within a microsecond.
func TestFollow(t *testing.T) {
	const rate = 30e-6
	system := func(card int64) int64 { return 1_700_000_000_000_000_000 + card - int64(float64(card)*rate) }
	var s Sync
	for i := int64(0); i < 100; i++ {
		card := i * 1_000_000_000
		s = s.Follow(card, system(card)+(i*7919%401-200))
		if i < 2 {
			continue
		}
		for _, later := range []int64{0, 1_000_000, 500_000_000, 1_000_000_000} {
			require.InDelta(t, 0, s.At(card+later)-system(card+later), 1000, "comparison %d, %d ns later", i, later)
		}
		// Before the last comparison too: a frame may have waited.
		require.InDelta(t, 0, s.At(card-5_000_000)-system(card-5_000_000), 300)
	}

	// One of the clocks was set: no speed is made of that, and a step back is no speed at all.
	jumped := s.Follow(s.Card+1_000_000_000, s.System+61_000_000_000)
	require.Zero(t, jumped.Rate)
	require.Equal(t, jumped.System+5, jumped.At(jumped.Card+5))
	require.Zero(t, s.Follow(s.Card-1, s.System+1).Rate)
	// Too soon after the last to tell a speed: the old one stays.
	require.Equal(t, s.Rate, s.Follow(s.Card+1000, s.System+1500).Rate)
	require.True(t, Sync{}.IsZero())
}
