package conf

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// every is a value of each setting that is not its default, what Settings has then, and one that cannot be used.
var every = []struct {
	name, text string
	field      func(*Settings) any
	want       any
	bad        string
}{
	{"SX_RING", "epoll", func(s *Settings) any { return s.Ring }, RingEpoll, "verbs"},
	{"SX_OFFLOAD_INTERFACES", "eth1:2", func(s *Settings) any { return s.Offload.Interfaces }, []Interface{{"eth1", []int{2}}}, "eth1:x"},
	{"SX_CHECKSUM", "off", func(s *Settings) any { return s.Offload.Checksum }, ChecksumOff, "lax"},
	{"SX_OFFLOAD_TCP", "1", func(s *Settings) any { return s.Offload.TCP }, true, "2"},
	{"VMA_TCP_QUICKACK", "1", func(s *Settings) any { return s.OwnTCP.QuickAck }, true, "2"},
	{"SX_TCP_QUICKACK_THRESHOLD", "64", func(s *Settings) any { return s.OwnTCP.QuickAckThreshold }, 64, "65536"},
	{"VMA_TCP_TIMESTAMP_OPTION", "0", func(s *Settings) any { return s.OwnTCP.Timestamps }, 0, "3"},
	{"VMA_TCP_3T_RULES", "1", func(s *Settings) any { return s.OwnTCP.ConnectionThreeTuple }, true, "2"},
	{"VMA_RX_POLL_ON_TX_TCP", "1", func(s *Settings) any { return s.OwnTCP.PollOnSend }, true, "2"},
	{"VMA_TCP_MAX_SYN_RATE", "100", func(s *Settings) any { return s.OwnTCP.SynRate }, 100, "100001"},
	{"XLIO_TCP_SEND_BUFFER_SIZE", "1MB", func(s *Settings) any { return s.OwnTCP.SendBuffer }, 1 << 20, "0"},
	{"SX_TCP_RTO_MIN", "1", func(s *Settings) any { return s.OwnTCP.RTOMin }, time.Millisecond, "0"},
	{"SX_TCP_RTO_MIN", "60000", func(s *Settings) any { return s.OwnTCP.RTOMin }, time.Minute, "60001"},
	{"SX_TCP_DELAYED_ACK", "0", func(s *Settings) any { return s.OwnTCP.DelayedAck }, time.Duration(0), "500"},
	{"SX_OFFLOAD_XDP_MODE", "native", func(s *Settings) any { return s.Offload.Mode }, XDPNative, "turbo"},
	{"SX_OFFLOAD_TIME", "xdp", func(s *Settings) any { return s.Offload.Time }, TimeXDP, "sundial"},
	{"SX_OFFLOAD_BUSY_POLL", "1", func(s *Settings) any { return s.Offload.BusyPoll }, true, "2"},
	{"SX_OFFLOAD_GATHER", "512", func(s *Settings) any { return s.Offload.Gather }, 512, "1"},
	{"SX_CAPTURE", "/tmp/%d.pcapng", func(s *Settings) any { return s.Offload.Capture }, "/tmp/%d.pcapng", ""},
	{"SX_CAPTURE_SNAP", "96", func(s *Settings) any { return s.Offload.CaptureSnap }, 96, "13"},
	{"SX_CAPTURE_LIMIT", "10", func(s *Settings) any { return s.Offload.CaptureLimit }, 10, "1048577"},
	{"SX_RECORD", "16,snap=96,dir=/tmp,gap=5ms", func(s *Settings) any { return s.Offload.Recorder },
		Recorder{MiB: 16, Snap: 96, Directory: "/tmp", After: 2 * time.Second, Every: time.Minute, Quota: 256, Gap: 5 * time.Millisecond}, "16,speed=2"},
	{"VMA_OFFLOADED_SOCKETS", "0", func(s *Settings) any { return s.KernelOnly }, true, "2"},
	{"VMA_RING_ALLOCATION_LOGIC_RX", "20", func(s *Settings) any { return s.RingLogic }, 20, "11"},
	{"VMA_RING_LIMIT_PER_INTERFACE", "4", func(s *Settings) any { return s.RingLimit }, 4, "-1"},
	{"VMA_RX_WRE", "64", func(s *Settings) any { return s.Offload.Fill }, 64, "7"},
	{"VMA_TX_WRE", "512", func(s *Settings) any { return s.RingEntries }, 512, "many"},
	{"VMA_RX_BUFS", "64", func(s *Settings) any { return s.SmallBuffers }, 64, "63"},
	{"VMA_TX_BUFS", "100", func(s *Settings) any { return s.SendBuffers }, 100, "-5"},
	{"SX_LARGE_BUFS", "8", func(s *Settings) any { return s.LargeBuffers }, 8, "7"},
	{"VMA_MEM_ALLOC_TYPE", "hugepages", func(s *Settings) any { return s.HugePages }, true, "3"},
	{"SX_BUFFER_DEBUG", "on", func(s *Settings) any { return s.BufferDebug }, true, "yes"},
	{"VMA_RX_BYTES_MIN", "65536", func(s *Settings) any { return s.RxBytesMin }, 65536, "1e6"},
	{"VMA_RX_POLL", "-1", func(s *Settings) any { return s.RxPoll }, -1, "-2"},
	{"VMA_SELECT_POLL", "250", func(s *Settings) any { return s.SelectPoll }, 250 * time.Microsecond, "100000001"},
	{"VMA_SELECT_POLL_OS_FORCE", "1", func(s *Settings) any { return s.OSRatio }, 1, "3"},
	{"VMA_SELECT_POLL_OS_RATIO", "7", func(s *Settings) any { return s.OSRatio }, 7, ""},
	{"VMA_RX_UDP_POLL_OS_RATIO", "3", func(s *Settings) any { return s.ShadowRatio }, 3, "0"},
	{"VMA_CQ_POLL_BATCH_MAX", "32", func(s *Settings) any { return s.PollBatch }, 32, "65537"},
	{"VMA_RX_POLL_YIELD", "16", func(s *Settings) any { return s.PollYield }, 16, "-1"},
	{"SX_LOOP_CPUS", "0, 2-4", func(s *Settings) any { return s.LoopCPUs }, []int{0, 2, 3, 4}, "4-2"},
	{"VMA_HW_TS_CONVERSION", "3", func(s *Settings) any { return s.CardTime }, 3, "5"},
	{"VMA_UDP_3T_RULES", "1", func(s *Settings) any { return s.Offload.ThreeTuple }, true, "2"},
	{"VMA_TCP_NODELAY", "1", func(s *Settings) any { return s.NoDelay }, true, "-1"},
	{"VMA_TCP_CC_ALGO", "1", func(s *Settings) any { return s.Congestion }, "cubic", "3"},
	{"VMA_MSS", "88", func(s *Settings) any { return s.MSS }, 88, "87"},
	{"VMA_MSS", "32767", func(s *Settings) any { return s.MSS }, 32767, "32768"},
	{"VMA_MTU", "148", func(s *Settings) any { return s.MTU }, 148, "147"},
	{"VMA_MTU", "32807", func(s *Settings) any { return s.MTU }, 32807, "32808"},
	{"VMA_TX_MC_LOOPBACK", "0", func(s *Settings) any { return s.NoMulticastLoop }, true, "x"},
	{"VMA_TX_NONBLOCKED_EAGAINS", "1", func(s *Settings) any { return s.ReportDrops }, true, "2"},
	{"VMA_CONFIG_FILE", "/tmp/r", func(s *Settings) any { return s.RulesFile }, "/tmp/r", ""},
	{"VMA_APPLICATION_ID", "B1", func(s *Settings) any { return s.ApplicationID }, "B1", "a b"},
	{"VMA_EXCEPTION_HANDLING", "2", func(s *Settings) any { return s.ExceptionHandling }, 2, "4"},
	{"VMA_TRACELEVEL", "4", func(s *Settings) any { return s.LogLevel }, LogDebug, "7"},
	{"VMA_LOG_DETAILS", "3", func(s *Settings) any { return s.LogDetails }, 3, "4"},
	{"VMA_LOG_COLORS", "0", func(s *Settings) any { return s.LogColors }, false, "2"},
	{"VMA_LOG_FILE", "/tmp/l", func(s *Settings) any { return s.LogFile }, "/tmp/l", ""},
	{"VMA_STATS_FILE", "/tmp/s", func(s *Settings) any { return s.StatsFile }, "/tmp/s", ""},
	{"VMA_STATS_SHMEM_DIR", "/tmp/s", func(s *Settings) any { return s.StatsDirectory }, "/tmp/s", ""},
	{"VMA_STATS_FD_NUM", "1024", func(s *Settings) any { return s.StatsSockets }, 1024, "1025"},
	{"SX_STATS_GROUP", "adm", func(s *Settings) any { return s.StatsGroup }, "adm", ""},
	{"VMA_CPU_USAGE_STATS", "1", func(s *Settings) any { return s.CPUUsage }, true, "2"},
	{"VMA_SPEC", "Low-CPU", func(s *Settings) any { return s.Profile }, "low-cpu", "29west"},
}

