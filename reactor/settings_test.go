package reactor

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A turn handles as many completions as the engine's settings say, where the Config does not, of more that wait; by default as many as the ring
// gives at once.
func TestBatchBySetting(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for _, c := range []struct{ setting, config, want int }{{0, 0, 256}, {32, 0, 32}, {32, 5, 5}} {
			handled := 0
			l := turnByHand(t, kind, HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
				if c.Events.Has(xtreme.EventPacket) {
					handled++
					require.NoError(t, c.Packet.Release())
				}
			}), Config{Rest: Spin, Batch: c.config}, func(s *conf.Settings) { s.PollBatch = c.setting })
			const sockets, each = 10, 32
			for range sockets {
				s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
				require.NoError(t, err)
				peer, err := net.Dial("udp", s.LocalAddr().String())
				require.NoError(t, err)
				defer peer.Close()
				for range each {
					_, err := peer.Write([]byte("x"))
					require.NoError(t, err)
				}
			}
			most := 0
			for all := 0; all < sockets*each; all += handled {
				handled = 0
				l.turns(t, 1, time.Microsecond)
				most = max(most, handled)
				require.Less(t, l.idle, uint64(10_000), "%d of %d came", all, sockets*each)
			}
			if c.want == 256 {
				require.Greater(t, most, 32)
				require.LessOrEqual(t, most, c.want)
				continue
			}
			require.Equal(t, c.want, most)
		}
	})
}

// Other goroutines get the processor after so many empty turns, where there is only one for all. The runtime may take it away sooner by
// itself, and on every 61st round of its scheduler it gives it back to the loop at once: one try proves nothing.
func TestYieldBySetting(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	turnsUntilOthersRun := func(setting int) (n int) {
		l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin}, func(s *conf.Settings) { s.PollYield = setting })
		var ran atomic.Bool
		go ran.Store(true)
		for l.idle = 0; !ran.Load() && n < 4*yieldEvery; n++ {
			l.turns(t, 1, time.Microsecond)
		}
		return n
	}
	soonest, longest := 4*yieldEvery, 0
	for i := 0; i < 10 && soonest > 16; i++ {
		soonest = min(soonest, turnsUntilOthersRun(16))
	}
	require.LessOrEqual(t, soonest, 16)
	for i := 0; i < 10 && (longest <= 16 || longest > yieldEvery); i++ {
		longest = turnsUntilOthersRun(0)
	}
	require.Greater(t, longest, 16)
	require.LessOrEqual(t, longest, yieldEvery)
}

// Each loop runs on the next processor of the list.
func TestLoopsAreBoundBySetting(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		cpus := sys.AffinityMask()
		if len(cpus) < 2 {
			testnet.Missing(t, "processors", "two are needed")
		}
		s := conf.Default()
		s.Ring, s.SmallBuffers, s.LargeBuffers, s.LoopCPUs = kind, 512, 16, []int{cpus[1], cpus[0]}
		e := mustEngine(t, s)
		on := make(chan int, 8)
		bound := func(l *Loop) error { return l.Post(func() { on <- sys.AffinityMask()[0]; l.BeginShutdown() }) }
		for _, want := range []int{cpus[1], cpus[0], cpus[1]} {
			p, err := e.NewPoller("one", xtreme.PollerConfig{})
			require.NoError(t, err)
			l, err := New(p, nothing, Config{})
			require.NoError(t, err)
			require.NoError(t, bound(l))
			require.NoError(t, l.Run(context.Background()))
			require.Equal(t, want, <-on)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, RunGroup(ctx, e, 2, func(l *Loop) (Handler, error) { return nothing, bound(l) }, Config{}))
		require.ElementsMatch(t, cpus[:2], []int{<-on, <-on})
		p, err := e.NewPoller("one", xtreme.PollerConfig{})
		require.NoError(t, err)
		l, err := New(p, nothing, Config{Pin: []int{cpus[1]}})
		require.NoError(t, err)
		require.NoError(t, bound(l))
		require.NoError(t, l.Run(context.Background()))
		require.Equal(t, cpus[1], <-on, "the Config has the last word")
	})
}

