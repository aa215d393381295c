package ring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// counting is a Monitor that has no room, and counts what is asked of it.
type counting struct {
	Monitor
	opened, skipped int
}

func (c *counting) OpenSocket(*Socket) *SocketPage {
	c.opened++
	return nil
}

func (c *counting) SkipSocket() { c.skipped++ }

// A socket in a slot beyond those that may have pages is counted, not left out.
func TestSocketsBeyondTheSlotsAreCounted(t *testing.T) {
	m := &counting{}
	r := &Ring{set: &Set{config: SetConfig{Monitor: m}}}
	for _, slot := range []uint32{0, maxMonitored - 1, maxMonitored, 1 << 20} {
		s := &Socket{}
		s.handle.Slot = slot
		r.openPage(s)
	}
	require.Equal(t, 2, m.opened)
	require.Equal(t, 2, m.skipped)
	require.Empty(t, r.pages)
}

func TestPeakOfTwoIntervals(t *testing.T) {
	var p Peak
	p.note(6, 3)
	p.note(6, 9)
	p.note(6, 4)
	p.note(7, 2)
	require.Equal(t, Peak{{6, 9}, {7, 2}}, p)
	p.note(8, 1)
	require.Equal(t, Peak{{8, 1}, {7, 2}}, p)
}