func TestEachSettingIsReadAndChecked(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range every {
		seen[c.name] = true
		s := fromEnvironment(env(map[string]string{c.name: c.text}))
		require.Empty(t, s.Warnings, c.name)
		require.Equal(t, c.want, c.field(&s), c.name)
		require.NoError(t, s.Validate(), c.name)
		p := byName[c.name]
		require.NotEqual(t, p.Default(), p.Value(&s), "%s is shown changed", c.name)
		if c.bad == "" && slices.Contains([]string{"VMA_CONFIG_FILE", "VMA_LOG_FILE", "VMA_STATS_FILE", "SX_CAPTURE", "VMA_STATS_SHMEM_DIR", "SX_STATS_GROUP"}, c.name) {
			continue // every path is one
		}
		s = fromEnvironment(env(map[string]string{c.name: c.bad}))
		require.Len(t, s.Warnings, 1, c.name)
		require.Contains(t, s.Warnings[0], c.name)
		require.Contains(t, s.Warnings[0], "; the default is used")
		if strings.HasPrefix(p.want, "a number from") {
			require.Contains(t, s.Warnings[0], p.want)
		}
		s.Warnings = nil
		require.Equal(t, Default(), s, c.name)
	}
	for _, p := range Parameters() {
		if p.Field != "" {
			require.True(t, seen[p.Name], "%s has an effect and is not in the table above", p.Name)
			field := reflect.ValueOf(Default())
			for _, part := range strings.Split(p.Field, ".") {
				field = field.FieldByName(part)
				require.True(t, field.IsValid(), "%s: Settings has no %s", p.Name, p.Field)
			}
		}
	}
}

