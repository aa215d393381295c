package xtreme_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// onlyOn are the settings that have an effect on some kinds of ring only, and on which. All others with a field of Settings have one on all.
var onlyOn = map[string][]conf.RingKind{
	"SX_OFFLOAD_INTERFACES":        {conf.RingOffload},
	"SX_CHECKSUM":                  {conf.RingOffload},
	"SX_OFFLOAD_TCP":               {conf.RingOffload},
	"VMA_TCP_QUICKACK":             {}, // without SX_OFFLOAD_TCP
	"SX_TCP_QUICKACK_THRESHOLD":    {},
	"VMA_TCP_TIMESTAMP_OPTION":     {},
	"VMA_TCP_3T_RULES":             {},
	"VMA_RX_POLL_ON_TX_TCP":        {},
	"VMA_TCP_MAX_SYN_RATE":         {},
	"XLIO_TCP_SEND_BUFFER_SIZE":    {},
	"SX_TCP_RTO_MIN":               {},
	"SX_TCP_DELAYED_ACK":           {},
	"SX_OFFLOAD_XDP_MODE":          {conf.RingOffload},
	"SX_OFFLOAD_TIME":              {conf.RingOffload},
	"SX_OFFLOAD_BUSY_POLL":         {conf.RingOffload},
	"SX_OFFLOAD_GATHER":            {conf.RingOffload},
	"SX_CAPTURE":                   {conf.RingOffload},
	"SX_CAPTURE_SNAP":              {}, // without SX_CAPTURE
	"SX_CAPTURE_LIMIT":             {},
	"SX_RECORD":                    {conf.RingOffload},
	"VMA_RX_WRE":                   {conf.RingOffload},
	"VMA_TX_WRE":                   {conf.RingOffload, conf.RingUring},
	"VMA_RX_UDP_POLL_OS_RATIO":     {conf.RingOffload},
	"VMA_UDP_3T_RULES":             {conf.RingOffload},
	"VMA_RING_ALLOCATION_LOGIC_RX": {conf.RingEpoll, conf.RingUring},
	"VMA_RING_LIMIT_PER_INTERFACE": {conf.RingEpoll, conf.RingUring},
	"VMA_RX_POLL_YIELD":            {conf.RingEpoll},
	"VMA_TX_NONBLOCKED_EAGAINS":    {conf.RingEpoll, conf.RingUring},
}

// asItIs are the values that ask for what is done in any case. Of settings without any effect the default is another such value.
var asItIs = map[string][]string{
	"VMA_RING_MIGRATION_RATIO_TX": {"-1", "0"}, "VMA_RING_MIGRATION_RATIO_RX": {"-1", "0"}, "VMA_BUFFER_BATCHING_MODE": {"0"}, "VMA_PROGRESS_ENGINE_WCE_MAX": {"0"}, "VMA_IPOIB": {"0"},
	"VMA_LOG_COLORS": {"0"}, "VMA_BF": {"0"}, "VMA_CLOSE_ON_DUP2": {"0"}, "VMA_ALLOW_PRIVILEGED_SOCK_OPT": {"0"}, "VMA_TX_MAX_INLINE": {"0"}, "VMA_TX_PREFETCH_BYTES": {"0"},
	"VMA_THREAD_MODE": {"0"}, "XLIO_SKIP_POLL_IN_RX": {"1"},
	// Of settings that have an effect on some rings, or unless code says otherwise: these ask for none.
	"SX_OFFLOAD_INTERFACES": {""}, "SX_OFFLOAD_BUSY_POLL": {"0"}, "SX_OFFLOAD_TCP": {"0"}, "VMA_TCP_QUICKACK": {"0"}, "SX_TCP_QUICKACK_THRESHOLD": {"0"}, "VMA_TCP_TIMESTAMP_OPTION": {"2"},
	"VMA_TCP_3T_RULES": {"0"}, "VMA_RX_POLL_ON_TX_TCP": {"0"}, "VMA_TCP_MAX_SYN_RATE": {"0"}, "XLIO_TCP_SEND_BUFFER_SIZE": {"262144"},
	"SX_TCP_RTO_MIN": {"200"}, "SX_TCP_DELAYED_ACK": {"40"}, "SX_OFFLOAD_GATHER": {"0"}, "SX_CAPTURE": {""}, "SX_CAPTURE_SNAP": {"0"},
	"SX_CAPTURE_LIMIT": {"0"}, "VMA_RX_WRE": {"0"}, "VMA_TX_WRE": {"0"}, "VMA_TX_BUFS": {"0"}, "VMA_UDP_3T_RULES": {"0"},
	"SX_RECORD": {""}, "VMA_RX_POLL_YIELD": {"0"}, "VMA_RING_LIMIT_PER_INTERFACE": {"0"}, "VMA_TX_NONBLOCKED_EAGAINS": {"0"}, "VMA_MTU": {"0"},
	"VMA_TRACELEVEL": {""}, "VMA_LOG_DETAILS": {"0"}, "VMA_LOG_FILE": {""},
}