// The file of the engine's log (VMA_LOG_FILE) gets what loops have to say.
func TestLoopsWriteToTheEnginesLog(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		s := conf.Default()
		s.Ring, s.SmallBuffers, s.LargeBuffers = kind, 512, 16
		s.LogFile = filepath.Join(t.TempDir(), "log")
		e := mustEngine(t, s)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		posted := func(l *Loop) (Handler, error) {
			return nothing, l.Post(func() { defer cancel(); panic("of the group") })
		}
		require.NoError(t, RunGroup(ctx, e, 1, posted, Config{}))
		p, err := e.NewPoller("alone", xtreme.PollerConfig{})
		require.NoError(t, err)
		l, err := New(p, nothing, Config{})
		require.NoError(t, err)
		require.NoError(t, l.Post(func() { defer l.BeginShutdown(); panic("of the loop") }))
		require.NoError(t, l.Run(context.Background()))
		text, err := os.ReadFile(s.LogFile)
		require.NoError(t, err)
		require.Contains(t, string(text), `SX ERROR: panic contained loop=loop-0 where="posted function" value="of the group"`)
		require.Contains(t, string(text), `SX ERROR: panic contained loop=alone where="posted function" value="of the loop"`)
	})
}

// A setting that a loop's Config comes before is told of once, with the reason.
func TestSettingsThatALoopDoesNotUseAreSaid(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		config Config
	}{
		"VMA_CQ_POLL_BATCH_MAX":    {"32", Config{Batch: 64}},
		"VMA_RX_POLL":              {"5", Config{RxPoll: -1}},
		"VMA_SELECT_POLL":          {"5", Config{Rest: Wait}},
		"VMA_SELECT_POLL_OS_RATIO": {"5", Config{OSRatio: -1}},
		"SX_LOOP_CPUS":             {"0", Config{Pin: []int{0}}},
	} {
		t.Setenv(name, c.text)
		for _, config := range []Config{{}, c.config} {
			s := conf.FromEnvironment()
			s.Ring, s.LogFile = conf.RingEpoll, filepath.Join(t.TempDir(), "log")
			e := mustEngine(t, s)
			for range 2 {
				p, err := e.NewPoller("told", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
				require.NoError(t, err)
				_, err = New(p, nothing, config)
				require.NoError(t, err)
				require.NoError(t, p.Close())
			}
			text, err := os.ReadFile(s.LogFile)
			require.NoError(t, err)
			want := 1
			if reflect.DeepEqual(config, Config{}) {
				want = 0
			}
			require.Equal(t, want, strings.Count(string(text), name+`="`+c.text+`" has no effect: a loop has Config.`), "%s", text)
		}
		require.NoError(t, os.Unsetenv(name))
	}
}

