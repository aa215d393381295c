package xtreme

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// Wait sleeps until one of the rings has something, Wake is called, or ctx ends. It returns ctx.Err(): nil means that the program should poll.
// A signal may end it sooner. It returns at once in the cases of WaitFor. Only the first of several calls with the same context allocates.
//
//	for {
//		n, err := poller.Poll(done[:])
//		...
//		if n == 0 {
//			if err := poller.Wait(ctx); err != nil {
//				return poller.Shutdown(context.Background())
//			}
//		}
//	}
func (p *Poller) Wait(ctx context.Context) error {
	if err := p.mayUse(); err != nil {
		return err
	}
	if ctx == nil {
		return fmt.Errorf("xtreme: poller %q: wait: context nil: %w", p.name, unix.EINVAL)
	}
	if ctx.Done() == nil {
		return p.WaitFor(-1)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.watchContext(ctx)
	if err := p.WaitFor(-1); err != nil {
		return err
	}
	return ctx.Err()
}

// watchContext makes the end of ctx wake the poller. Nothing is to do if the context of the last Wait has the same Done channel, because they
// end together.
func (p *Poller) watchContext(ctx context.Context) {
	if ctx.Done() != p.canceled {
		p.forgetContext()
		p.canceled, p.unwatch = ctx.Done(), context.AfterFunc(ctx, p.Wake)
	}
}

// forgetContext undoes watchContext.
func (p *Poller) forgetContext() {
	if p.unwatch != nil {
		p.unwatch()
	}
	p.canceled, p.unwatch = nil, nil
}

// Shutdown ends the poller in good order. It closes the listeners, then all other sockets, so that data that was sent leaves before FIN. It
// polls until the last socket is closed and lent packets are returned, and then closes the poller (see Close for the errors). Packets that are
// received meanwhile are released unread, and posted functions run. A connection whose peer reads nothing is aborted after its CloseTimeout.
//
// If ctx ends first, Shutdown returns ctx.Err(). The poller stays open then, with its sockets closing; Close aborts them. A program that
// wants to answer the requests that are under way does so before it calls Shutdown; package reactor has that.
//
// An error of a Poll, which may concern one socket only, is returned at once and leaves the poller open as well: Shutdown may be called again.
// Owner only, and not inside a callback (EDEADLK).
func (p *Poller) Shutdown(ctx context.Context) error {
	if err := p.mayClose(); err != nil {
		return err
	}
	if ctx == nil {
		return fmt.Errorf("xtreme: poller %q: shutdown: context nil: %w", p.name, unix.EINVAL)
	}
	var done [64]Completion
	for {
		left, err := p.closeSockets()
		if err != nil {
			return err
		}
		if left == 0 && p.pool.Ledger().Lent == 0 {
			return p.Close()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for n := -1; n != 0; {
			if n, err = p.Poll(done[:]); err != nil {
				return err
			}
			for i := range done[:n] {
				_ = done[i].Packet.Release() // most completions have none
			}
		}
		if p.sockets() == 0 && p.pool.Ledger().Lent == 0 {
			continue
		}
		if err := p.Wait(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// closeSockets starts closing all sockets, listeners first so that no connection is accepted meanwhile, and returns how many are not closed
// completely yet.
func (p *Poller) closeSockets() (left int, err error) {
	for _, listeners := range []bool{true, false} {
		for _, r := range p.Rings() {
			err := r.EachSocket(func(s *Socket) {
				if (s.Kind() == KindListener) == listeners {
					_ = s.Close() // ErrClosed for those that are closing already
				}
			})
			if err != nil && !errors.Is(err, ring.ErrClosed) {
				return 0, fmt.Errorf("xtreme: poller %q: shutdown: %w", p.name, err)
			}
		}
	}
	return p.sockets(), nil
}

// sockets counts the sockets that have a ring, those that are closing included.
func (p *Poller) sockets() (n int) {
	for _, r := range p.Rings() {
		n += r.Sockets()
	}
	return n
}