func TestSettingsWithoutEffectAreCheckedAndExplained(t *testing.T) {
	for _, p := range Parameters() {
		if p.Field != "" {
			continue
		}
		require.NotEqual(t, Works, p.State, p.Name)
		require.NotEmpty(t, p.Effect, p.Name)
		if p.want != anyText.want {
			s := fromEnvironment(env(map[string]string{p.Name: "nonsense"}))
			require.Len(t, s.Warnings, 1, p.Name)
			require.Contains(t, s.Warnings[0], p.Name)
		}
		s := fromEnvironment(env(map[string]string{p.Name: p.Default()}))
		require.Empty(t, s.Warnings, "%s: its default is a value", p.Name)
	}
	s := fromEnvironment(env(map[string]string{"VMA_BF": "0"}))
	require.Empty(t, s.Warnings)
	require.Contains(t, strings.Join(s.Lines(false), "\n"), "[VMA_BF] hardware-only: a doorbell of ConnectX cards")
	other := s
	require.NoError(t, byName["VMA_BF"].set(&other, "1"))
	require.Equal(t, "0", byName["VMA_BF"].Value(&s), "a copy of the settings is another one")
}

// The size of send buffers is a setting of VMA's too.
func TestTheBufferSizeByItsNames(t *testing.T) {
	for _, name := range []string{"VMA_TX_BUF_SIZE", "XLIO_TX_BUF_SIZE", "XLIO_TX_BUFFER_SIZE"} {
		s := fromEnvironment(env(map[string]string{name: "4096"}))
		require.NotContains(t, strings.Join(s.Warnings, "\n"), "no such setting")
		list := s.WithoutEffect()
		require.Len(t, list, 1, name)
		require.Contains(t, list[0].String(), name+`="4096" has no effect: not applicable: `)
	}
}

// Spellings of manuals were never replaced by another name: nothing is said of them.
func TestASpellingIsNoOldName(t *testing.T) {
	for _, name := range []string{"XLIO_TX_BUFFER_SIZE", "VMA_ALLOW_PRIVILEGED_SOCKET_OPT", "XLIO_ALLOW_PRIVILEGED_SOCKET_OPT"} {
		s := fromEnvironment(env(map[string]string{name: "1"}))
		require.Empty(t, s.Warnings, name)
		require.NotContains(t, Markdown(), "old: `"+name)
	}
	require.Contains(t, Markdown(), "old: `VMA_MAX_INLINE`")
}

