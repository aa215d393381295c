package ringtest

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
)

// fakeCard is a card's clock: it stands where the test puts it.
type fakeCard struct {
	card, system int64
	err          error
	compared     int
	closed       bool
}

func (c *fakeCard) Compare() (card, system int64, err error) {
	c.compared++
	return c.card, c.system, c.err
}

func (c *fakeCard) Close() error { c.closed = true; return nil }

type refused struct{}

func (refused) Error() string               { return "eth9: no clock" }
func (refused) Reason() (code, text string) { return "card.no_clock", "eth9: no clock" }

// Stamps of a card become what the socket asked for, in completions and callbacks, and in what waits for Receive; where they cannot, what
// the driver had stays.
func TestCardStamps(t *testing.T) {
	const unixTime, boot = int64(1_700_000_000_000_000_000), int64(5_000_000_000)
	var now clock.Manual
	now.Advance(time.Hour)
	sc := &scripted{}
	cards := map[int]*fakeCard{7: {card: boot, system: unixTime}}
	asked := map[int]int{}
	t.Cleanup(func() {
		if !cards[7].closed {
			t.Error("the card's clock was not closed with the ring")
		}
	})
	sc.world = newWorld(t, Backend{Name: "fake"}, func(_ *buffers.Layout, c *ring.SetConfig) {
		c.Clock = now.Now
		c.Driver = func(c ring.DriverConfig) (ring.Driver, error) {
			d, err := NewFake(c)
			sc.fake = d.(*Fake)
			return d, err
		}
		c.Card = func(index int) (ring.CardClock, error) {
			asked[index]++
			if c := cards[index]; c != nil {
				return c, nil
			}
			return nil, refused{}
		}
	})
	software := ring.Stamp{Nanos: 42, Source: ring.StampSoftware}
	deliver := func(s *ring.Socket, index uint32, card int64) ring.Completion {
		got := sc.turn(4, func(k *ring.Sink) {
			k.Datagram(s, sc.packet(s), &ring.Meta{Source: sc.local, IfIndex: index, Time: software, RawHardware: card})
		})
		sc.Len(got, 1)
		return got[0]
	}
	any := netip.MustParseAddrPort("0.0.0.0:0")
	socket := func(how ring.HardwareTimestamps, tai time.Duration) *ring.Socket {
		return sc.udp(any, ring.Config{Timestamps: true, HardwareTimestamps: how, TAIOffset: tai})
	}

	sync := socket(ring.HardwareTimestampsSync, 0)
	sc.Equal(ring.Stamp{Nanos: unixTime + 1000, Source: ring.StampHardware}, deliver(sync, 7, boot+1000).Time)
	sc.Equal(software, deliver(sync, 7, 0).Time, "the card had no stamp")
	sc.Equal(software, deliver(sync, 8, boot).Time, "another interface, whose card has none")
	sc.Contains(sync.Path().Explain(), "eth9: no clock [card.no_clock]")
	sc.Equal(ring.Stamp{Nanos: boot, Source: ring.StampRawHardware}, deliver(socket(ring.HardwareTimestampsRaw, 0), 7, boot).Time)
	sc.Equal(ring.Stamp{Nanos: boot, Source: ring.StampRawHardware}, deliver(socket(ring.HardwareTimestampsBest, 0), 8, boot).Time)
	sc.Equal(ring.Stamp{Nanos: boot - 3e9, Source: ring.StampHardware}, deliver(socket(ring.HardwareTimestampsPTP, 3*time.Second), 7, boot).Time)
	sc.Equal(software, deliver(sc.udp(any, ring.Config{Timestamps: true}), 7, boot).Time, "nobody asked for the card")
	sc.Equal(map[int]int{7: 1, 8: 1}, asked, "each card is opened once")

	// The clocks are compared again once a second, not with each packet; a speed is learnt.
	before := cards[7].compared
	for range 1000 {
		deliver(sync, 7, boot)
	}
	sc.Equal(before, cards[7].compared)
	now.Advance(time.Second)
	cards[7].card, cards[7].system = boot+1e9, unixTime+1e9+20_000
	for range 100 {
		deliver(sync, 7, boot)
	}
	sc.Equal(before+1, cards[7].compared)
	sc.Equal(unixTime+1_500_030_000, deliver(sync, 7, boot+1_500_000_000).Time.Nanos)

	// A clock that cannot be read any more converts nothing, says so, and is tried again.
	cards[7].err = errors.New("gone")
	now.Advance(time.Second)
	for range 100 {
		deliver(sync, 7, boot)
	}
	sc.Equal(software, deliver(sync, 7, boot+2e9).Time)
	sc.Contains(sync.Path().Explain(), "gone [card.unreadable]")
	sc.NotZero(sync.Ring().Stats().CardFailures)
	cards[7].err = nil
	now.Advance(time.Second)
	sc.Equal(ring.StampHardware, deliver(sync, 7, boot+3e9).Time.Source)
	sc.NotContains(sync.Path().Explain(), "gone")

	// A callback and Receive see the same.
	var seen ring.Stamp
	hooked := sc.socket(ring.KindDatagram, any, ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsPTP, TAIOffset: time.Second})
	sc.NoError(hooked.SetReceiveMode(ring.Callback, func(_ *ring.Socket, c *ring.Completion) ring.Verdict { seen = c.Time; return ring.Keep }))
	sc.NoError(hooked.Bind(any))
	sc.turn(4, func(k *ring.Sink) {
		k.Datagram(hooked, sc.packet(hooked), &ring.Meta{Source: sc.local, IfIndex: 7, Time: software, RawHardware: boot})
	})
	sc.Equal(ring.Stamp{Nanos: boot - 1e9, Source: ring.StampHardware}, seen)
	dst := make([]ring.Completion, 1)
	n, err := hooked.Receive(dst)
	sc.NoError(err)
	sc.Equal(1, n)
	sc.Equal(seen, dst[0].Time)
	sc.NoError(dst[0].Packet.Release())
}