// valueOf are values of settings with an effect, each other than the default.
var valueOf = map[string]string{
	"SX_RING": "epoll", "SX_OFFLOAD_INTERFACES": "none0", "SX_CHECKSUM": "strict", "SX_OFFLOAD_TIME": "xdp", "SX_OFFLOAD_XDP_MODE": "generic", "SX_CAPTURE": "cap.%d", "SX_RECORD": "4",
	"SX_LOOP_CPUS": "0", "VMA_TCP_CC_ALGO": "reno", "VMA_CONFIG_FILE": "rules", "VMA_APPLICATION_ID": "x", "VMA_TRACELEVEL": "warn",
	"VMA_LOG_FILE": "log", "VMA_LOG_COLORS": "1", "VMA_STATS_SHMEM_DIR": "stats", "SX_STATS_GROUP": "0", "VMA_SPEC": "low-cpu", "VMA_MEM_ALLOC_TYPE": "2", "SX_BUFFER_DEBUG": "1",
}

// whenThereIsMemory makes rings for an ordinary user: the kernel gives back the memory of closed ones later (RLIMIT_MEMLOCK).
func whenThereIsMemory[T any](t *testing.T, open func() (T, error)) T {
	t.Helper()
	v, err := open()
	for end := time.Now().Add(patience); errors.Is(err, unix.ENOMEM) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		v, err = open()
	}
	require.NoError(t, err)
	return v
}