// A loop that helps others, as one that only accepts does, reports no setting: the others use it.
func TestAnUnpinnedLoopTellsOfNoSetting(t *testing.T) {
	t.Setenv("SX_LOOP_CPUS", "0")
	t.Setenv("VMA_RX_POLL", "5")
	s := conf.FromEnvironment()
	s.Ring, s.LogFile = conf.RingEpoll, filepath.Join(t.TempDir(), "log")
	p, err := mustEngine(t, s).NewPoller("helper", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
	require.NoError(t, err)
	_, err = New(p, nothing, Config{Rest: Wait, Unpinned: true})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	text, err := os.ReadFile(s.LogFile)
	require.NoError(t, err)
	require.NotContains(t, string(text), "has no effect")
}

// A loop that holds its thread yields to nobody, and one that never spins has no empty turns: VMA_RX_POLL_YIELD has no effect on either.
func TestAYieldThatIsNotDoneIsSaid(t *testing.T) {
	t.Setenv("VMA_RX_POLL_YIELD", "10")
	for name, c := range map[string]struct {
		cpus   []int
		config Config
		reason string
	}{
		"bound by the setting": {sys.AffinityMask()[:1], Config{}, "a loop is bound to a processor"},
		"bound by code":        {nil, Config{Pin: sys.AffinityMask()[:1]}, "a loop is bound to a processor"},
		"waits":                {nil, Config{Rest: Wait}, "a loop has Config.Rest"},
		"spins":                {nil, Config{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := conf.FromEnvironment()
			s.Ring, s.LoopCPUs, s.LogFile = conf.RingEpoll, c.cpus, filepath.Join(t.TempDir(), "log")
			p, err := mustEngine(t, s).NewPoller("told", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
			require.NoError(t, err)
			_, err = New(p, nothing, c.config)
			require.NoError(t, err)
			require.NoError(t, p.Close())
			text, err := os.ReadFile(s.LogFile)
			require.NoError(t, err)
			if c.reason == "" {
				require.NotContains(t, string(text), "has no effect")
			} else {
				require.Contains(t, string(text), `VMA_RX_POLL_YIELD="10" has no effect: `+c.reason)
			}
		})
	}
}

// VMA_RX_POLL and VMA_SELECT_POLL bound the same spin: where one of them says for ever, or not at all, the other has no effect.
func TestOneBoundOfTheSpinThatTheOtherLeavesWithoutEffectIsSaid(t *testing.T) {
	for _, c := range []struct {
		rxPoll, selectPoll string
		config             Config
		unused             string
	}{
		{"-1", "50", Config{}, "VMA_SELECT_POLL"}, {"7", "-1", Config{}, "VMA_RX_POLL"}, {"0", "-1", Config{}, "VMA_RX_POLL"},
		{"-1", "0", Config{}, "VMA_SELECT_POLL"}, {"0", "50", Config{}, "VMA_SELECT_POLL"}, {"7", "0", Config{}, "VMA_RX_POLL"},
		{"7", "50", Config{}, ""}, {"0", "0", Config{}, ""}, {"-1", "-1", Config{}, ""}, {"-1", "50", Config{Unpinned: true}, ""},
	} {
		t.Setenv("VMA_RX_POLL", c.rxPoll)
		t.Setenv("VMA_SELECT_POLL", c.selectPoll)
		s := conf.FromEnvironment()
		s.Ring, s.LogFile = conf.RingEpoll, filepath.Join(t.TempDir(), "log")
		p, err := mustEngine(t, s).NewPoller("told", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
		require.NoError(t, err)
		_, err = New(p, nothing, c.config)
		require.NoError(t, err)
		require.NoError(t, p.Close())
		text, err := os.ReadFile(s.LogFile)
		require.NoError(t, err)
		for _, name := range []string{"VMA_RX_POLL", "VMA_SELECT_POLL"} {
			want := 0
			if name == c.unused {
				want = 1
			}
			require.Equal(t, want, strings.Count(string(text), name+`="`+os.Getenv(name)+`" has no effect`), "%+v: %s", c, text)
		}
	}
}

// With VMA_CPU_USAGE_STATS=1 the sleeps of a loop are measured, whether it sleeps on its ring alone or on external descriptors too.
func TestSleepsOfALoopAreMeasured(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for _, watches := range []bool{false, true} {
			s := conf.Default()
			s.Ring, s.SmallBuffers, s.LargeBuffers, s.CPUUsage = kind, 512, 16, true
			s.StatsDirectory = filepath.Join(t.TempDir(), "stats")
			p, err := mustEngine(t, s).NewPoller("sleeps", xtreme.PollerConfig{})
			require.NoError(t, err)
			l, err := New(p, starting{nothing, func(l *Loop) error {
				if watches {
					read, write, err := os.Pipe()
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, errors.Join(read.Close(), write.Close())) })
					return l.Watch(int(read.Fd()), xtreme.EventIn, func(xtreme.Event) {})
				}
				return nil
			}}, Config{Rest: Wait})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			list, err := stats.List(s.StatsDirectory)
			require.NoError(t, err)
			r, err := stats.Open(list[0].Path)
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, l.Run(ctx))
			closed := r.Closed(stats.Pollers)
			slept := time.Duration(closed.Value("sleep_time"))
			require.NoError(t, r.Close())
			require.Greater(t, slept, 50*time.Millisecond, "watches a descriptor: %v", watches)
			require.LessOrEqual(t, slept, time.Since(began))
		}
	})
}
