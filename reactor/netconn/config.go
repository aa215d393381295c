package netconn

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Config is how a Network behaves. The zero Config is one loop that sleeps when it has nothing to do.
type Config struct {
	// Loops is how many loops there are, each with rings, buffers and a goroutine of its own; 0 means 1. Connections are
	// spread over them and stay where they are.
	Loops int
	// Rest is what a loop does when nothing comes; RxPoll and SelectPoll are as in reactor.Config, where 0 is the engine's setting. Where
	// nobody has given either setting, an Adaptive loop sleeps at once, because the processor a loop spins on is one that the program's
	// goroutines do not have. Spinning pays with a processor for each loop beside those that the goroutines run on.
	Rest       reactor.Rest
	RxPoll     int
	SelectPoll time.Duration
	// Pin is the processor of each loop's thread, one per loop; empty takes the next of the engine's setting (SX_LOOP_CPUS), which is none
	// by default.
	Pin []int
	// Poller is what the loops' pollers are made with: the kind of ring, buffers, their place. Where neither it nor the engine's
	// settings name a kind of ring (auto), it is epoll; package documentation says why. Poller.Memory is for one loop: each poller needs memory
	// of its own.
	Poller xtreme.PollerConfig
	// LargeStream makes every connection, accepted or dialled, over TCP or unix, receive into 64 KiB buffers, for bulk transfers.
	LargeStream bool
	// Budget limits the buffer memory that a connection may hold, in bytes, where its own configuration does not say; 0 means twice
	// ReceiveBuffer, and 256 KiB at least.
	Budget int
	// Name is what the loops are called in logs, with a number; "" means "netconn".
	Name string

	// ReceiveBuffer is how many received bytes of one connection or packet socket may wait for a reader before the ring stops
	// reading it, so that the peer's window closes; 0 means 64 KiB. As much again may be with a reader that has begun on it;
	// package documentation says by how much an io_uring ring may overshoot.
	ReceiveBuffer int
	// SendBuffer is how many written bytes of one connection or packet socket may wait for the loop and the kernel before Write
	// blocks; 0 means 64 KiB.
	SendBuffer int
	// AcceptQueue is how many accepted connections may wait for Accept before a listener leaves the others to the kernel's
	// queue; 0 means 128.
	AcceptQueue int
	// CloseTimeout is how long a closed connection may take to get rid of what was written; then it is reset. Close waits as long for a
	// peer that does not read, unless a write deadline ends that. 0 means 30 s.
	CloseTimeout time.Duration
	// Grace bounds how long Close of the Network waits for connections to part in peace; 0 means 5 s.
	Grace time.Duration

	// FallbackDelay is how long a dial on "tcp" waits for one address family before it tries the other one beside it, as
	// net.Dialer's; 0 means 300 ms, and with a negative value addresses are only tried one after the other.
	FallbackDelay time.Duration
	// Resolver looks up host names; nil is net.DefaultResolver.
	Resolver *net.Resolver
	// Logger gets errors that no call can return, repeated ones with a limit (conf.LimitRepeats); nil is the engine's (xtreme.Engine.Logger).
	Logger *slog.Logger
}

const (
	defaultBuffer       = 64 << 10
	leastBudget         = 256 << 10
	defaultAcceptQueue  = 128
	defaultCloseTimeout = 30 * time.Second
	mostLoops           = 1024
)

// complete checks the values and fills in the defaults.
func (c *Config) complete(s conf.Settings) error {
	switch {
	case c.Loops < 0 || c.Loops > mostLoops:
		return badArgument("Loops", c.Loops)
	case c.ReceiveBuffer < 0:
		return badArgument("ReceiveBuffer", c.ReceiveBuffer)
	case c.SendBuffer < 0:
		return badArgument("SendBuffer", c.SendBuffer)
	case c.AcceptQueue < 0:
		return badArgument("AcceptQueue", c.AcceptQueue)
	case c.Budget < 0:
		return badArgument("Budget", c.Budget)
	case c.CloseTimeout < 0:
		return badArgument("CloseTimeout", c.CloseTimeout)
	case c.Loops > 1 && c.Poller.Memory != nil:
		return fmt.Errorf("netconn: Config.Poller.Memory is for one loop, and %d loops would share it: %w", c.Loops, unix.EINVAL)
	}
	// Where nobody has asked a loop to spin it sleeps at once: see Rest.
	if c.Rest == reactor.Adaptive && c.RxPoll == 0 && c.SelectPoll == 0 && s.RxPoll == conf.RxPollAuto && s.SelectPoll == conf.SelectPollAuto {
		c.Rest = reactor.Wait
	}
	orElse(&c.Loops, 1)
	orElse(&c.Name, "netconn")
	orElse(&c.ReceiveBuffer, defaultBuffer)
	orElse(&c.SendBuffer, defaultBuffer)
	orElse(&c.Budget, max(2*c.ReceiveBuffer, leastBudget))
	orElse(&c.AcceptQueue, defaultAcceptQueue)
	orElse(&c.CloseTimeout, defaultCloseTimeout)
	orElse(&c.FallbackDelay, fallbackDelay)
	orElse(&c.Resolver, net.DefaultResolver)
	return nil
}

// orElse sets *v to otherwise if it is zero.
func orElse[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func badArgument(name string, value any) error {
	return fmt.Errorf("netconn: Config.%s %v: %w", name, value, unix.EINVAL)
}