// told makes an engine by the environment and a poller of a kind, and returns what was logged at warning level of a setting. small: the poller's
// configuration says how many buffers it has, else it does unless the setting does.
func told(t *testing.T, kind conf.RingKind, name string, small bool) (lines []string) {
	t.Helper()
	var log bytes.Buffer
	s := conf.FromEnvironment()
	require.Empty(t, s.Warnings, name)
	c := xtreme.PollerConfig{RingKind: kind}
	if !strings.HasSuffix(name, "_BUFS") || small {
		c.SmallBuffers, c.LargeBuffers = 512, 16
	}
	s.Logger = slog.New(slog.NewTextHandler(&log, nil))
	e, err := xtreme.New(s)
	require.NoError(t, err, name)
	for range 2 { // once, however many pollers there are
		p := whenThereIsMemory(t, func() (*xtreme.Poller, error) { return e.NewPoller("told", c) })
		require.NoError(t, p.Close())
	}
	require.NoError(t, e.Close())
	for _, line := range strings.Split(log.String(), "\n") {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "has no effect") && strings.Contains(line, name) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A setting that has no effect, on any ring or on the rings of a poller, is a warning once, with the reason. The walk is over all
// settings: for one of VMA's with an effect docs/from-vma.md names the tests that show it.
func TestASettingWithoutEffectIsSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll, conf.RingOffload} {
		t.Run(string(kind), func(t *testing.T) {
			if kind != conf.RingOffload {
				needKind(t, kind)
			}
			for _, p := range conf.Parameters() {
				t.Run(p.Name, func(t *testing.T) {
					if p.Field == "" {
						saysOfInert(t, kind, &p)
						return
					}
					text, ok := valueOf[p.Name]
					if !ok {
						text = acceptedOf(t, &p)[0]
					}
					if p.Name == "VMA_CONFIG_FILE" {
						text = rulesFile(t, "use os tcp_client *:9\n")
					}
					if p.Name == "VMA_APPLICATION_ID" {
						t.Setenv("VMA_CONFIG_FILE", rulesFile(t, "application-id * x\nuse os tcp_client *:9\n"))
					}
					t.Setenv(p.Name, text)
					on, some := onlyOn[p.Name]
					want := 0
					if some && !slices.Contains(on, kind) && !(kind == conf.RingOffload && slices.Contains(on, kernelKind(t))) {
						want = 1
					}
					if strings.HasPrefix(p.Name, "VMA_LOG_") || p.Name == "VMA_TRACELEVEL" {
						want = 1 // the test gives a logger by code
					}
					if p.Name == "SX_RING" && kind != conf.RingEpoll {
						want = 1 // and the kind of ring by the configuration
					}
					lines := told(t, kind, p.Name, false)
					require.Len(t, lines, want, "%s=%s: %v", p.Name, text, lines)
					values := asItIs[p.Name]
					if some {
						values = append([]string{p.Default()}, values...)
					}
					for _, text := range values {
						t.Setenv(p.Name, text)
						lines := told(t, kind, p.Name, true)
						require.Empty(t, lines, "%s=%s asks for what is done in any case", p.Name, text)
					}
					if _, ok := onlyOn[p.Name]; ok && strings.HasPrefix(p.Name, "SX_CAPTURE_") { // beside a file
						t.Setenv(p.Name, text)
						t.Setenv("SX_CAPTURE", "cap.%d")
						want := 1
						if kind == conf.RingOffload {
							want = 0
						}
						require.Len(t, told(t, kind, p.Name, false), want, "%s=%s beside SX_CAPTURE", p.Name, text)
					}
				})
			}
		})
	}
}

// kernelKind is the kind of ring that is beside an offloaded one.
func kernelKind(t *testing.T) conf.RingKind {
	if newEngineOf(t, conf.RingUring).Start() == nil {
		return conf.RingUring
	}
	return conf.RingEpoll
}

func newEngineOf(t *testing.T, kind conf.RingKind) *xtreme.Engine {
	s := conf.Default()
	s.Ring = kind
	e, err := xtreme.New(s)
	require.NoError(t, err)
	return e
}

// saysOfInert tries all values of a few that the setting takes.
func saysOfInert(t *testing.T, kind conf.RingKind, p *conf.Parameter) {
	for _, text := range acceptedOf(t, p) {
		t.Setenv(p.Name, text)
		want := 1
		if text == p.Default() || slices.Contains(asItIs[p.Name], text) {
			want = 0
		}
		lines := told(t, kind, p.Name, false)
		require.Len(t, lines, want, "%s=%s: %v", p.Name, text, lines)
		if want == 1 {
			require.Contains(t, lines[0], strings.Split(p.Effect, "\"")[0], "the reason")
		}
	}
}

// acceptedOf are values that a setting takes, the ones that are not its default first.
func acceptedOf(t *testing.T, p *conf.Parameter) (list []string) {
	for _, text := range []string{"1", "0", "2", "-1", "7", "48", "64", "300"} {
		if text != p.Default() && accepts(t, p, text) {
			list = append(list, text)
		}
	}
	if p.Default() != "" && accepts(t, p, p.Default()) {
		list = append(list, p.Default())
	}
	return list
}

