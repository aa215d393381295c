package reactor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// RunGroup runs n loops, each on a goroutine of its own and with a poller of its own: they share nothing. setup runs on
// each loop's goroutine before its first turn, opens its sockets and returns its handler; listeners and UDP sockets
// that all of them open on one address take ReusePort, so that the kernel spreads connections and datagrams over
// the loops. With TCP of our own stack (SX_OFFLOAD_TCP) the loops divide the queues of each interface (xtreme.PollerConfig.QueueShare).
//
//	err := reactor.RunGroup(ctx, engine, 2, func(l *reactor.Loop) (reactor.Handler, error) {
//		_, err := l.Poller().ListenTCP(addr, xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}})
//		return handler, err
//	}, reactor.Config{Rest: reactor.Spin, Pin: []int{2, 3}})
//
// Config.Poller.Memory is for a group of one loop: each poller needs memory of its own.
//
// It returns when all loops have ended: nil after ctx was done. The first loop that fails shuts down the others in good
// order, and the errors are joined, each with its loop's name.
func RunGroup(ctx context.Context, e *xtreme.Engine, n int, setup func(*Loop) (Handler, error), c Config) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("reactor: RunGroup: context nil: %w", unix.EINVAL)
	case e == nil:
		return fmt.Errorf("reactor: RunGroup: engine nil: %w", unix.EINVAL)
	case n < 1:
		return fmt.Errorf("reactor: RunGroup: n %d: want at least 1: %w", n, unix.EINVAL)
	case setup == nil:
		return fmt.Errorf("reactor: RunGroup: setup nil: %w", unix.EINVAL)
	case len(c.Pin) != 0 && len(c.Pin) != n:
		return fmt.Errorf("reactor: RunGroup: Config.Pin %v: want %d processors, one per loop: %w", c.Pin, n, unix.EINVAL)
	case n > 1 && c.Poller.Memory != nil:
		return fmt.Errorf("reactor: RunGroup: Config.Poller.Memory is for one loop, and %d loops would share it: %w", n, unix.EINVAL)
	}
	orElse(&c.Name, "loop")
	check := c
	if err := check.complete(e.Settings()); err != nil {
		return err // before anything is opened
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if len(c.Pin) > 0 {
		e.SettingUnused("SX_LOOP_CPUS", "the loops have Config.Pin, which comes before it")
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		c := c
		if len(c.Pin) > 0 {
			c.Pin = c.Pin[i : i+1]
		} else if !c.Unpinned {
			c.Pin = e.LoopCPU()
		}
		if n > 1 && dividesQueues(e, &c.Poller) {
			c.Poller.QueueShare = xtreme.QueueShare{Index: i, Of: n}
		}
		all.Go(func() {
			errs[i] = fmt.Errorf("reactor: loop \"%s-%d\": runtime.Goexit", c.Name, i) // stays if runMember does not return
			defer func() {
				if errs[i] != nil {
					cancel()
				}
			}()
			errs[i] = runMember(ctx, e, i, setup, c)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// dividesQueues reports whether the loops of a group are to divide the queues of offloaded interfaces: with TCP of our own stack, which a loop
// carries only where it has a queue, unless the configuration says how.
func dividesQueues(e *xtreme.Engine, c *xtreme.PollerConfig) bool {
	s := e.Settings()
	kind := c.RingKind
	orElse(&kind, s.Ring)
	return kind == conf.RingOffload && s.Offload.TCP && c.QueueShare == xtreme.QueueShare{} && len(c.Interfaces) == 0
}

// runMember makes and runs loop i of a group, on its goroutine, until it ends. It pins the thread first: the kernel places memory near the
// processor that touches it first, so the poller's buffers are near the processor that uses them.
func runMember(ctx context.Context, e *xtreme.Engine, i int, setup func(*Loop) (Handler, error), c Config) error {
	name := fmt.Sprintf("%s-%d", c.Name, i)
	wrap := func(err error) error { return fmt.Errorf("reactor: loop %q: %w", name, err) }
	pollerConfig := c.Poller
	c.Name, c.Poller = "", xtreme.PollerConfig{}
	unpin, err := pin(c.Pin)
	if err != nil {
		return wrap(err)
	}
	defer unpin()
	p, err := e.NewPoller(name, pollerConfig)
	if err != nil {
		return wrap(err)
	}
	l, err := newLoop(p, c)
	if err != nil {
		return wrap(errors.Join(err, p.Close()))
	}
	l.index = i
	defer func() {
		if !l.began.Load() { // setup called runtime.Goexit, as a failing test does
			_ = l.Close()
		}
	}()
	if l.handler, err = l.callSetup(setup); err != nil {
		return wrap(errors.Join(err, l.close()))
	}
	return l.Run(ctx)
}

// callSetup calls the function of RunGroup's caller and turns a panic in it into an error.
func (l *Loop) callSetup(setup func(*Loop) (Handler, error)) (h Handler, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Where: "setup", Value: v, Stack: debug.Stack()}
		}
	}()
	if h, err = setup(l); err != nil {
		return nil, fmt.Errorf("setup: %w", err)
	}
	if h == nil {
		return nil, fmt.Errorf("setup: handler nil: %w", unix.EINVAL)
	}
	return h, nil
}
