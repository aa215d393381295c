package offload_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// stamping is a link whose card stamps each frame, by a clock that began at its own start.
type stamping struct {
	link.Staged
	nanos int64
}

func (s *stamping) Receive(dst []link.Frame) int {
	n := s.Staged.Receive(dst)
	for i := range dst[:n] {
		dst[i].Nanos, dst[i].Source = s.nanos, link.ClockHardware
	}
	return n
}

func (s *stamping) Path() link.Path {
	p := s.Staged.Path()
	p.Clock = link.ClockHardware
	return p
}

type steadyCard struct{ card, system int64 }

func (c steadyCard) Compare() (card, system int64, err error) { return c.card, c.system, nil }
func (steadyCard) Close() error                               { return nil }

// A card's stamp is the datagram's on the system's clock, or as it is, by the socket's choice; a socket that did not ask for the card has the
// time of the poll, of which its path tells, and never the card's number as Unix time.
func TestStampsOfACard(t *testing.T) {
	const unixTime, boot = int64(1_700_000_000_000_000_000), int64(77_000_000_000)
	ours, others := newPool(t, layout), newPool(t, layout)
	a, b, err := memory.Pair(ours, others, memory.Config{Addrs: macs, MTU: 1500})
	require.NoError(t, err)
	c := ring.SetConfig{Transport: kernel.New(), Pool: ours, Card: func(index int) (ring.CardClock, error) {
		require.Equal(t, linkIndex, index)
		return steadyCard{boot, unixTime}, nil
	}}
	side(t, 0, &stamping{a, boot + 250}, 1500, &c)
	set, err := ring.NewSet(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	oc := ring.SetConfig{Transport: kernel.New(), Pool: others}
	side(t, 1, b, 1500, &oc)
	peers, err := ring.NewSet(oc)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, peers.Close()) })
	e := &ends{t: t, dst: make([]ring.Completion, 64), sets: [2]*ring.Set{set, peers}}
	from := e.udp(1, ring.Config{})

	begin := time.Now().UnixNano()
	for _, test := range []struct {
		c    ring.Config
		want ring.Stamp
	}{
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsSync}, ring.Stamp{Nanos: unixTime + 250, Source: ring.StampHardware}},
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsRaw}, ring.Stamp{Nanos: boot + 250, Source: ring.StampRawHardware}},
		{ring.Config{Timestamps: true}, ring.Stamp{Source: ring.StampPoll}},
		{ring.Config{}, ring.Stamp{}},
	} {
		s := e.udp(0, test.c)
		_, err := from.SendTo([]byte("x"), s.LocalAddr())
		require.NoError(t, err)
		got := e.next(0, s)
		require.NoError(t, got.Packet.Release())
		told := slices.ContainsFunc(s.Path().Reasons, func(r ring.Reason) bool { return r.Code == "stamp.poll" })
		require.Equal(t, test.want.Source == ring.StampPoll, told, "%v: %v", test.c, s.Path().Reasons)
		if test.want.Source == ring.StampPoll {
			require.Equal(t, ring.StampPoll, got.Time.Source)
			require.GreaterOrEqual(t, got.Time.Nanos, begin)
			continue
		}
		require.Equal(t, test.want, got.Time)
	}
}
