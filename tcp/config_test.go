package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{}, 1)
	require.ErrorIs(t, err, ErrSettings)
	_, err = New(Config{Random: func() uint64 { return 1 }, MTU: 67}, 1)
	require.ErrorIs(t, err, ErrSettings)
	_, err = New(Config{Random: func() uint64 { return 1 }, PortFirst: 10, PortLast: 9}, 1)
	require.ErrorIs(t, err, ErrSettings)
}

func TestSettingsAreChecked(t *testing.T) {
	good := DefaultSettings()
	require.NoError(t, good.check())
	for name, change := range map[string]func(s *Settings){
		"AckEvery":      func(s *Settings) { s.AckEvery = 0 },
		"DelayedAck":    func(s *Settings) { s.DelayedAck = 500 * clock.Millisecond },
		"ReceiveBuffer": func(s *Settings) { s.ReceiveBuffer = maxWindow + 1 },
		"SendBuffer":    func(s *Settings) { s.SendBuffer = 0 },
		"Congestion":    func(s *Settings) { s.Congestion = numCongestion },
		"RTOMin":        func(s *Settings) { s.RTOMin = clock.Microsecond },
		"RTOMax":        func(s *Settings) { s.RTOMax = clock.Millisecond },
		"Retries":       func(s *Settings) { s.Retries = 0 },
		"KeepIdle":      func(s *Settings) { s.KeepIdle = 0 },
		"MaxSegment":    func(s *Settings) { s.MaxSegment = minMSS - 1 },
		"WindowScale":   func(s *Settings) { s.WindowScale = maxScale + 1 },
		"TTL":           func(s *Settings) { s.TTL = 0 },
	} {
		s := good
		change(&s)
		require.ErrorIs(t, s.check(), ErrSettings, name)
	}
}
