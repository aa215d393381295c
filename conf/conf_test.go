package conf

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func env(pairs map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := pairs[name]; return v, ok }
}

func TestDefaultsAreValid(t *testing.T) {
	s := Default()
	require.NoError(t, s.Validate())
	require.Equal(t, s, fromEnvironment(env(nil)))
}

func TestEnvironment(t *testing.T) {
	s := fromEnvironment(env(map[string]string{
		"SX_RING": "epoll", "VMA_RING_ALLOCATION_LOGIC_RX": "31", "VMA_RING_LIMIT_PER_INTERFACE": "3", "VMA_RX_BUFS": "512",
		"SX_LARGE_BUFS": "16", "VMA_MEM_ALLOC_TYPE": "2", "SX_BUFFER_DEBUG": "1", "VMA_RX_POLL": "-1", "VMA_SELECT_POLL": "250",
		"VMA_SELECT_POLL_OS_RATIO": "7",
	}))
	want := Default()
	want.Ring, want.RingLogic, want.RingLimit, want.SmallBuffers, want.LargeBuffers, want.HugePages = RingEpoll, 31, 3, 512, 16, true
	want.BufferDebug, want.RxPoll, want.SelectPoll, want.OSRatio = true, -1, 250*time.Microsecond, 7
	s.given, s.starts = nil, nil
	require.Equal(t, want, s)
	require.NoError(t, s.Validate())
	require.Equal(t, time.Duration(-1), fromEnvironment(env(map[string]string{"VMA_SELECT_POLL": "-1"})).SelectPoll)
}

func TestUnusableValuesWarnAndKeepTheDefault(t *testing.T) {
	for name, text := range map[string]string{
		"SX_RING": "verbs", "VMA_RING_ALLOCATION_LOGIC_RX": "11", "VMA_RING_LIMIT_PER_INTERFACE": "-1", "VMA_RX_BUFS": "many",
		"SX_LARGE_BUFS": "1", "VMA_MEM_ALLOC_TYPE": "3", "SX_BUFFER_DEBUG": "2", "VMA_RX_POLL": "-2",
		"VMA_SELECT_POLL": "100000001", "VMA_SELECT_POLL_OS_RATIO": "",
	} {
		s := fromEnvironment(env(map[string]string{name: text}))
		require.Len(t, s.Warnings, 1, name)
		require.Contains(t, s.Warnings[0], name)
		s.Warnings = nil
		require.Equal(t, Default(), s, name)
	}
}

func TestValidateNamesTheSetting(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"Ring":         func(s *Settings) { s.Ring = "dpdk" },
		"RingLogic":    func(s *Settings) { s.RingLogic = 2 },
		"RingLimit":    func(s *Settings) { s.RingLimit = -1 },
		"SmallBuffers": func(s *Settings) { s.SmallBuffers = 0 },
		"LargeBuffers": func(s *Settings) { s.LargeBuffers = 0 },
		"RxPoll":       func(s *Settings) { s.RxPoll = -3 },
		"SelectPoll":   func(s *Settings) { s.SelectPoll = -3 },
		"OSRatio":      func(s *Settings) { s.OSRatio = -1 },
	} {
		s := Default()
		change(&s)
		require.ErrorContains(t, s.Validate(), name)
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("VMA_RX_POLL", "-1")
	f.Add("SX_RING", "uring")
	f.Fuzz(func(t *testing.T, name, text string) {
		s := fromEnvironment(env(map[string]string{name: text}))
		require.NoError(t, s.Validate()) // whatever the environment holds, the settings stay usable
	})
}
