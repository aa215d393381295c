package reactor

import (
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Config configures a loop. The zero Config is a good one: the loop spins for a while when there is nothing to do, and then sleeps.
type Config struct {
	// Batch is the most completions that one turn of the loop handles. 0 takes the engine's setting (VMA_CQ_POLL_BATCH_MAX), by default 256.
	Batch int
	// Rest is what the loop does when there is nothing to do.
	Rest Rest
	// RxPoll is for a loop whose Rest is Adaptive: after so many turns in a row in which nothing happened it sleeps. -1 means that it never
	// sleeps. 0 takes the engine's setting (VMA_RX_POLL), which is 100,000 where nobody has given it. A loop that is to sleep at once has Rest
	// Wait; the setting says that by the value 0, which a Config cannot.
	RxPoll int
	// SelectPoll ends the same spinning by time: an Adaptive loop sleeps after RxPoll turns or after SelectPoll, whichever comes first. -1
	// means that it never sleeps. 0 takes the engine's setting (VMA_SELECT_POLL), which is 100 ms where nobody has given it.
	SelectPoll time.Duration
	// OSRatio is how often a loop that does not sleep asks for events of external descriptors (Loop.Watch): on every OSRatio-th turn. -1 means
	// only after a sleep. 0 takes the engine's setting (VMA_SELECT_POLL_OS_RATIO, by default 10; there 0 means what -1 means here).
	OSRatio int
	// Pin is the number of the processor to which the loop's thread is bound; for RunGroup, one for each loop. If it is empty, the loop takes
	// the next processor of the engine's setting (SX_LOOP_CPUS), which is none by default.
	Pin []int
	// Unpinned loops take no processor of the setting. It is for loops that only help others and are seldom busy. Such a loop also logs no
	// warnings of settings that it does not use.
	Unpinned bool
	// OnPanic says what happens after a panic in the program's code.
	OnPanic PanicPolicy
	// Grace is how long a shutdown at most goes on serving connections that still have requests; 0 means 5 s.
	Grace time.Duration
	// TimerBudget and PostBudget are how many timers fire and how many posted functions run in one turn at most; 0 means 256.
	TimerBudget, PostBudget int
	// Logger receives panics, and errors that no call can return, repeated ones with a limit (conf.LimitRepeats); nil takes the engine's
	// (xtreme.Engine.Logger).
	Logger *slog.Logger

	// Name is for RunGroup: its loops and their pollers are called Name-0, Name-1 and so on; without it loop-0, loop-1.
	Name string
	// Poller is for RunGroup, which makes the pollers of its loops with it. Poller.Memory is for one loop.
	Poller xtreme.PollerConfig

	yield uint64 // after so many empty turns a spinning loop lets other goroutines run (VMA_RX_POLL_YIELD)
}

const (
	defaultBatch  = 256
	defaultBudget = 256
	defaultGrace  = 5 * time.Second

	// Where nobody has said how long a loop spins: VMA's defaults.
	defaultRxPoll     = 100_000
	defaultSelectPoll = 100 * time.Millisecond

	maxBatch = 1 << 16
)

// complete checks the values, and sets those that are zero to the engine's setting or the default.
func (c *Config) complete(s conf.Settings) error {
	switch {
	case c.Batch < 0 || c.Batch > maxBatch:
		return badArgument("Batch", c.Batch)
	case c.Rest > Wait:
		return badArgument("Rest", uint8(c.Rest))
	case c.RxPoll < -1:
		return badArgument("RxPoll", c.RxPoll)
	case c.SelectPoll < 0 && c.SelectPoll != -1:
		return badArgument("SelectPoll", c.SelectPoll)
	case c.OSRatio < -1:
		return badArgument("OSRatio", c.OSRatio)
	case c.OnPanic > StopLoop:
		return badArgument("OnPanic", uint8(c.OnPanic))
	case c.Grace < 0:
		return badArgument("Grace", c.Grace)
	case c.TimerBudget < 0:
		return badArgument("TimerBudget", c.TimerBudget)
	case c.PostBudget < 0:
		return badArgument("PostBudget", c.PostBudget)
	}
	for _, cpu := range c.Pin {
		if cpu < 0 {
			return badArgument("Pin", cpu)
		}
	}
	orElse(&c.Batch, s.PollBatch)
	orElse(&c.Batch, defaultBatch)
	orElse(&c.yield, uint64(max(s.PollYield, 0)))
	orElse(&c.yield, yieldEvery)
	orElse(&c.RxPoll, s.RxPoll)
	orElse(&c.SelectPoll, s.SelectPoll)
	if c.RxPoll == conf.RxPollAuto {
		c.RxPoll = defaultRxPoll
	}
	if c.SelectPoll == conf.SelectPollAuto {
		c.SelectPoll = defaultSelectPoll
	}
	orElse(&c.OSRatio, s.OSRatio)
	orElse(&c.Grace, defaultGrace)
	orElse(&c.TimerBudget, defaultBudget)
	orElse(&c.PostBudget, defaultBudget)
	if c.OSRatio < 0 {
		c.OSRatio = 0 // from here on 0 is "only after a sleep", as in the settings
	}
	return nil
}

// neverSleeps reports whether the loop spins without end, even if nothing happens.
func (c *Config) neverSleeps() bool {
	return c.Rest == Spin || c.Rest == Adaptive && (c.RxPoll < 0 || c.SelectPoll < 0)
}

// orElse sets *v to otherwise if it is zero.
func orElse[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// badArgument returns EINVAL for a field of Config, with its name and its value.
func badArgument(name string, value any) error {
	return fmt.Errorf("reactor: Config.%s %v: %w", name, value, unix.EINVAL)
}