// A list is used whole or refused.
func TestTheListOfProcessorsIsBounded(t *testing.T) {
	s := fromEnvironment(env(map[string]string{"SX_LOOP_CPUS": "0-8191"}))
	require.Empty(t, s.Warnings)
	require.Len(t, s.LoopCPUs, 8192)
	for _, text := range []string{"0-8191,0", "0-8000,0-8000", "0-8191,0-8191,0-8191"} {
		s := fromEnvironment(env(map[string]string{"SX_LOOP_CPUS": text}))
		require.Equal(t, []string{`SX_LOOP_CPUS="` + text + `": processors "` + text + `": want at most 8192 in all; the default is used`}, s.Warnings)
		require.Empty(t, s.LoopCPUs)
	}
	s.LoopCPUs = make([]int, 8193)
	require.ErrorContains(t, s.Validate(), "SX_LOOP_CPUS")
}

// What has no effect is told as it was given: under each name, in files too; not a profile's values, nor what asks for what is done anyway.
func TestSettingsWithoutEffectAsTheyWereGiven(t *testing.T) {
	for name, text := range map[string]string{"VMA_PROGRESS_ENGINE_INTERVAL": "10", "XLIO_PROGRESS_ENGINE_INTERVAL": "1",
		"VMA_PROGRESS_ENGINE_WCE_MAX": "1", "VMA_CQ_DRAIN_WCE_MAX": "5"} {
		s := fromEnvironment(env(map[string]string{name: text}))
		list := s.WithoutEffect()
		require.Len(t, list, 1, name)
		require.Contains(t, list[0].String(), name+`="`+text+`" has no effect: not applicable: only its owner empties a ring`)
	}
	for name, text := range map[string]string{"VMA_PROGRESS_ENGINE_INTERVAL": "0", "VMA_PROGRESS_ENGINE_WCE_MAX": "0", "VMA_SPEC": "latency",
		"VMA_LOG_COLORS": "off"} {
		s := fromEnvironment(env(map[string]string{name: text}))
		require.Empty(t, s.WithoutEffect(), name)
	}
	path := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.WriteFile(path, []byte("VMA_PROGRESS_ENGINE_INTERVAL=20\nVMA_RX_WRE=64\n"), 0o600))
	s, err := FromFile(path)
	require.NoError(t, err)
	require.Empty(t, s.Warnings)
	require.Len(t, s.WithoutEffect(), 1)
	require.Contains(t, s.WithoutEffect()[0].String(), path+`:1: VMA_PROGRESS_ENGINE_INTERVAL="20" has no effect`)
	require.Empty(t, s.WithoutEffect(RingOffload, RingUring))
	require.Equal(t, path+`:2: VMA_RX_WRE="64" has no effect: the poller's rings are of kind epoll, it is for offload`,
		s.WithoutEffect(RingEpoll)[0].String())
	s.Offload.Fill = 128 // by code
	require.Equal(t, "Settings.Offload.Fill=128 (VMA_RX_WRE)", s.Given("VMA_RX_WRE"))
	require.Empty(t, s.Given("VMA_TX_WRE"))
	require.Empty(t, s.Given("VMA_NO_SUCH"))
}

// The name of a profile that code sets applies nothing, and that is said.
func TestAProfileOfCodeAppliesNothing(t *testing.T) {
	s := Default()
	s.Profile = "latency"
	list := s.WithoutEffect()
	require.Len(t, list, 1)
	require.Equal(t, "Settings.Profile=latency (VMA_SPEC) has no effect: code has set the name of the profile alone: WithProfile applies its values",
		list[0].String())
	s, err := WithProfile("latency")
	require.NoError(t, err)
	for _, x := range s.WithoutEffect() {
		require.NotEqual(t, "VMA_SPEC", x.Name)
	}
}

// A setting that is given its default asks for nothing else than what there is without it.
func TestADefaultIsNoSettingWithoutEffect(t *testing.T) {
	for _, p := range Parameters() {
		s := fromEnvironment(env(map[string]string{p.Name: p.Default()}))
		require.Empty(t, s.Warnings, p.Name)
		require.Empty(t, s.WithoutEffect(), p.Name)
		for _, kind := range []RingKind{RingUring, RingEpoll, RingOffload} {
			require.Empty(t, s.WithoutEffect(kind), "%s on %s", p.Name, kind)
		}
	}
}

