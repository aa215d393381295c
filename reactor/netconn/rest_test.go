package netconn

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// An RxPoll of 0 in the Config says nothing: the engine's setting counts, as everywhere. Where nobody sets one a loop sleeps at once.
func TestTheSettingSaysHowLongAnIdleLoopSpins(t *testing.T) {
	for name, test := range map[string]struct {
		environment string
		change      func(*conf.Settings)
		c           Config
		sleeps      bool
	}{
		"nothing is said":                  {"", nil, Config{}, true},
		"the setting: never":               {"-1", nil, Config{}, false},
		"the setting: 0":                   {"0", nil, Config{}, true},
		"the program: never":               {"", func(s *conf.Settings) { s.RxPoll = -1 }, Config{}, false},
		"the program: 0":                   {"", func(s *conf.Settings) { s.RxPoll = 0 }, Config{}, true},
		"the program before the setting":   {"0", func(s *conf.Settings) { s.RxPoll = -1 }, Config{}, false},
		"the setting: auto":                {"auto", nil, Config{}, true},
		"the program: by time":             {"", func(s *conf.Settings) { s.SelectPoll = -1 }, Config{}, false},
		"the Config before it":             {"0", nil, Config{RxPoll: -1}, false},
		"the Config: Wait before":          {"-1", nil, Config{Rest: reactor.Wait}, true},
		"the Config: never, by SelectPoll": {"", nil, Config{SelectPoll: -1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("VMA_RX_POLL", test.environment)
			if test.environment == "" {
				require.NoError(t, os.Unsetenv("VMA_RX_POLL")) // Setenv restores it
			}
			s := conf.FromEnvironment()
			s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingEpoll, 1024, 64
			if test.change != nil {
				test.change(&s)
			}
			e, err := xtreme.New(s)
			require.NoError(t, err)
			test.c.Logger = quietLog()
			n, err := New(e, test.c)
			require.NoError(t, err)
			var stats reactor.Stats
			for end := time.Now().Add(patience); stats.Turns < 50 && !(test.sleeps && stats.Sleeps > 0); {
				require.True(t, time.Now().Before(end), "%+v", stats)
				stats, err = n.loops[0].reactor.Snapshot(context.Background())
				require.NoError(t, err)
			}
			require.Equal(t, test.sleeps, stats.Sleeps > 0, "%+v", stats)
			require.NoError(t, closeSoon(n))
			require.NoError(t, e.Close())
		})
	}
}

// A setting is given where the engine's settings were read, a file that the program names, or by the program: not by an environment that it
// does not read.
func TestOnlyWhatTheEngineWasGivenMakesALoopSpin(t *testing.T) {
	rest := func(s conf.Settings) reactor.Rest {
		c := Config{}
		require.NoError(t, c.complete(s))
		return c.Rest
	}
	path := filepath.Join(t.TempDir(), "settings")
	for _, line := range []string{"VMA_RX_POLL=100000\n", "VMA_SELECT_POLL=100000\n"} { // the defaults
		require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
		s, err := conf.FromFile(path)
		require.NoError(t, err)
		require.Equal(t, reactor.Adaptive, rest(s), line)
	}
	for name, set := range map[string]func(*conf.Settings){
		"RxPoll":     func(s *conf.Settings) { s.RxPoll = 100_000 }, // what a reactor takes where nobody says anything
		"SelectPoll": func(s *conf.Settings) { s.SelectPoll = 100 * time.Millisecond },
	} {
		s := conf.Default()
		set(&s)
		require.Equal(t, reactor.Adaptive, rest(s), "Settings.%s", name)
	}
	t.Setenv("VMA_RX_POLL", "100000")
	require.Equal(t, reactor.Wait, rest(conf.Default()))
	require.Equal(t, reactor.Adaptive, rest(conf.FromEnvironment()))
}

// Where the kind of ring is left open, by the setting or by the Config that comes before it, it is epoll; one that is named is used.
func TestANetworkTakesEpollForAuto(t *testing.T) {
	needKind(t, conf.RingUring)
	for _, c := range []struct{ setting, config, want conf.RingKind }{
		{conf.RingAuto, "", conf.RingEpoll},
		{conf.RingAuto, conf.RingAuto, conf.RingEpoll},
		{conf.RingUring, conf.RingAuto, conf.RingEpoll},
		{conf.RingAuto, conf.RingUring, conf.RingUring},
		{conf.RingUring, "", conf.RingUring},
	} {
		n := newNetwork(t, c.setting, Config{Poller: xtreme.PollerConfig{RingKind: c.config}})
		dialled, _ := pair(t, n, "tcp")
		require.Equal(t, string(c.want), dialled.path.Kind, "SX_RING=%s, RingKind %q", c.setting, c.config)
	}
}
