package conf

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// FromEnvironment is Default with what the environment sets.
func FromEnvironment() Settings { return fromEnvironment(os.LookupEnv) }

func fromEnvironment(lookup func(string) (string, bool)) Settings {
	s := Default()
	e := environment{lookup, &s}

	if text, ok := lookup("SX_RING"); ok {
		if kind, err := ParseRingKind(text); err != nil {
			e.warn("SX_RING", text, "want auto, uring or epoll")
		} else {
			s.Ring = kind
		}
	}
	// VMA does not take 11 from the environment either: it needs a user id per socket.
	e.oneOf("VMA_RING_ALLOCATION_LOGIC_RX", &s.RingLogic, 0, 1, 10, 20, 30, 31)
	e.number("VMA_RING_LIMIT_PER_INTERFACE", &s.RingLimit, 0, 1<<16)
	e.number("VMA_RX_BUFS", &s.SmallBuffers, 64, 1<<24)
	e.number("SX_LARGE_BUFS", &s.LargeBuffers, 8, 1<<20)
	memory := 0
	e.oneOf("VMA_MEM_ALLOC_TYPE", &memory, 0, 1, 2)
	s.HugePages = memory == 2
	debug := 0
	e.number("SX_BUFFER_DEBUG", &debug, 0, 1)
	s.BufferDebug = debug == 1
	e.number("VMA_RX_POLL", &s.RxPoll, -1, 100_000_000)
	micros := int(s.SelectPoll / time.Microsecond)
	e.number("VMA_SELECT_POLL", &micros, -1, 100_000_000)
	if s.SelectPoll = time.Duration(micros) * time.Microsecond; micros < 0 {
		s.SelectPoll = -1
	}
	e.number("VMA_SELECT_POLL_OS_RATIO", &s.OSRatio, 0, 1_000_000)
	return s
}

// environment reads values into settings and warns of those it cannot use.
type environment struct {
	lookup func(string) (string, bool)
	s      *Settings
}

func (e environment) warn(name, text, want string) {
	e.s.Warnings = append(e.s.Warnings, fmt.Sprintf("%s=%q: %s; the default is used", name, text, want))
}

func (e environment) number(name string, to *int, least, most int) {
	text, ok := e.lookup(name)
	if !ok {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		e.warn(name, text, fmt.Sprintf("want a number from %d to %d", least, most))
		return
	}
	*to = n
}

func (e environment) oneOf(name string, to *int, want ...int) {
	text, ok := e.lookup(name)
	if !ok {
		return
	}
	n, err := strconv.Atoi(text)
	for _, w := range want {
		if err == nil && n == w {
			*to = n
			return
		}
	}
	e.warn(name, text, fmt.Sprintf("want one of %v", want))
}
