package conf

import (
	"fmt"
	"slices"
	"strings"
)

// Value is a parameter and a value for it, as text.
type Value struct{ Name, Text string }

// Profile is settings that go together (VMA_SPEC).
type Profile struct {
	Name, Text string
	Values     []Value
}

// Profiles lists the profiles. Those of VMA have the values of its manual; its code makes fewer (not the TSO line of latency;
// moderation it switches off wherever it spins for ever). It knows others, which are not taken over: ultra-latency, and for single products
// 29west, wombat_fh, rti, mcd, mcd-irq and 7750.
func Profiles() []Profile { return slices.Clone(profiles) }

var profiles = []Profile{
	{"latency", "for ping-pong: spin, small queues, no batching", []Value{
		{"VMA_RING_DEV_MEM_TX", "16384"}, {"VMA_TX_WRE", "256"}, {"VMA_TX_WRE_BATCHING", "4"}, {"VMA_RX_WRE", "256"},
		{"VMA_RX_WRE_BATCHING", "4"}, {"VMA_RX_POLL", "-1"}, {"VMA_TSO", "0"}, {"VMA_RX_PREFETCH_BYTES_BEFORE_POLL", "256"},
		{"VMA_GRO_STREAMS_MAX", "0"}, {"VMA_SELECT_POLL", "-1"}, {"VMA_SELECT_POLL_OS_FORCE", "1"},
		{"VMA_SELECT_POLL_OS_RATIO", "1"}, {"VMA_SELECT_SKIP_OS", "1"}, {"VMA_PROGRESS_ENGINE_INTERVAL", "100"},
		{"VMA_CQ_MODERATION_ENABLE", "0"}, {"VMA_CQ_AIM_MAX_COUNT", "128"}, {"VMA_CQ_AIM_INTERVAL_MSEC", "0"},
		{"VMA_CQ_KEEP_QP_FULL", "0"}, {"VMA_TCP_NODELAY", "1"}, {"VMA_AVOID_SYS_CALLS_ON_TCP_FD", "1"},
		{"VMA_INTERNAL_THREAD_AFFINITY", "0"}, {"VMA_THREAD_MODE", "0"}, {"VMA_MEM_ALLOC_TYPE", "2"},
	}},
	{"multi_ring_latency", "for latency with send-only and receive-only sockets: a ring per thread", []Value{
		{"VMA_MEM_ALLOC_TYPE", "2"}, {"VMA_SELECT_POLL", "-1"}, {"VMA_RX_POLL", "-1"}, {"VMA_RING_ALLOCATION_LOGIC_TX", "20"},
		{"VMA_RING_ALLOCATION_LOGIC_RX", "20"}, {"VMA_SELECT_POLL_OS_RATIO", "0"}, {"VMA_SELECT_SKIP_OS", "0"},
		{"VMA_RX_POLL_ON_TX_TCP", "1"}, {"VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME", "1"},
	}},
	{"throughput", "for bulk: many buffers, large batches, huge pages, a short spin", []Value{
		{"VMA_MEM_ALLOC_TYPE", "2"}, {"VMA_RX_BUFS", "16384"}, {"SX_LARGE_BUFS", "1024"}, {"VMA_TX_WRE", "4096"},
		{"VMA_CQ_POLL_BATCH_MAX", "1024"}, {"VMA_RX_POLL", "1000"}, {"VMA_SELECT_POLL", "50"},
	}},
	{"low-cpu", "for many mostly idle loops: sleep at once, small memory", []Value{
		{"VMA_RX_POLL", "0"}, {"VMA_SELECT_POLL", "0"}, {"VMA_RX_BUFS", "1024"}, {"SX_LARGE_BUFS", "32"},
	}},
}

// parseProfile reads the name of a profile, or VMA's number for it; none, 0 and the empty text are no profile.
func parseProfile(text string) (string, error) {
	switch text = strings.ToLower(text); text {
	case "", "none", "0":
		return "", nil
	case "15":
		text = "latency"
	}
	if !slices.ContainsFunc(profiles, func(p Profile) bool { return p.Name == text }) {
		return "", fmt.Errorf("want none, latency, multi_ring_latency, throughput or low-cpu")
	}
	return text, nil
}

// applyProfile sets the values of a profile, which exists, and its name.
func (s *Settings) applyProfile(name string) error {
	for _, p := range profiles {
		if p.Name != name {
			continue
		}
		for _, v := range p.Values {
			if err := byName[v.Name].set(s, v.Text); err != nil {
				return fmt.Errorf("conf: profile %s: %s=%q: %w", name, v.Name, v.Text, err)
			}
		}
	}
	s.Profile = name
	return nil
}

// WithProfile returns the defaults changed by a profile, without the environment. name is as for VMA_SPEC; an unknown one is an error.
func WithProfile(name string) (Settings, error) {
	s := Default()
	n, err := parseProfile(name)
	if err != nil {
		return s, fmt.Errorf("conf: profile %q: %w", name, err)
	}
	err = s.applyProfile(n)
	s.noteStarts()
	return s, err
}
