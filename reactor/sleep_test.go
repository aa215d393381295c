package reactor

import (
	"flag"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestRestNames(t *testing.T) {
	for _, r := range []Rest{Spin, Adaptive, Wait} {
		parsed, err := ParseRest(r.String())
		require.NoError(t, err)
		require.Equal(t, r, parsed)
	}
	_, err := ParseRest("doze")
	require.ErrorContains(t, err, `rest policy "doze": want spin, adaptive or wait`)
	require.Equal(t, "Rest(9)", Rest(9).String())

	var r Rest
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&r, "rest", Adaptive, "")
	require.NoError(t, flags.Parse([]string{"-rest", "wait"}))
	require.Equal(t, Wait, r)
	require.Error(t, flags.Parse([]string{"-rest", "never"}))
}

// threadTime is the processor time of the calling thread.
func threadTime(t *testing.T) time.Duration {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// An idle loop sleeps until the next deadline: with connections that keep quiet, a timer ticking, and a foreign
// descriptor.
func TestIdleLoopsUseNoProcessor(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for name, c := range map[string]Config{
			"adaptive": {Rest: Adaptive, SelectPoll: time.Millisecond},
			"wait":     {Rest: Wait},
			"foreign":  {Rest: Adaptive, SelectPoll: time.Millisecond},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c.Pin = []int{0} // a thread of its own, whose time is the loop's
				var addr netip.AddrPort
				read, _ := pipe(t)
				r := launch(t, kind, newEcho(), c, func(l *Loop) {
					addr = listen(t, l)
					var tick func()
					tick = func() { l.After(100*time.Millisecond, tick) }
					tick()
					if name == "foreign" {
						require.NoError(t, l.Watch(read, xtreme.EventIn, func(xtreme.Event) {}))
					}
				})
				for range 20 {
					pingPong(t, dial(t, addr), "now be quiet")
				}
				time.Sleep(50 * time.Millisecond)
				var before, after time.Duration
				r.do(t, func() { before = threadTime(t) })
				time.Sleep(time.Second)
				r.do(t, func() { after = threadTime(t) })
				used := after - before
				t.Logf("%v of processor time in a second", used)
				require.Less(t, used, testnet.Slow(40*time.Millisecond))
				require.NotZero(t, r.snapshot(t).Slept)
			})
		}
	})
}

func TestWakeUps(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for name, foreign := range map[string]bool{"one ring": false, "with an external descriptor": true} {
			t.Run(name, func(t *testing.T) {
				var udp netip.AddrPort
				read, _ := pipe(t)
				r := launch(t, kind, newEcho(), Config{Rest: Wait}, func(l *Loop) {
					s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
					require.NoError(t, err)
					udp = s.LocalAddr()
					if foreign {
						require.NoError(t, l.Watch(read, xtreme.EventIn, func(xtreme.Event) {}))
					}
				})
				c := dialUDP(t, udp)
				done := make(chan struct{}, 1)
				for i := range 1000 {
					require.NoError(t, r.Post(func() { done <- struct{}{} }))
					wait(t, done)
					if i%4 == 0 {
						pingPong(t, c, "wake up")
					}
				}
				require.NotZero(t, r.snapshot(t).Sleeps)
			})
		}
	})
}

