package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
)

// A receiver may read one line's socket before the other's. Whatever the order, a recut line must not look like a
// sender that restarted: packets that were sent seconds apart are not put together.
func TestARecutLineIsNoRestartInWhateverOrderTheLinesAreRead(t *testing.T) {
	type sent struct {
		line uint8
		b    []byte
	}
	quiet := []time.Duration{0, time.Millisecond, 99 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}
	for batch := 1; batch <= 40; batch++ { // so many packets of the capture are waiting when the sockets are read
		d, err := newDialect(handler.DEEP)
		require.NoError(t, err)
		own := *d
		spoilers := []*spoiler{{m: &Impairment{Seed: 9, Loss: [2]uint32{1000, 1000}}},
			{m: &Impairment{Seed: 9, Loss: [2]uint32{1000, 1000}}, line: 1, cut: &recutter{d: &own}}}
		c, err := feed.New[int](feed.Config{Lines: 2, Start: 1, EpochStart: 1, Slots: 4096, PollOnly: true})
		require.NoError(t, err)
		var waiting [2][]sent
		read := func() {
			for _, line := range []int{1, 0} {
				for _, p := range waiting[line] {
					h, _, err := iextp.Parse(p.b)
					require.NoError(t, err)
					c.Input(&feed.Segment[int]{Session: uint64(h.Session()), Seq: h.Seq(), Count: uint32(h.Count()),
						Sent: h.SendTime(), Line: p.line, Payload: p.b})
					for d := (feed.Delivery[int]{}); c.Next(&d); {
					}
				}
				waiting[line] = waiting[line][:0]
			}
		}
		seq, now := uint64(1), int64(1e18)
		for i := range 2000 {
			now += int64(quiet[i*7919%len(quiet)])
			n := 1 + i%5
			b := numbered(seq, n)
			put64(b[32:], uint64(now))
			for line, s := range spoilers {
				s.take(0, b, func(o out) { waiting[line] = append(waiting[line], sent{uint8(line), o.b}) })
			}
			seq += uint64(n)
			if i%batch == batch-1 {
				read()
			}
		}
		read()
		for e := (feed.Event{}); c.Event(&e); {
			require.False(t, e.Kind == feed.EpochBegan && e.Cause != feed.CauseFirst, "batch %d: %v at %d", batch, e.Cause,
				e.Seq)
		}
	}
}
