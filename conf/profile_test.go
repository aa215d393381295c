package conf

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The values of VMA's manual.
func TestProfileVectors(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"latency": {
			"VMA_RING_DEV_MEM_TX":               "16384",
			"VMA_TX_WRE":                        "256",
			"VMA_TX_WRE_BATCHING":               "4",
			"VMA_RX_WRE":                        "256",
			"VMA_RX_WRE_BATCHING":               "4",
			"VMA_RX_POLL":                       "-1",
			"VMA_TSO":                           "0",
			"VMA_RX_PREFETCH_BYTES_BEFORE_POLL": "256",
			"VMA_GRO_STREAMS_MAX":               "0",
			"VMA_SELECT_POLL":                   "-1",
			"VMA_SELECT_POLL_OS_FORCE":          "1",
			"VMA_SELECT_POLL_OS_RATIO":          "1",
			"VMA_SELECT_SKIP_OS":                "1",
			"VMA_PROGRESS_ENGINE_INTERVAL":      "100",
			"VMA_CQ_MODERATION_ENABLE":          "0",
			"VMA_CQ_AIM_MAX_COUNT":              "128",
			"VMA_CQ_AIM_INTERVAL_MSEC":          "0",
			"VMA_CQ_KEEP_QP_FULL":               "0",
			"VMA_TCP_NODELAY":                   "1",
			"VMA_AVOID_SYS_CALLS_ON_TCP_FD":     "1",
			"VMA_INTERNAL_THREAD_AFFINITY":      "0",
			"VMA_THREAD_MODE":                   "0",
			"VMA_MEM_ALLOC_TYPE":                "2",
		},
		"multi_ring_latency": {
			"VMA_MEM_ALLOC_TYPE":                 "2",
			"VMA_SELECT_POLL":                    "-1",
			"VMA_RX_POLL":                        "-1",
			"VMA_RING_ALLOCATION_LOGIC_TX":       "20",
			"VMA_RING_ALLOCATION_LOGIC_RX":       "20",
			"VMA_SELECT_POLL_OS_RATIO":           "0",
			"VMA_SELECT_SKIP_OS":                 "0",
			"VMA_RX_POLL_ON_TX_TCP":              "1",
			"VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME": "1",
		},
		"throughput": {
			"VMA_MEM_ALLOC_TYPE":    "2",
			"VMA_RX_BUFS":           "16384",
			"SX_LARGE_BUFS":         "1024",
			"VMA_TX_WRE":            "4096",
			"VMA_CQ_POLL_BATCH_MAX": "1024",
			"VMA_RX_POLL":           "1000",
			"VMA_SELECT_POLL":       "50",
		},
		"low-cpu": {
			"VMA_RX_POLL":     "0",
			"VMA_SELECT_POLL": "0",
			"VMA_RX_BUFS":     "1024",
			"SX_LARGE_BUFS":   "32",
		},
	} {
		s := fromEnvironment(env(map[string]string{"VMA_SPEC": name}))
		require.Empty(t, s.Warnings)
		require.NoError(t, s.Validate())
		changed := map[string]string{}
		for _, e := range s.Entries() {
			if e.Changed && e.Name != "VMA_SPEC" {
				changed[e.Name] = e.Value
			}
		}
		require.Equal(t, want, changed, name)
		code, err := WithProfile(name)
		require.NoError(t, err)
		s.given, s.starts, code.starts = nil, nil, nil
		require.Equal(t, s, code)
	}
	s := fromEnvironment(env(map[string]string{"VMA_SPEC": "latency", "VMA_RX_POLL": "9", "VMA_SELECT_POLL": "x", "VMA_TX_WRE": "512"}))
	require.Equal(t, 9, s.RxPoll, "single settings have the last word")
	require.Equal(t, 512, s.RingEntries)
	require.Equal(t, time.Duration(-1), s.SelectPoll)
	require.Equal(t, []string{`VMA_SELECT_POLL="x": want auto, or a number from -1 to 100000000; -1 stays`}, s.Warnings)
	s = fromEnvironment(env(map[string]string{"VMA_SELECT_POLL_OS_FORCE": "1"}))
	require.Equal(t, 1, s.OSRatio)
	s = fromEnvironment(env(map[string]string{"VMA_SELECT_POLL_OS_FORCE": "1", "VMA_SELECT_POLL_OS_RATIO": "5"}))
	require.Equal(t, 5, s.OSRatio)
	for text, want := range map[string]string{"0": "", "none": "", "15": "latency", "LATENCY": "latency"} {
		s := fromEnvironment(env(map[string]string{"VMA_SPEC": text}))
		require.Empty(t, s.Warnings)
		require.Equal(t, want, s.Profile, text)
	}
	for _, other := range []string{"ultra-latency", "10", "29west"} {
		require.Len(t, fromEnvironment(env(map[string]string{"VMA_SPEC": other})).Warnings, 1, other)
	}
	_, err := WithProfile("rti")
	require.ErrorContains(t, err, `conf: profile "rti": want none, latency`)
	require.Len(t, Profiles(), 4)
}

// The page tells of each profile which of its values have an effect, and how many have none.
func TestProfilesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/settings.md")
	require.NoError(t, err)
	told := regexp.MustCompile(`[A-Z][A-Z0-9_]+=[^ ,:;|)]+`)
	for _, name := range []string{"latency", "multi_ring_latency", "throughput", "low-cpu"} {
		s, err := WithProfile(name)
		require.NoError(t, err)
		line := regexp.MustCompile(`(?m)^\| ` + name + ` \|.*$`).FindString(string(page))
		var want []string
		without := 0
		for i := range parameters {
			p := &parameters[i]
			if _, changed := s.starts[p.Name]; !changed || p.Name == "VMA_SPEC" {
				continue
			}
			if p.Field == "" {
				without++
				continue
			}
			want = append(want, strings.TrimPrefix(p.Name, "VMA_")+"="+p.get(&s))
		}
		require.ElementsMatch(t, want, told.FindAllString(line, -1), name)
		rest := "none"
		if without > 0 {
			rest = fmt.Sprintf("the other %d", without)
		}
		require.True(t, strings.HasSuffix(line, "| "+rest+" |"), "%s: want %q: %s", name, rest, line)
	}
}
