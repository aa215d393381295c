package reactor

import (
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Config is how a loop behaves. The zero Config is a good one: it spins for a while and then sleeps.
type Config struct {
	// Batch is the most completions one Poll takes; 0 takes the engine's setting (VMA_CQ_POLL_BATCH_MAX), which is 256 by default.
	Batch int
	// Rest is what the loop does when there is nothing to do.
	Rest Rest
	// RxPoll is how many empty turns in a row an Adaptive loop spins before it sleeps, SelectPoll for how long at most; with -1 in
	// either it never sleeps. 0 says nothing, here and in what package gnet and package netconn have of that name: the engine's setting
	// counts (VMA_RX_POLL, VMA_SELECT_POLL). There 0 is a value: the loop looks once and sleeps, which VMA calls 1 and takes 0 for. Wait
	// is how a Config says the same.
	RxPoll     int
	SelectPoll time.Duration
	// OSRatio makes a loop that does not sleep look at external descriptors on every OSRatio-th turn. 0 takes the
	// engine's setting (VMA_SELECT_POLL_OS_RATIO, where 0 means the same as -1 here); -1 looks only after a sleep.
	OSRatio int
	// Pin is the processor the loop's thread is bound to; for RunGroup one per loop. Empty takes the next of the engine's setting
	// (SX_LOOP_CPUS), which is none by default.
	Pin []int
	// Unpinned loops take no processor of the setting: for those that are seldom busy, because they only help others. Nor does such a loop warn
	// of settings that it does not use.
	Unpinned bool
	// OnPanic is what a panic in the program's code costs.
	OnPanic PanicPolicy
	// Grace is how long a shutdown goes on serving while there is still something to serve; 0 means 5 s.
	Grace time.Duration
	// TimerBudget and PostBudget bound the timers fired and the posted functions run in one turn; 0 means 256.
	TimerBudget, PostBudget int
	// Logger gets panics, and errors that no call can return; nil is the engine's (xtreme.Engine.Logger).
	Logger *slog.Logger

	// Name and Poller are for RunGroup: its loops and their pollers are called Name-0, Name-1 …, "loop-0" without, and
	// their pollers are made with Poller.
	Name   string
	Poller xtreme.PollerConfig

	yield uint64 // VMA_RX_POLL_YIELD
}

const (
	defaultBatch  = 256
	defaultBudget = 256
	defaultGrace  = 5 * time.Second
	maxBatch      = 1 << 16
)

// complete checks the values and fills in the defaults.
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
	orElse(&c.OSRatio, s.OSRatio)
	orElse(&c.Grace, defaultGrace)
	orElse(&c.TimerBudget, defaultBudget)
	orElse(&c.PostBudget, defaultBudget)
	if c.OSRatio < 0 {
		c.OSRatio = 0 // from here on 0 is "only after a sleep", as in the settings
	}
	return nil
}

// neverSleeps reports whether the loop spins whatever happens.
func (c *Config) neverSleeps() bool {
	return c.Rest == Spin || c.Rest == Adaptive && (c.RxPoll < 0 || c.SelectPoll < 0)
}

func orElse[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func badArgument(name string, value any) error {
	return fmt.Errorf("reactor: Config.%s %v: %w", name, value, unix.EINVAL)
}
