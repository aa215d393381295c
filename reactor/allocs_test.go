package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// bounce sends each packet back to where it came from.
type bounce struct{ packets int }

func (b *bounce) Handle(_ *Loop, c *xtreme.Completion) {
	if !c.Events.Has(xtreme.EventPacket) {
		return
	}
	b.packets++
	if c.Socket.Kind() == ring.KindDatagram {
		_, _ = c.Socket.SendTo(c.Packet.Bytes(), c.Source)
	} else {
		_, _ = c.Socket.Send(c.Packet.Bytes())
	}
	_ = c.Packet.Release()
}

// Everything that goes on in a turn at once: datagrams and a stream bouncing, an idle timer moved with each turn, a
// timer that arms itself, posted work, an external descriptor.
func TestTurnsDoNotAllocate(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []Rest{Spin, Wait} {
			h := &bounce{}
			l := turnByHand(t, kind, h, Config{Rest: rest, OSRatio: 1, RxPoll: 1, Grace: 20 * time.Millisecond})
			l.longestSleep = time.Millisecond
			a, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
			require.NoError(t, err)
			b, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
			require.NoError(t, err)
			_, err = a.SendTo([]byte("hello"), b.LocalAddr())
			require.NoError(t, err)
			listener, err := l.Poller().ListenTCP(loopback, xtreme.ListenConfig{})
			require.NoError(t, err)
			stream, err := l.Poller().DialTCP(listener.LocalAddr(), xtreme.DialConfig{})
			require.NoError(t, err)
			for range 50 {
				l.turns(t, 1, time.Millisecond)
				time.Sleep(100 * time.Microsecond)
			}
			_, err = stream.Send([]byte("hello"))
			require.NoError(t, err)

			bell, err := sys.NewEventFD()
			require.NoError(t, err)
			foreign := 0
			require.NoError(t, l.Watch(bell.FD(), xtreme.EventIn, func(xtreme.Event) {
				foreign++
				bell.Drain()
			}))
			fired := 0
			var idle, tick Timer
			idle = l.After(time.Hour, func() {})
			tick = l.After(0, func() {
				fired++
				tick, _ = l.Reset(tick, time.Millisecond)
			})
			once := func(*Loop, uint64) { fired++ }
			posted := 0
			post := func() { posted++ }
			round := func() {
				bell.Signal()
				_ = l.Post(post)
				idle, _ = l.Reset(idle, time.Hour)
				l.AfterData(time.Millisecond, once, 1)
				l.Cancel(l.AfterData(time.Hour, once, 2))
				l.turns(t, 1, 2*time.Millisecond)
			}
			for range 200 {
				round()
			}
			packets := h.packets
			require.Zero(t, testnet.LeastAllocs(500, round))
			require.Greater(t, h.packets, packets+100)
			require.Greater(t, fired, 500)
			require.Greater(t, posted, 500)
			require.Greater(t, foreign, 500)
			require.Zero(t, testnet.LeastAllocs(500, func() { l.turns(t, 1, time.Microsecond) }))
			require.NoError(t, l.Unwatch(bell.FD()))
			require.NoError(t, bell.Close())
		}
	})
}

func TestThousandsOfTimersDoNotAllocate(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin, TimerBudget: 20_000})
	const n = 10_000
	timers := make([]Timer, n)
	again := func(l *Loop, i uint64) { timers[i], _ = l.Reset(timers[i], time.Duration(i%64)*time.Millisecond) }
	for i := range timers {
		timers[i] = l.AfterData(time.Duration(i)*time.Microsecond, again, uint64(i))
	}
	l.turns(t, 100, time.Millisecond)
	fired := l.Stats().TimersFired
	// The goroutine of the statistics makes some tens of allocations a second, the timers of a turn would make a hundred.
	require.Less(t, testing.AllocsPerRun(100, func() { l.turns(t, 1, time.Millisecond) }), 20.0)
	require.Greater(t, l.Stats().TimersFired, fired+n)
	for _, timer := range timers {
		require.True(t, l.Cancel(timer))
	}
}

// What a turn costs: empty, and with a datagram bounced.
func BenchmarkTurn(b *testing.B) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for name, sockets := range map[string]int{"empty": 0, "datagram": 2} {
			b.Run(string(kind)+"/"+name, func(b *testing.B) {
				s := conf.Default()
				s.Ring = kind
				e := mustEngine(b, s)
				if err := e.Start(); err != nil {
					testnet.Missing(b, string(kind), err)
				}
				l := turnByHand(b, kind, &bounce{}, Config{Rest: Spin})
				var ends []*xtreme.Socket
				for range sockets {
					s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{LargestDatagram: 100})
					require.NoError(b, err)
					ends = append(ends, s)
				}
				if sockets > 0 {
					_, err := ends[0].SendTo(make([]byte, 64), ends[1].LocalAddr())
					require.NoError(b, err)
				}
				l.clock = clock.Now
				l.now = l.clock()
				b.ReportAllocs()
				for b.Loop() {
					if err := l.turn(); err != nil {
						require.NoError(b, err)
					}
				}
			})
		}
	}
}