// accepts reports whether a value can be used, by the settings' own word.
func accepts(t *testing.T, p *conf.Parameter, text string) bool {
	t.Helper()
	old, was := os.LookupEnv(p.Name)
	require.NoError(t, os.Setenv(p.Name, text))
	defer func() {
		if require.NoError(t, os.Unsetenv(p.Name)); was {
			require.NoError(t, os.Setenv(p.Name, old))
		}
	}()
	s := conf.FromEnvironment()
	return len(s.Warnings) == 0
}

// In a file, by another name, by code, beside a configuration: whatever the way, the line says which it was.
func TestASettingWithoutEffectIsSaidAsItWasGiven(t *testing.T) {
	t.Setenv("XLIO_TCP_QUICKACK", "1")
	lines := told(t, conf.RingEpoll, "XLIO_TCP_QUICKACK", false)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `XLIO_TCP_QUICKACK=\"1\" has no effect`)

	var log bytes.Buffer
	s, err := conf.WithProfile("latency") // whose values are not the user's
	require.NoError(t, err)
	s.SmallBuffers, s.LargeBuffers, s.Offload.Fill, s.MTU, s.MSS = 512, 16, 100, 1000, 900
	s.HugePages = false
	s.Logger = slog.New(slog.NewTextHandler(&log, nil))
	e, err := xtreme.New(s)
	require.NoError(t, err)
	p, err := e.NewPoller("by code", xtreme.PollerConfig{RingKind: conf.RingEpoll, SmallBuffers: 600, LargeBuffers: 20})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, e.Close())
	text := log.String()
	require.Contains(t, text, "Settings.Offload.Fill=100 (VMA_RX_WRE) has no effect")
	require.Contains(t, text, "Settings.MTU=1000 (VMA_MTU) has no effect", "segments are by MSS, datagrams the kernel's")
	for _, name := range []string{"VMA_RX_BUFS", "SX_LARGE_BUFS"} {
		require.Contains(t, text, fmt.Sprintf("(%s) has no effect", name), "the poller's configuration comes before it")
	}
	require.NotContains(t, text, "VMA_TX_WRE", "it is the profile's")
	require.NotContains(t, text, "VMA_TSO")

	t.Setenv("VMA_MEM_ALLOC_TYPE", "1") // contiguous pages
	require.Len(t, told(t, conf.RingEpoll, "VMA_MEM_ALLOC_TYPE", false), 1)
	t.Setenv("VMA_MEM_ALLOC_TYPE", "0")
	require.Empty(t, told(t, conf.RingEpoll, "VMA_MEM_ALLOC_TYPE", false))
	t.Setenv("VMA_OFFLOADED_SOCKETS", "1")
	require.Empty(t, told(t, conf.RingEpoll, "VMA_OFFLOADED_SOCKETS", false), "the default")
}

// A level that prints the settings does so in a logger given by code too: it is not said to have no effect.
func TestALevelThatPrintsTheSettingsHasAnEffect(t *testing.T) {
	for level, prints := range map[string]bool{"warn": false, "info": true, "details": true, "debug": true} {
		t.Setenv("VMA_TRACELEVEL", level)
		var log bytes.Buffer
		s := conf.FromEnvironment()
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		e, err := xtreme.New(s)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		require.Equal(t, prints, strings.Contains(log.String(), "[VMA_TRACELEVEL]"), "%s: %s", level, log.String())
		require.Equal(t, !prints, strings.Contains(log.String(), "has no effect"), "%s: %s", level, log.String())
	}
}

// SX_RING=auto leaves the kind of ring open: a poller that names one does what the setting says.
func TestAutoIsNotASettingWithoutEffect(t *testing.T) {
	t.Setenv("SX_RING", "auto")
	require.Empty(t, told(t, conf.RingEpoll, "SX_RING", false))
	t.Setenv("SX_RING", "uring")
	require.Len(t, told(t, conf.RingEpoll, "SX_RING", false), 1)
}

