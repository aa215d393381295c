package netconn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Network is loops that carry connections, listeners and packet sockets with package net's interfaces. All its methods,
// and those of everything made from it, are for any goroutine.
type Network struct {
	engine *xtreme.Engine
	config Config
	loops  []*loop       // each at its index in the group
	next   atomic.Uint32 // loop that the next dial or packet socket goes to
	cancel context.CancelFunc
	ended  chan struct{} // closed when every loop has ended
	err    error         // of the loops; to be read once ended is closed

	closing sync.Once
}

// New makes a Network on an engine and starts its loops.
func New(e *xtreme.Engine, c Config) (*Network, error) {
	if e == nil {
		return nil, fmt.Errorf("netconn: New: engine nil: %w", unix.EINVAL)
	}
	if err := c.complete(e.Settings()); err != nil {
		return nil, err
	}
	orElse(&c.Logger, e.Logger())
	c.Logger = conf.LimitRepeats(c.Logger)
	orElse(&c.Poller.RingKind, e.Settings().Ring)
	if c.Poller.RingKind == conf.RingAuto { // see package documentation
		c.Poller.RingKind = conf.RingEpoll
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Network{engine: e, config: c, cancel: cancel, ended: make(chan struct{})}
	n.loops = make([]*loop, c.Loops)
	made := make(chan struct{}, c.Loops)
	setup := func(r *reactor.Loop) (reactor.Handler, error) {
		l := newLoop(n, r)
		n.loops[r.Index()] = l
		made <- struct{}{}
		return l, nil
	}
	go func() {
		n.err = reactor.RunGroup(ctx, e, c.Loops, setup, reactor.Config{Rest: c.Rest, RxPoll: c.RxPoll, SelectPoll: c.SelectPoll,
			Pin: c.Pin, Poller: c.Poller, Name: c.Name, Grace: c.Grace, Logger: c.Logger})
		for _, l := range n.loops {
			if l != nil { // it was not made, because another one failed before
				l.abandon()
			}
		}
		close(n.ended)
	}()
	for range c.Loops {
		select {
		case <-made:
		case <-n.ended:
			cancel()
			return nil, fmt.Errorf("netconn: New: %w", n.err)
		}
	}
	return n, nil
}

// Close ends the network in good order: listeners are closed, what was written to connections goes out, every connection
// and packet socket is closed, the loops end. Calls that wait return net.ErrClosed. The error joins what went wrong on the
// loops. A second Close waits for the first and returns the same.
func (n *Network) Close() error {
	n.closing.Do(n.cancel)
	<-n.ended
	if n.err != nil {
		return fmt.Errorf("netconn: %w", n.err)
	}
	return nil
}

// Shutdown is Close that waits no longer than ctx lasts: then it aborts what is left, and returns ctx's error while the loops end. Config.Grace
// bounds it as well.
func (n *Network) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("netconn: Shutdown: context nil: %w", unix.EINVAL)
	}
	n.closing.Do(n.cancel)
	select {
	case <-n.ended:
		return n.Close()
	case <-ctx.Done():
	}
	for _, l := range n.loops {
		_ = l.reactor.Shutdown(ctx) // has ended: it does not wait
	}
	return fmt.Errorf("netconn: %w", ctx.Err())
}

// hasOwnTCP reports whether the settings ask for TCP by our own stack.
func (n *Network) hasOwnTCP() bool {
	return n.config.Poller.RingKind == conf.RingOffload && n.engine.Settings().Offload.TCP
}

// isLoop reports whether the caller is one of the loops, which must not wait for another one.
func (n *Network) isLoop() bool {
	self := sys.Goroutine()
	return slices.ContainsFunc(n.loops, func(l *loop) bool { return l.self == self })
}

// pick returns the loop for a connection that is dialled: each in turn.
func (n *Network) pick() *loop {
	if len(n.loops) == 1 {
		return n.loops[0]
	}
	return n.loops[(n.next.Add(1)-1)%uint32(len(n.loops))]
}
