package conf

import (
	"fmt"
	"time"
)

// RingKind is the kind of ring an owner polls.
type RingKind string

// The kinds of ring.
const (
	RingAuto  RingKind = "auto"  // the best that works here, with the reasons why not better
	RingUring RingKind = "uring" // kernel sockets through io_uring
	RingEpoll RingKind = "epoll" // kernel sockets through epoll
)

// ParseRingKind reads a kind by its name.
func ParseRingKind(s string) (RingKind, error) {
	switch k := RingKind(s); k {
	case RingAuto, RingUring, RingEpoll:
		return k, nil
	}
	return "", fmt.Errorf("ring kind %q: want auto, uring or epoll", s)
}

// Settings is the configuration of an engine.
type Settings struct {
	// Ring is the kind of ring (SX_RING).
	Ring RingKind
	// RingLogic says which sockets of an owner share a ring: 0, 1, 10, 20, 30 or 31 (VMA_RING_ALLOCATION_LOGIC_RX).
	RingLogic int
	// RingLimit is the most rings per interface within one owner; 0 is no limit (VMA_RING_LIMIT_PER_INTERFACE).
	RingLimit int
	// SmallBuffers and LargeBuffers are the buffers of each owner: about 2 KiB and 64 KiB (VMA_RX_BUFS, SX_LARGE_BUFS).
	SmallBuffers, LargeBuffers int
	// HugePages asks for huge pages under the buffers (VMA_MEM_ALLOC_TYPE=2).
	HugePages bool
	// BufferDebug records who holds each buffer and panics when one is released twice (SX_BUFFER_DEBUG).
	BufferDebug bool
	// RxPoll is how many empty turns a reactor spins before it rests; -1 spins for ever, 0 rests at once (VMA_RX_POLL).
	RxPoll int
	// SelectPoll bounds the same by time; -1 spins for ever (VMA_SELECT_POLL, microseconds).
	SelectPoll time.Duration
	// OSRatio: a reactor looks at foreign descriptors on every OSRatio-th turn; 0 only while resting (VMA_SELECT_POLL_OS_RATIO).
	OSRatio int

	// Warnings are the values that could not be used, one sentence each.
	Warnings []string
}

// Default is the settings without an environment. Where they differ from VMA's it is because a buffer is counted per owner here.
func Default() Settings {
	return Settings{
		Ring:         RingAuto,
		SmallBuffers: 4096,
		LargeBuffers: 256,
		RxPoll:       100_000,
		SelectPoll:   100 * time.Millisecond,
		OSRatio:      10,
	}
}

// Validate names the first setting that is out of range.
func (s *Settings) Validate() error {
	if _, err := ParseRingKind(string(s.Ring)); err != nil {
		return fmt.Errorf("conf: Ring: %w", err)
	}
	for _, c := range []struct {
		name        string
		value       int
		least, most int
	}{
		{"RingLimit", s.RingLimit, 0, 1 << 16},
		{"SmallBuffers", s.SmallBuffers, 64, 1 << 24},
		{"LargeBuffers", s.LargeBuffers, 8, 1 << 20},
		{"RxPoll", s.RxPoll, -1, 100_000_000},
		{"OSRatio", s.OSRatio, 0, 1_000_000},
	} {
		if c.value < c.least || c.value > c.most {
			return fmt.Errorf("conf: %s %d: want %d to %d", c.name, c.value, c.least, c.most)
		}
	}
	switch s.RingLogic {
	case 0, 1, 10, 11, 20, 30, 31:
	default:
		return fmt.Errorf("conf: RingLogic %d: want 0, 1, 10, 11, 20, 30 or 31", s.RingLogic)
	}
	if s.SelectPoll < 0 && s.SelectPoll != -1 {
		return fmt.Errorf("conf: SelectPoll %v: want 0 or more, or -1 to spin for ever", s.SelectPoll)
	}
	return nil
}