// VMA_SELECT_POLL_OS_FORCE has no effect where it asks for another ratio than the one that is given. 0 asks for none.
func TestForceBesideTheRatio(t *testing.T) {
	for pair, told := range map[[2]string]int{{"0", "5"}: 0, {"0", "1"}: 0, {"1", "1"}: 0, {"1", "5"}: 1, {"1", "0"}: 1} {
		s := fromEnvironment(env(map[string]string{forceName: pair[0], "VMA_SELECT_POLL_OS_RATIO": pair[1]}))
		require.Empty(t, s.Warnings)
		require.Len(t, s.WithoutEffect(), told, pair)
		_, over := s.Overruled(forceName, "a loop has Config.OSRatio")
		require.Equal(t, pair[0] == "1", over, pair)
	}
}

// Values that ask for what is done in any case are no settings without effect, and XLIO's spellings are values.
func TestValuesAsXLIOWritesThem(t *testing.T) {
	for name, text := range map[string]string{"XLIO_SKIP_POLL_IN_RX": "1", "XLIO_LRO": "auto", "XLIO_TSO": "auto", "VMA_FORK": "1",
		"XLIO_TCP_CTL_THREAD": "disable"} {
		s := fromEnvironment(env(map[string]string{name: text}))
		require.Empty(t, s.Warnings, name)
		require.Empty(t, s.WithoutEffect(), "%s=%s asks for what is done in any case", name, text)
	}
	for pair, fits := range map[[2]string]bool{{"XLIO_TX_BUF_SIZE", "0"}: true, {"XLIO_TX_BUF_SIZE", "262144"}: true,
		{"XLIO_TX_BUF_SIZE", "256KB"}: true, {"XLIO_TX_BUF_SIZE", "257k"}: false, {"XLIO_TX_BUF_SIZE", "1TB"}: false,
		{"XLIO_TX_BUF_SIZE", "-1"}: false, {"XLIO_TX_BUF_SIZE", "KB"}: false, {"XLIO_TCP_SEND_BUFFER_SIZE", "2MB"}: true,
		{"XLIO_TCP_SEND_BUFFER_SIZE", "1g"}: true, {"XLIO_TCP_SEND_BUFFER_SIZE", "4GB"}: false, {"XLIO_TCP_SEND_BUFFER_SIZE", "64 B"}: false,
		{"XLIO_TCP_CTL_THREAD", "delegate"}: true, {"XLIO_TCP_CTL_THREAD", "3"}: false, {"XLIO_TSO", "2"}: false} {
		s := fromEnvironment(env(map[string]string{pair[0]: pair[1]}))
		if fits {
			require.Empty(t, s.Warnings, pair)
			require.Equal(t, pair[1] == byName[pair[0]].Default(), len(s.WithoutEffect()) == 0, pair)
		} else {
			require.Len(t, s.Warnings, 1, pair)
		}
	}
	for range 100 { // in whatever order suffixes are tried
		_, ok := parseSize("1KM", 1<<30)
		require.False(t, ok, "two suffixes")
	}
	require.Equal(t, "0", byName["XLIO_TX_BUF_SIZE"].Default(), "by the MTU")
	require.Same(t, byName["XLIO_TX_BUF_SIZE"], byName["XLIO_TX_BUFFER_SIZE"])
}

// The value of a setting without effect is the same in whatever words: the default in other words is no change, and no warning.
func TestValuesInOtherWords(t *testing.T) {
	for name, text := range map[string]string{"VMA_TSO": "on", "VMA_FORK": "true", "VMA_BF": "enabled", "VMA_IPOIB": "ON",
		"VMA_RING_MIGRATION_RATIO_RX": "0100", "XLIO_TX_BUF_SIZE": "0K"} {
		s := fromEnvironment(env(map[string]string{name: text}))
		require.Empty(t, s.Warnings, name)
		require.Empty(t, s.WithoutEffect(), "%s=%s is the default", name, text)
		for _, e := range s.Entries() {
			require.False(t, e.Changed, "%s=%s: %s is %s", name, text, e.Name, e.Value)
		}
	}
	s := fromEnvironment(env(map[string]string{"VMA_TSO": "off"}))
	require.Equal(t, "0", byName["VMA_TSO"].Value(&s))
	require.Len(t, s.WithoutEffect(), 1)
	require.Contains(t, s.WithoutEffect()[0].String(), `VMA_TSO="off" has no effect`)
}