// PollerConfig.Interfaces comes before SX_OFFLOAD_INTERFACES, but where the setting names queues of the same interface it still limits them.
func TestInterfacesOfAPollerBesideTheSetting(t *testing.T) {
	for setting, want := range map[string]int{"v0": 1, "v1": 1, "v1:0": 1, "v0:0": 0, "v1:0,v0:1-2": 0} {
		t.Setenv("SX_OFFLOAD_INTERFACES", setting)
		var log bytes.Buffer
		s := conf.FromEnvironment()
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		e, err := xtreme.New(s)
		require.NoError(t, err)
		p, err := e.NewPoller("named", xtreme.PollerConfig{RingKind: conf.RingOffload, Interfaces: []conf.Interface{{Name: "v0"}}})
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.NoError(t, e.Close())
		require.Equal(t, want, strings.Count(log.String(), "has no effect: a poller has PollerConfig.Interfaces"), "%s: %s", setting, log.String())
	}
}

// The queues that the setting leaves out of an interface stay out, whatever a poller's configuration asks for: the path names them. Where none
// is left, the interface is not opened.
func TestQueuesOfTheSettingLimitAPollers(t *testing.T) {
	for pair, want := range map[[2]string]struct {
		queues []int  // none: the interface is not opened
		says   string // the reason that is in the path for that, or for the queues that are left out
	}{
		{"v0:0-1", "v0:1"}:       {[]int{1}, ""},
		{"v0:0-1", "v0"}:         {[]int{0, 1}, ""},
		{"v1", "v0:1-3"}:         {[]int{1, 2, 3}, ""},
		{"v0", "v0:1-3"}:         {[]int{1, 2, 3}, ""},
		{"v0:0-1", "v0:1-2"}:     {[]int{1}, "SX_OFFLOAD_INTERFACES leaves out queues 2 of v0"},
		{"v0:2:0", "v0:3:2:1:0"}: {[]int{0, 2}, "SX_OFFLOAD_INTERFACES leaves out queues 1, 3 of v0"},
		{"v0:0", "v0:1"}:         {nil, "of v0 SX_OFFLOAD_INTERFACES names queues 0, PollerConfig.Interfaces queues 1"},
		{"v0:0-1", "v0:3:2"}:     {nil, "of v0 SX_OFFLOAD_INTERFACES names queues 0, 1, PollerConfig.Interfaces queues 2, 3"},
		{"v0:0-1", "v0:1:4"}:     {nil, "Queues has 4"}, // there is none
		{"v0", "v0:1:4"}:         {nil, "Queues has 4"},
	} {
		t.Run(fmt.Sprint(pair), func(t *testing.T) {
			w := newCabled(t, testnet.Pair{Queues: 4})
			var err error
			w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.Interfaces, err = conf.ParseInterfaces(pair[0]) })
			w.NoError(err)
			named, err := conf.ParseInterfaces(pair[1])
			w.NoError(err)
			x := w.other(w.newPoller("named", xtreme.PollerConfig{Interfaces: named}))
			s := x.udp(w.at(0))
			at := slices.IndexFunc(s.Path().Reasons, func(r ring.Reason) bool { return r.Code == "xdp.refused" })
			if len(want.queues) == 0 {
				w.Equal("kernel", s.Path().Tier)
				w.GreaterOrEqual(at, 0, "%v", s.Path())
				w.Contains(s.Path().Reasons[at].Text, want.says)
				return
			}
			w.Equal("bypass", s.Path().Tier, s.Path())
			w.Negative(at)
			var queues []int
			for q := range 4 {
				if slices.ContainsFunc(s.Path().Links, func(l string) bool { return strings.Contains(l, fmt.Sprintf(" v0/%d", q)) }) {
					queues = append(queues, q)
				}
			}
			w.Equal(want.queues, queues, "%v", s.Path())
			at = slices.IndexFunc(s.Path().Reasons, func(r ring.Reason) bool { return r.Code == "offload.queues_left_out" })
			w.Equal(want.says != "", at >= 0, "%v", s.Path())
			if at >= 0 {
				w.Contains(s.Path().Reasons[at].Text, want.says)
			}
		})
	}
}
