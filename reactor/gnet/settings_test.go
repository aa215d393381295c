package gnet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
)

// A server looks for less than the library's default before it sleeps, unless the environment or a settings file says how long: also
// when that is the default's number.
func TestWhatTheEnvironmentSaysOfRxPollCounts(t *testing.T) {
	said := func(options ...Option) int {
		o := applyOptions(options)
		s := o.settings()
		if o.RxPoll != 0 { // it comes before the setting
			return o.RxPoll
		}
		return s.RxPoll
	}
	t.Setenv(conf.SettingsFile, "")
	for _, name := range []string{"VMA_RX_POLL", "XLIO_RX_POLL"} {
		t.Setenv(name, "") // to be restored
		require.NoError(t, os.Unsetenv(name))
	}
	require.Equal(t, defaultRxPoll, said())
	for _, turns := range []int{7, 100_000, -1} { // an option is a program's way to give it
		require.Equal(t, turns, said(WithRxPoll(turns, 0)))
	}
	for _, name := range []string{"VMA_RX_POLL", "XLIO_RX_POLL"} {
		t.Run(name, func(t *testing.T) {
			for text, want := range map[string]int{"100000": 100_000, "7": 7, "0": 0, "-1": -1, "auto": defaultRxPoll, "nonsense": defaultRxPoll} {
				t.Setenv(name, text)
				require.Equal(t, want, said(), text)
				require.Equal(t, 3, said(WithRxPoll(3, 0)), text)
			}
		})
	}
	t.Run("file", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "settings")
		require.NoError(t, os.WriteFile(name, []byte("VMA_RX_POLL=100000\n"), 0o600))
		t.Setenv(conf.SettingsFile, name)
		require.Equal(t, 100_000, said())
	})
	t.Run("profile", func(t *testing.T) {
		t.Setenv("VMA_SPEC", "throughput")
		require.Equal(t, 1000, said())
	})
}

// The loops of the handler use each setting and option of this test. That the loop that accepts has its own values is no warning.
func TestAcceptorMakesNoSettingUnused(t *testing.T) {
	for name, c := range map[string]struct {
		env     map[string]string
		options Options
	}{
		"nothing given": {},
		"options":       {options: Options{SmallBuffers: 600, LargeBuffers: 20}},
		"settings": {env: map[string]string{"VMA_RX_POLL": "7", "VMA_SELECT_POLL": "10", "VMA_RX_BUFS": "600", "VMA_TX_BUFS": "100",
			"SX_LARGE_BUFS": "20", "SX_LOOP_CPUS": "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			t.Setenv("VMA_LOG_FILE", log)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			c.options.NumEventLoop = 2
			require.NoError(t, Run(&bootOnly{}, "tcp://127.0.0.1:0", WithOptions(c.options)))
			text, err := os.ReadFile(log)
			if !os.IsNotExist(err) {
				require.NoError(t, err)
			}
			require.NotContains(t, string(text), "has no effect")
		})
	}
}

// bootOnly ends an engine when its loops and listeners are made.
type bootOnly struct{ BuiltinEventEngine }

func (*bootOnly) OnBoot(Engine) Action { return Shutdown }

// WithTCPNoDelay comes before VMA_TCP_NODELAY, whichever way it is given: the connections of a listener are as the option says.
func TestTCPNoDelayComesBeforeTheSetting(t *testing.T) {
	for _, setting := range []string{"0", "1"} {
		for option, want := range map[TCPSocketOpt]bool{TCPNoDelay: true, TCPDelay: false} {
			t.Run(fmt.Sprintf("VMA_TCP_NODELAY=%s, %v", setting, want), func(t *testing.T) {
				t.Setenv("VMA_TCP_NODELAY", setting)
				h := &noDelayOf{t: t}
				require.NoError(t, Run(h, "tcp://127.0.0.1:0", WithTCPNoDelay(option)))
				require.Equal(t, want, h.on)
			})
		}
	}
}

// noDelayOf looks at the first connection, which it makes itself, and ends the engine.
type noDelayOf struct {
	BuiltinEventEngine
	t  *testing.T
	on bool
}

func (h *noDelayOf) OnBoot(eng Engine) Action {
	fd, err := eng.Dup()
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, unix.Close(fd)) }()
	a, err := unix.Getsockname(fd)
	require.NoError(h.t, err)
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", a.(*unix.SockaddrInet4).Port))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = c.Close() })
	return None
}

func (h *noDelayOf) OnOpen(c Conn) ([]byte, Action) {
	v, err := unix.GetsockoptInt(c.Fd(), unix.IPPROTO_TCP, unix.TCP_NODELAY)
	h.on = err == nil && v != 0
	return nil, Shutdown
}