// VMA_HW_TS_CONVERSION asks an offloaded ring for SX_OFFLOAD_TIME=hardware, whatever that is set to.
func TestOffloadTimeBesideACardsTime(t *testing.T) {
	for pair, told := range map[[2]string]int{{"poll", "3"}: 1, {"xdp", "1"}: 1, {"hardware", "3"}: 0, {"poll", "0"}: 0, {"xdp", "0"}: 0} {
		s := fromEnvironment(env(map[string]string{"SX_OFFLOAD_TIME": pair[0], "VMA_HW_TS_CONVERSION": pair[1]}))
		require.Empty(t, s.Warnings)
		list := s.WithoutEffect()
		require.Len(t, list, told, pair)
		for _, n := range list {
			require.Equal(t, "SX_OFFLOAD_TIME=\""+pair[0]+"\" has no effect: VMA_HW_TS_CONVERSION asks for hardware", n.String())
		}
		require.Empty(t, s.WithoutEffect(RingOffload), "said once, when the engine is made")
	}
}

// Where nothing is published the settings of what is published have no effect.
func TestSettingsOfStatisticsThatAreNotPublished(t *testing.T) {
	for name, text := range map[string]string{"VMA_STATS_FD_NUM": "7", "SX_STATS_GROUP": "adm", "VMA_CPU_USAGE_STATS": "1"} {
		s := fromEnvironment(env(map[string]string{name: text, "VMA_STATS_SHMEM_DIR": ""}))
		require.Empty(t, s.Warnings)
		list := s.WithoutEffect()
		require.Len(t, list, 1, name)
		require.Equal(t, name+`="`+text+`" has no effect: VMA_STATS_SHMEM_DIR is empty: nothing is published`, list[0].String())
		s = fromEnvironment(env(map[string]string{name: text}))
		require.Empty(t, s.WithoutEffect(), name)
	}
	s := fromEnvironment(env(map[string]string{"VMA_STATS_SHMEM_DIR": "", "SX_STATS_GROUP": "", "VMA_CPU_USAGE_STATS": "0", "VMA_STATS_FILE": "/tmp/x"}))
	require.Empty(t, s.WithoutEffect(), "these ask for nothing, and the text file is another matter")
}

func TestNamesOfXLIOAndOldOnes(t *testing.T) {
	for _, c := range every {
		p := byName[c.name]
		for _, alias := range p.names()[1:] {
			s := fromEnvironment(env(map[string]string{alias: c.text}))
			require.Equal(t, c.want, c.field(&s), alias)
			if slices.Contains(p.Old, alias) {
				require.Equal(t, []string{alias + " is an old name of " + p.Name}, s.Warnings)
			} else {
				require.Empty(t, s.Warnings, alias)
			}
		}
	}
	s := fromEnvironment(env(map[string]string{"XLIO_TSO": "off", "XLIO_LRO": "on"}))
	require.Empty(t, s.Warnings)
	s = fromEnvironment(env(map[string]string{"VMA_RX_POLL": "5", "XLIO_RX_POLL": "6"}))
	require.Equal(t, 5, s.RxPoll)
	require.Equal(t, []string{`XLIO_RX_POLL="6": VMA_RX_POLL says otherwise and counts`}, s.Warnings)
}

func TestUnknownNamesWarn(t *testing.T) {
	s := read(nil, source{"VMA_RX_POL": {text: "1"}, "XLIO_FOO": {}, "SX_BAR": {}, "PATH": {}})
	require.Equal(t, []string{"SX_BAR: there is no such setting", "VMA_RX_POL: there is no such setting",
		"XLIO_FOO: there is no such setting"}, s.Warnings)
	t.Setenv("VMA_NO_SUCH", "1")
	require.Contains(t, FromEnvironment().Warnings, "VMA_NO_SUCH: there is no such setting")
}

// Four names that VMA reads are no settings here, and that is said too, with the reason.
func TestNamesThatOnlyVMAReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.WriteFile(path, []byte("VMA_SPEC_PARAM1=3\n"), 0o600))
	t.Setenv("VMA_TIME_MEASURE_NUM_SAMPLES", "5")
	s, err := FromFile(path)
	require.NoError(t, err)
	require.Equal(t, []string{path + ":1: VMA_SPEC_PARAM1 has no effect: it is of VMA's profiles for single products",
		"VMA_TIME_MEASURE_NUM_SAMPLES has no effect: it is of a build of VMA that measures itself"}, s.Warnings)
}

func TestAFileNamesNoFurtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.WriteFile(path, []byte(SettingsFile+"=other\n"), 0o600))
	s, err := FromFile(path)
	require.NoError(t, err)
	require.Equal(t, []string{path + ":1: SX_SETTINGS_FILE has no effect: it stands in a settings file, which names no further one"}, s.Warnings)
}

func TestCodeEnvironmentFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.WriteFile(path, []byte("# comment\n\nVMA_SPEC=low-cpu\nexport VMA_RX_BUFS=\"2000\"\nVMA_MSS = 900\r\nVMA_MTU=x\n"+
		"nonsense\nVMA_NO_SUCH=1\nVMA_TCP_NODELAY=1\n"), 0o600))
	t.Setenv(SettingsFile, path)
	t.Setenv("VMA_MSS", "800")
	t.Setenv("VMA_SELECT_POLL", "77")
	s := FromEnvironment()
	require.Equal(t, 2000, s.SmallBuffers, "the file before the profile")
	require.Equal(t, 32, s.LargeBuffers, "the profile before the default")
	require.Equal(t, 800, s.MSS, "the environment before the file")
	require.Equal(t, 77*time.Microsecond, s.SelectPoll, "the environment before the profile")
	require.True(t, s.NoDelay)
	require.Equal(t, []string{path + `:7: "nonsense": want NAME=VALUE; the line is left out`,
		path + ":8: VMA_NO_SUCH: there is no such setting",
		path + `:6: VMA_MTU="x": want 0, or a number from 148 to 32807; the default is used`}, s.Warnings)
	s.MSS = 700 // and code before all
	require.NoError(t, s.Validate())

	t.Setenv("VMA_SPEC", "throughput")
	s = FromEnvironment()
	require.Equal(t, "throughput", s.Profile, "the environment chooses the profile")
	require.Equal(t, 1024, s.LargeBuffers)

	_, err := FromFile(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
	t.Setenv(SettingsFile, path+".none")
	s = FromEnvironment()
	require.Len(t, s.Warnings, 1)
	require.Contains(t, s.Warnings[0], SettingsFile)
	require.Equal(t, 800, s.MSS, "the environment counts all the same")
}

// A value that cannot be used counts for nothing: one under an older name does then, and warnings say what holds.
func TestABadValueGivesWayToAnOlderName(t *testing.T) {
	both := map[string]string{"VMA_RX_UDP_POLL_OS_RATIO": "0", "VMA_RX_SKIP_OS": "50"}
	s := fromEnvironment(env(both))
	require.Equal(t, 50, s.ShadowRatio)
	require.Equal(t, []string{"VMA_RX_SKIP_OS is an old name of VMA_RX_UDP_POLL_OS_RATIO",
		`VMA_RX_UDP_POLL_OS_RATIO="0": want a number from 1 to 1000000; 50 stays`}, s.Warnings)
	require.Equal(t, `VMA_RX_SKIP_OS="50"`, s.Given("VMA_RX_UDP_POLL_OS_RATIO"))
	both["VMA_RX_SKIP_OS"] = "none"
	s = fromEnvironment(env(both))
	require.Equal(t, Default().ShadowRatio, s.ShadowRatio)
	require.Empty(t, s.Given("VMA_RX_UDP_POLL_OS_RATIO"))
	require.Len(t, s.Warnings, 2)
	for _, w := range s.Warnings {
		require.Contains(t, w, "the default is used")
	}
}

// VMA_SELECT_POLL_OS_FORCE gives way to a ratio, wherever each is said.
func TestForceGivesWayToARatio(t *testing.T) {
	force, ratio := source{forceName: {text: "1"}}, source{"VMA_SELECT_POLL_OS_RATIO": {text: "7"}}
	for _, from := range [][2]source{{ratio, force}, {force, ratio}} {
		s := read(from[0], from[1])
		require.Equal(t, 7, s.OSRatio)
	}
	s := read(nil, force)
	require.Equal(t, 1, s.OSRatio)
	s = read(force, source{forceName: {text: "0"}})
	require.Equal(t, Default().OSRatio, s.OSRatio, "the environment takes back what the file says")
}