// In virtual time: how many empty turns, or how long, an adaptive loop spins before it sleeps.
func TestAdaptiveSpinsAsLongAsItIsTold(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		settings := func(rxPoll int, selectPoll time.Duration) func(*conf.Settings) {
			return func(s *conf.Settings) { s.RxPoll, s.SelectPoll = rxPoll, selectPoll }
		}
		usual := settings(100_000, 100*time.Millisecond)
		for name, test := range map[string]struct {
			c     Config
			set   func(*conf.Settings)
			step  time.Duration
			turns uint64 // the empty turn on which it sleeps; 0 for never
		}{
			"turns":                     {Config{RxPoll: 5, SelectPoll: time.Second}, usual, 1, 6},
			"time":                      {Config{RxPoll: 1000, SelectPoll: 10 * time.Microsecond}, usual, time.Microsecond, 10},
			"turns never":               {Config{RxPoll: -1}, usual, time.Second, 0},
			"time never":                {Config{SelectPoll: -1}, usual, time.Second, 0},
			"settings":                  {Config{}, settings(7, time.Second), 1, 8},
			"settings: never":           {Config{}, settings(-1, time.Second), 1, 0},
			"settings: at once":         {Config{}, settings(7, 0), 1, 1},
			"settings: 0 is one look":   {Config{}, settings(0, time.Second), 1, 1},
			"the config before setting": {Config{RxPoll: 2}, settings(7, time.Second), 1, 3},
			"spin":                      {Config{Rest: Spin, RxPoll: 1, SelectPoll: 1}, usual, time.Second, 0},
			"wait":                      {Config{Rest: Wait, RxPoll: 100}, usual, 1, 1},
		} {
			l := turnByHand(t, kind, nothing, test.c, test.set)
			l.longestSleep = time.Microsecond
			slept := uint64(0)
			for turn := uint64(1); turn <= 20 && slept == 0; turn++ {
				l.turns(t, 1, test.step)
				if l.slept {
					slept = turn
				}
			}
			require.Equal(t, test.turns, slept, name)
		}
	})
}

// How long an adaptive loop spins can be given in several places, also with the number of the default. Where nobody gives it, it is VMA's
// default.
func TestWhoSaysHowLongALoopSpins(t *testing.T) {
	environment := func(s *conf.Settings) {
		e := conf.FromEnvironment()
		s.RxPoll, s.SelectPoll = e.RxPoll, e.SelectPoll
	}
	code := func(turns int, span time.Duration) func(*conf.Settings) {
		return func(s *conf.Settings) { environment(s); s.RxPoll, s.SelectPoll = turns, span }
	}
	for name, test := range map[string]struct {
		text  string // of VMA_RX_POLL and VMA_SELECT_POLL
		set   func(*conf.Settings)
		c     Config
		step  time.Duration
		turns int // the empty turn on which it sleeps
	}{
		"nobody: turns":              {"", environment, Config{}, 1, 100_001},
		"nobody: time":               {"", environment, Config{}, time.Millisecond, 100},
		"auto: turns":                {"auto", environment, Config{}, 1, 100_001},
		"auto: time":                 {"auto", environment, Config{}, time.Millisecond, 100},
		"the environment":            {"7", environment, Config{}, 1, 8},
		"the environment: time":      {"7", environment, Config{}, time.Microsecond, 7},
		"the environment: at once":   {"0", environment, Config{}, 1, 1},
		"the program":                {"7", code(9, time.Second), Config{}, 1, 10},
		"the program: time":          {"7", code(1000, 9*time.Microsecond), Config{}, time.Microsecond, 9},
		"the program: the default's": {"7", code(100_000, 100*time.Millisecond), Config{}, time.Millisecond, 100},
		"the program: auto":          {"7", code(conf.RxPollAuto, conf.SelectPollAuto), Config{}, time.Millisecond, 100},
		"the Config":                 {"7", code(9, time.Second), Config{RxPoll: 3}, 1, 4},
		"the Config: time":           {"7", code(1000, time.Second), Config{SelectPoll: 3 * time.Microsecond}, time.Microsecond, 3},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"VMA_RX_POLL", "VMA_SELECT_POLL"} {
				t.Setenv(name, test.text)
				if test.text == "" {
					require.NoError(t, os.Unsetenv(name)) // Setenv restores it
				}
			}
			l := turnByHand(t, conf.RingEpoll, nothing, test.c, test.set)
			l.longestSleep = time.Microsecond
			slept := 0
			for turn := 1; turn <= 100_010 && slept == 0; turn++ {
				l.turns(t, 1, test.step)
				if l.slept {
					slept = turn
				}
			}
			require.Equal(t, test.turns, slept)
		})
	}
}