// Code sets fields to their values: another word for one, as the environment may have it, is not accepted there.
func TestCodeSetsValuesAndNoOtherWords(t *testing.T) {
	for _, set := range []func(s *Settings){
		func(s *Settings) { s.Congestion = "0" },
		func(s *Settings) { s.LogLevel = "4" },
		func(s *Settings) { s.LogLevel = "DEBUG" },
		func(s *Settings) { s.Profile = "15" },
		func(s *Settings) { s.Ring = "URING" },
	} {
		s := Default()
		require.NoError(t, s.Validate())
		set(&s)
		require.Error(t, s.Validate(), "%+v", s)
	}
}

// What code says of the ratio comes before FORCE, too, and that is said.
func TestForceBesideARatioOfCode(t *testing.T) {
	s := fromEnvironment(env(map[string]string{forceName: "1"}))
	require.Empty(t, s.WithoutEffect())
	s.OSRatio = 33
	require.Len(t, s.WithoutEffect(), 1)
	require.Equal(t, forceName+`="1" has no effect: VMA_SELECT_POLL_OS_RATIO says otherwise and counts`, s.WithoutEffect()[0].String())
}

func TestPrinted(t *testing.T) {
	s := fromEnvironment(env(map[string]string{"VMA_RX_POLL": "-1", "VMA_TRACELEVEL": "info"}))
	lines := s.Lines(false)
	require.Len(t, lines, 4)
	require.Equal(t, "Rx Poll Loops                  -1                         [VMA_RX_POLL]", lines[1])
	require.Equal(t, "Log Level                      info                       [VMA_TRACELEVEL]", lines[2])
	require.Len(t, s.Lines(true), len(Parameters())+2)
	for pairs, want := range map[[2]string][]string{{"", "1"}: {"RATIO"}, {"1", ""}: {"FORCE", "RATIO"}, {"1", "1"}: {"FORCE", "RATIO"},
		{"1", "7"}: {"FORCE", "RATIO"}, {"0", "1"}: {"RATIO"}, {"0", ""}: nil} {
		e := map[string]string{}
		for i, name := range []string{"VMA_SELECT_POLL_OS_FORCE", "VMA_SELECT_POLL_OS_RATIO"} {
			if pairs[i] != "" {
				e[name] = pairs[i]
			}
		}
		s := fromEnvironment(env(e))
		var changed []string
		for _, entry := range s.Entries() {
			if name, ok := strings.CutPrefix(entry.Name, "VMA_SELECT_POLL_OS_"); ok && entry.Changed {
				changed = append(changed, name)
			}
		}
		require.Equal(t, want, changed, "FORCE and RATIO: %v", pairs)
	}

	var b bytes.Buffer
	require.NoError(t, s.WriteJSON(&b))
	var list []Entry
	require.NoError(t, json.Unmarshal(b.Bytes(), &list))
	require.Equal(t, s.Entries(), list)
	require.Len(t, list, len(Parameters()))
}

func TestAnnouncedByLevel(t *testing.T) {
	for level, want := range map[string]int{"": 0, "none": 0, "warn": 0, "info": 5, "details": len(Parameters()) + 4,
		"finer": len(Parameters()) + 4} {
		path := filepath.Join(t.TempDir(), "log")
		s := fromEnvironment(env(map[string]string{"VMA_TRACELEVEL": level, "VMA_LOG_FILE": path}))
		l, err := s.OpenLog()
		require.NoError(t, err)
		s.LogFile = "" // the log has what it was opened with; only the changed level is printed
		s.Announce(l.Logger)
		require.NoError(t, l.Close())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, strings.Count(string(text), "\n"), "%s:\n%s", level, text)
		require.Equal(t, want, strings.Count(string(text), " SX INFO: "))
	}
}

var update = flag.Bool("update", false, "write docs/settings.md anew")

const settingsPage = "../docs/settings.md"

// The page's table is the code's.
func TestSettingsPage(t *testing.T) {
	const begin, end = "<!-- settings: go test ./conf -run TestSettingsPage -update -->\n", "<!-- end of settings -->\n"
	page, err := os.ReadFile(settingsPage)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok, "%s has no line %q", settingsPage, begin)
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := head + begin + Markdown() + end + tail
	if *update {
		require.NoError(t, os.WriteFile(settingsPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "go test ./conf -run TestSettingsPage -update")
}