// Timers tell nothing of more to come: between two ticks the loop sleeps at once. Posted work does.
func TestOnlyWorkMakesAnAdaptiveLoopSpinAgain(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{RxPoll: 5})
	l.longestSleep = time.Microsecond
	l.turns(t, 6, 1)
	require.True(t, l.slept)
	fired := false
	l.After(time.Millisecond, func() { fired = true })
	l.turns(t, 1, 2*time.Millisecond)
	require.True(t, fired)
	require.False(t, l.slept, "the turn was not empty")
	l.turns(t, 1, 1)
	require.True(t, l.slept)
	require.NoError(t, l.Post(func() {}))
	for range 6 {
		l.turns(t, 1, 1)
		require.False(t, l.slept)
	}
	l.turns(t, 1, 1)
	require.True(t, l.slept)
}

// After the loop was held up, timers that data already in the rings is to move do not fire, though they are due and one
// Poll does not take all the data.
func TestALongGapIsNoBurstOfTimeOuts(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		const conns, idleLimit = 48, 40 * time.Millisecond
		type state struct {
			timer Timer
			seen  int
		}
		states := map[*xtreme.Socket]*state{}
		timeouts := 0
		hold := make(chan struct{})
		held := make(chan struct{})
		handler := HandlerFunc(func(l *Loop, c *xtreme.Completion) {
			if c.Events.Has(xtreme.EventNewConnection) {
				states[c.Socket] = &state{timer: l.AfterData(time.Hour, func(*Loop, uint64) { timeouts++ }, 0)}
			}
			if c.Events.Has(xtreme.EventPacket) {
				s := states[c.Socket]
				s.seen++
				_, _ = l.Reset(s.timer, idleLimit)
				_ = c.Packet.Release()
			}
			if c.Events.Has(xtreme.EventClosed) {
				l.Cancel(states[c.Socket].timer)
			}
		})
		var addr netip.AddrPort
		r := launch(t, kind, handler, Config{Batch: 4, Rest: Wait}, func(l *Loop) { addr = listen(t, l) })
		clients := make([]io.Writer, conns)
		for i := range clients {
			clients[i] = dial(t, addr)
		}
		all := func(seen int) bool {
			n := 0
			r.do(t, func() {
				for _, s := range states {
					if s.seen >= seen {
						n++
					}
				}
			})
			return n == conns
		}
		require.Eventually(t, func() bool { return all(0) }, patience, time.Millisecond)
		require.NoError(t, r.Post(func() {
			for _, s := range states {
				_, ok := r.Reset(s.timer, idleLimit) // all armed in one instant
				require.True(t, ok)
			}
			close(held)
			<-hold
		}))
		wait(t, held)
		for _, c := range clients {
			_, err := c.Write([]byte("alive"))
			require.NoError(t, err)
		}
		time.Sleep(idleLimit + 20*time.Millisecond)
		early := make(chan int, 1)
		require.NoError(t, r.Post(func() { early <- timeouts }))
		close(hold)
		require.Zero(t, wait(t, early))
		require.True(t, all(1))
		require.NotZero(t, r.snapshot(t).LongGaps)

		// And they are not lost: without data they do fire.
		require.Eventually(t, func() (done bool) {
			r.do(t, func() { done = timeouts == conns })
			return done
		}, patience, 5*time.Millisecond)
	})
}

// A flood that never ends does not hold the timers for ever.
func TestCatchingUpIsBounded(t *testing.T) {
	var addr netip.AddrPort
	var flood *xtreme.Socket
	over := false
	l := turnByHand(t, conf.RingEpoll, HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
		release(c)
		if over {
			return
		}
		_, err := flood.SendTo([]byte("and another"), addr) // each datagram makes the next one
		require.NoError(t, err)
	}), Config{Batch: 1, Rest: Spin})
	s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
	require.NoError(t, err)
	addr, flood = s.LocalAddr(), s
	require.Equal(t, ring.KindDatagram, s.Kind())
	_, err = flood.SendTo([]byte("first"), addr)
	require.NoError(t, err)
	fired := false
	l.After(time.Millisecond, func() { fired = true })
	l.turns(t, 1, time.Second)
	require.True(t, fired)
	require.Greater(t, l.Stats().Completions, uint64(catchUpMax/2))
	over = true
}
